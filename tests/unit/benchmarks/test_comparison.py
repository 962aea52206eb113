"""Comparison tables, charts and notes."""

from benchmarks.comparison import comparison_chart, comparison_table
from benchmarks.measure import Measurement
from benchmarks.members import notes

TITLES = {"daybreak": "Daybreak", "peer": "another tool"}


def measurements(*walls: float, server: float = 0.0) -> list[Measurement]:
    return [Measurement(wall, 2 * wall, 10_000_000, 5_000_000, {}, server) for wall in walls]


def test_ratios_compare_medians_with_daybreak() -> None:
    rows = comparison_table(
        {"peer": measurements(9, 8, 40), "daybreak": measurements(2, 4, 3)}, TITLES, "daybreak"
    ).splitlines()
    assert rows[0].count("|") == rows[1].count("|") == rows[2].count("|")
    assert rows[2] == "| another tool | 9.0 (8.0-40.0) | 18.0 (16.0-80.0) | 3.00 | 3.00 | 10 | 5 |"
    assert rows[3] == "| Daybreak | 3.0 (2.0-4.0) | 6.0 (4.0-8.0) | 1.00 | 1.00 | 10 | 5 |"


def test_ratios_use_the_first_method_without_daybreak() -> None:
    assert "| another tool | 3.0 | 6.0 | 1.00 | 1.00 |" in comparison_table(
        {"peer": measurements(3)}, TITLES, "daybreak"
    )


def test_server_seconds_are_shown_if_measured() -> None:
    rows = comparison_table({"daybreak": measurements(2, server=0.5)}, TITLES, "daybreak").splitlines()
    assert "of which server" in rows[0]
    assert rows[2].startswith("| Daybreak | 2.0 | 4.0 | 0.5 |")


def test_fastest_method_is_first() -> None:
    svg = comparison_chart("Seconds", {"peer": measurements(9), "daybreak": measurements(3)}, TITLES, "daybreak")
    assert svg.index("Daybreak") < svg.index("another tool")


def test_notes_cover_only_measured_methods() -> None:
    text = notes({"daybreak", "polars-6"})
    assert "Polars:" in text
    assert "DuckDB:" not in text
    assert "Compression only" not in text
