"""`python -m benchmarks [members|resources] [--rows N] [--leaders N] [--order shuffled|clustered] [--write]`."""

from __future__ import annotations

import argparse
import shutil
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import report
from benchmarks.measure import Measured, measure
from benchmarks.source import make_source
from benchmarks.verify import rows_in

WAYS = {
    "daybreak": "Daybreak (igzip 2)",
    "daybreak-zlib-ng": "Daybreak (zlib-ng 4)",
    "daybreak-tenth": "Daybreak, a tenth of the Leaders changed",
    "duckdb": "DuckDB COPY ... PARTITION_BY, gzip",
    "polars-6": "Polars partitioned sink, gzip 6",
    "polars-1": "Polars partitioned sink, gzip 1",
    "python": "plain Python csv, json and gzip, one core",
    "limit": "compression alone, both formats, two threads",
}


def main() -> None:
    """Measures what was asked for, prints the table, and writes it into the documentation with `--write`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("job", nargs="?", choices=["members", "resources"], default="members")
    parser.add_argument("--rows", type=int, default=1_000_000, help="Members")
    parser.add_argument("--leaders", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=1_000_000, help="outbound messages (job resources)")
    parser.add_argument("--order", choices=["shuffled", "clustered"], default="shuffled")
    parser.add_argument("--ways", default=",".join(WAYS), help="some of: " + ", ".join(WAYS))
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where data and output go")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and its picture")
    options = parser.parse_args()
    source = make_source(options.folder, options.rows, options.leaders, options.messages, options.order)
    if options.job == "resources":
        measured = _resources(options.folder, source)
    else:
        measured = _members(options.folder, source, options.ways.split(","), options.rows)
    title = f"{options.job}, {options.rows:,} Members, {options.leaders:,} Leaders, {options.order} source"
    print(report.table(measured))
    if options.write:
        report.write(Path("docs"), title, measured, datetime.now(UTC))


def _members(folder: Path, source: Path, ways: list[str], rows: int) -> list[Measured]:
    results = []
    for way in ways:
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        print(f"{WAYS[way]} ...", flush=True)
        result = measure(way, WAYS[way], source, out)
        if way == "limit" or way.endswith("tenth"):
            checked = "-"
        else:
            found = rows_in(out)
            expected = rows if result.scale == 1 else rows // result.scale
            checked = "same rows" if found == {"csv": expected, "json": expected} else f"NOT THE SAME ROWS: {found}"
        results.append(result.with_check(checked))
        shutil.rmtree(out, ignore_errors=True)
    return results


def _resources(folder: Path, source: Path) -> list[Measured]:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    result = measure("daybreak-all", "Daybreak, all nine resources", source, out)
    shutil.rmtree(out, ignore_errors=True)
    return [result]


if __name__ == "__main__":
    main()
