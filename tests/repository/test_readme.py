"""The README: its length, and figures equal to those of the benchmarks page."""

import re
from pathlib import Path

MAX_LINES = 120


def method_row(page: str, name: str) -> dict[str, str]:
    """Return one row of the first table of the members job by column."""
    section = page.partition("<!-- begin members -->")[2].partition("<!-- end members -->")[0]
    header = next(line for line in section.splitlines() if line.startswith("| Method |"))
    row = next(line for line in section.splitlines() if line.startswith(f"| {name}"))
    return dict(zip(*([cell.strip() for cell in line.split("|")[1:-1]] for line in (header, row)), strict=True))


def test_readme_is_short(project_folder: Path) -> None:
    assert len((project_folder / "README.md").read_text("utf-8").splitlines()) < MAX_LINES


def test_figures_match_the_benchmarks_page(project_folder: Path) -> None:
    read_me = re.sub(r"\s+", " ", (project_folder / "README.md").read_text("utf-8"))
    page = (project_folder / "docs" / "explanation" / "benchmarks.md").read_text("utf-8")
    daybreak, duckdb, polars = (method_row(page, name) for name in ("Daybreak", "DuckDB", "Polars"))
    assert f"become 10,000 files in {daybreak['Time, s'].split()[0]} s" in read_me
    factors = [f"{float(row['Time, ratio']):.1f} times" for row in (duckdb, polars)]
    assert f"takes {factors[0]} as long, Polars {factors[1]}." in read_me
    assert f"needs {daybreak['Peak MB']} MB" in read_me
    assert f"DuckDB needs {duckdb['Peak MB']} MB, Polars {polars['Peak MB']} MB" in read_me
