"""Ways side by side: medians, and ratios to ours."""

from benchmarks.comparison import picture, table
from benchmarks.measure import Measured
from benchmarks.members import notes

TITLES = {"ours": "Daybreak", "peer": "somebody else"}


def took(*walls: float, server: float = 0.0) -> list[Measured]:
    return [Measured(wall, 2 * wall, 10_000_000, 5_000_000, {}, server) for wall in walls]


def test_ratios_are_of_medians_and_to_ours() -> None:
    rows = table({"peer": took(9, 8, 40), "ours": took(2, 4, 3)}, TITLES, "ours").splitlines()
    assert rows[0].count("|") == rows[1].count("|") == rows[2].count("|")
    assert rows[2] == "| somebody else | 9.0 (8.0-40.0) | 18.0 (16.0-80.0) | 3.00 | 3.00 | 10 | 5 |"
    assert rows[3] == "| Daybreak | 3.0 (2.0-4.0) | 6.0 (4.0-8.0) | 1.00 | 1.00 | 10 | 5 |"


def test_without_ours_the_first_way_is_the_measure() -> None:
    assert "| somebody else | 3.0 | 6.0 | 1.00 | 1.00 |" in table({"peer": took(3)}, TITLES, "ours")


def test_seconds_of_servers_are_shown_when_there_are_any() -> None:
    rows = table({"ours": took(2, server=0.5)}, TITLES, "ours").splitlines()
    assert "of it the server" in rows[0]
    assert rows[2].startswith("| Daybreak | 2.0 | 4.0 | 0.5 |")


def test_the_fastest_is_shown_first() -> None:
    svg = picture("Seconds", {"peer": took(9), "ours": took(3)}, TITLES, "ours")
    assert svg.index("Daybreak") < svg.index("somebody else")


def test_the_notes_are_of_what_was_measured() -> None:
    said = notes({"daybreak", "polars-6"})
    assert "Polars:" in said
    assert "DuckDB:" not in said
    assert "Compression alone" not in said
