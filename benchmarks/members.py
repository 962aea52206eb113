"""The members job: a CSV and a JSON file, gzipped, of every Leader's Members, by Daybreak and by other ways."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.job import Job, Section
from benchmarks.measure import Measured, measure, spread
from benchmarks.picture import Bar, bars
from benchmarks.source import make_source
from benchmarks.verify import Expected, check, content_of_source

WAYS = {
    "daybreak": "Daybreak (igzip 2)",
    "daybreak-zlib-ng": "Daybreak (zlib-ng 4)",
    "duckdb": "DuckDB COPY ... PARTITION_BY, gzip",
    "polars-6": "Polars partitioned sink, gzip 6",
    "polars-1": "Polars partitioned sink, gzip 1",
    "python": "plain Python csv, json and gzip, one core",
    "limit": "compression alone, two threads",
}
_OURS = "daybreak"
_ONCE = {"python"}
"""So slow that one round is enough to see it."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="Members")
    parser.add_argument("--leaders", type=int, default=5_000)
    parser.add_argument("--orders", default="shuffled,clustered", help="orders of the source's rows")
    parser.add_argument("--ways", default=",".join(WAYS), help="some of: " + ", ".join(WAYS))


def _run(options: argparse.Namespace) -> Section:
    parts, pictures = [], {}
    for order in options.orders.split(","):
        source = make_source(options.folder, options.rows, options.leaders, 1_000_000, order)
        ways = options.ways.split(",")
        found = _rounds(options.folder, source, ways, options.rounds)
        name = f"benchmarks-members-{order}"
        pictures[name] = _picture(f"Members, {order} source: seconds on the wall", found)
        parts += [f"### {order.capitalize()} source\n", _table(found), f"\n![Seconds by way](images/{name}.svg)\n"]
    body = f"{options.rows:,} Members of {options.leaders:,} Leaders.\n\n" + "\n".join(parts) + _NOTES
    return Section(body, pictures, ("duckdb", "polars", "isal", "zlib-ng", "nanoarrow"))


def _rounds(folder: Path, source: Path, ways: Sequence[str], rounds: int) -> dict[str, list[Measured]]:
    """Every way once, then every way again; the first round's files are read back and compared with the source."""
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    expected: Expected = content_of_source(source)
    out = folder / "out"
    for number in range(rounds):
        for way in ways:
            if number and way in _ONCE:
                continue
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            measured = measure(way, source, out)
            found[way].append(measured)
            if number == 0:
                check(out, expected)
            print(f"round {number + 1}, {WAYS[way]}: {measured.wall_seconds:.1f} s", flush=True)
    shutil.rmtree(out, ignore_errors=True)
    return found


def _table(found: dict[str, list[Measured]]) -> str:
    ours = found[_OURS] if _OURS in found else next(iter(found.values()))
    lines = [
        "| Way | Wall, s | CPU, s | Times ours, wall | Times ours, CPU | Peak MB | Output MB |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for way, measured in found.items():
        walls, cores = [one.wall_seconds for one in measured], [one.cpu_seconds for one in measured]
        lines.append(
            f"| {WAYS[way]} | {spread(walls)} | {spread(cores)} "
            f"| {median(walls) / median(one.wall_seconds for one in ours):.2f} "
            f"| {median(cores) / median(one.cpu_seconds for one in ours):.2f} "
            f"| {max(one.peak_bytes for one in measured) / 1e6:,.0f} "
            f"| {measured[0].output_bytes / 1e6:,.0f} |"
        )
    return "\n".join(lines)


def _picture(title: str, found: dict[str, list[Measured]]) -> str:
    seconds = {way: median(one.wall_seconds for one in measured) for way, measured in found.items()}
    shown = sorted(seconds, key=seconds.__getitem__)
    return bars(title, [Bar(WAYS[way], seconds[way], f"{seconds[way]:.1f} s", way.startswith(_OURS)) for way in shown])


_NOTES = """
- "Compression alone" takes the finished text and compresses it with igzip level 2 in two threads: the floor under
  every way that writes the same bytes.
- Daybreak's seconds include the survey of the rows (fingerprints, NULLs, unexpected values), SHA-256 of file and
  content, and one sync of everything at the end. The others neither sum nor sync.
- DuckDB, Polars and plain Python write one JSON record a line where Daybreak writes an array; DuckDB and Polars quote
  a little differently. The rows are the same.
"""

JOB = Job(
    "members",
    "One CSV and one JSON file for every Leader",
    "the Members of every Leader, beside other ways to write them",
    _add_options,
    _run,
)
