"""The members job: a CSV and a JSON file, gzipped, of every Leader's Members, by Daybreak and by other ways.

Twice: many Members by the ways that stand close, and fewer by every way, of which some take very long.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from benchmarks.comparison import picture, table
from benchmarks.job import Job, Section
from benchmarks.measure import Measured, measure
from benchmarks.source import make_source, read_once
from benchmarks.verify import check, content_of_source

WAYS = {
    "daybreak": "Daybreak (igzip 2)",
    "daybreak-zlib-ng": "Daybreak (zlib-ng 4)",
    "daybreak-sql": "Daybreak (igzip 2), lines made in SQL",
    "duckdb": "DuckDB COPY ... PARTITION_BY, gzip",
    "polars-6": "Polars partitioned sink, gzip 6",
    "polars-1": "Polars partitioned sink, gzip 1",
    "python": "plain Python csv, json and gzip, one core",
    "limit": "compression alone, a thread a core",
    "spark": "Spark partitionBy, gzip",
    "daybreak-spark": "Daybreak on Spark (igzip 2)",
}
_OURS = "daybreak"
_NEED_JAVA = ("spark", "daybreak-spark")
_FAST = ("daybreak", "duckdb", "polars-6", "limit")
_ONCE = {"python"}
"""So slow that one round is enough to see it."""


def _job(name: str, heading: str, about: str, *, rows: int, by_order: Mapping[str, Sequence[str]]) -> Job:
    """`by_order` gives the ways by the order of the source's rows: what the others show does not hang on it."""

    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--rows", type=int, default=rows, help="Members")
        parser.add_argument("--leaders", type=int, default=5_000)
        parser.add_argument("--orders", default=",".join(by_order), help="orders of the source's rows")
        parser.add_argument("--ways", help="some of: " + ", ".join(WAYS))

    def run(options: argparse.Namespace) -> Section:
        parts, pictures = [], {}
        outs = options.folder / "out"
        shutil.rmtree(outs, ignore_errors=True)
        measured: set[str] = set()
        for order in options.orders.split(","):
            source = make_source(options.folder, options.rows, options.leaders, 1_000_000, order)
            ways = options.ways.split(",") if options.ways else _possible(by_order[order])
            measured.update(ways)
            found = _rounds(outs / order, source, ways, options.rounds)
            drawn = f"benchmarks-{name}-{order}"
            pictures[drawn] = picture(f"Members, {order} source: seconds on the wall", found, WAYS, _OURS)
            parts += [
                f"### {order.capitalize()} source\n",
                table(found, WAYS, _OURS),
                f"\n![Seconds by way](images/{drawn}.svg)\n",
            ]
        shutil.rmtree(outs, ignore_errors=True)
        body = f"{options.rows:,} Members of {options.leaders:,} Leaders.\n\n" + "\n".join(parts) + notes(measured)
        return Section(body, pictures, ("duckdb", "polars", "isal", "zlib-ng", "nanoarrow", "wasmtime", "pyspark"))

    return Job(name, heading, about, add_options, run, rounds=1)


def _possible(ways: Sequence[str]) -> Sequence[str]:
    return [way for way in ways if way not in _NEED_JAVA or shutil.which("java")]


def _rounds(outs: Path, source: Path, ways: Sequence[str], rounds: int) -> dict[str, list[Measured]]:
    """Every way once, then every way again; the first round's files are read back and compared with the source."""
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    expected = content_of_source(source)
    read_once(source)
    for number in range(rounds):
        for way in ways:
            if number and way in _ONCE:
                continue
            # Nothing is removed before the end: for minutes after, ext4 takes longer to make files.
            out = outs / f"{way}-{number}"
            out.mkdir(parents=True)
            # Who syncs at the end must not wait for what others have left to be written.
            os.sync()
            measured = measure(way, source, out)
            found[way].append(measured)
            if number == 0:
                check(out, expected)
            print(f"round {number + 1}, {WAYS[way]}: {measured.wall_seconds:.1f} s", flush=True)
    return found


_NOTES: tuple[tuple[str, str], ...] = (
    (
        "",
        """\
- All have a thread a core, and read the same Parquet files out of the page cache.
- After the first round every file of every way is read back with Python's csv and with msgspec, and every cell of
  every row compared with the source through a sum of hashes of rows; a file must hold one Leader's rows alone.
- Daybreak quotes every text and writes its JSON records as an array, the others one a line. Its seconds include what a
  run needs beside the files: fingerprints, counts of NULLs and of unexpected values, rows in order, SHA-256 of each
  file and its content, and one sync of everything at the end. No other way does any of these.""",
    ),
    (
        "duckdb",
        """\
- DuckDB: one `COPY` for each format with `PARTITION_BY`, `preserve_insertion_order` off and
  `partitioned_write_max_open_files` above the number of Leaders. Its own quoting. Rows sorted by Leader beforehand,
  a larger `partitioned_write_flush_threshold` and more threads than cores were tried and did not help.""",
    ),
    (
        "polars",
        """\
- Polars: the streaming engine, both sinks in one `collect_all`, so that rows are read once, `maintain_order` off,
  its own quoting, no limit on a file's size. Sorting beforehand was tried and did not help. It reads a copy of the
  source with identifiers as text, because it cannot write binary ones to CSV.""",
    ),
    ("python", "- Plain Python: csv, json and gzip at level 6, on one core, of rows sorted by DuckDB; one round."),
    (
        "",
        """\
- No file is removed before the last way is done: ext4 takes longer to make files for minutes after many have gone.
  Before each way everything is synced, so that none waits for what another has left to be written.""",
    ),
    (
        "spark",
        """\
- Spark: one process of Java with a thread a core and 4 GB; rows brought together by Leader, then `partitionBy` for CSV
  and for JSON, gzip. It reads identifiers as text, and its seconds include the start of its session.""",
    ),
    (
        "daybreak-spark",
        """\
- Daybreak on Spark: the same process; how it works is said in [Spark](spark.md).""",
    ),
    (
        "limit",
        """\
- "Compression alone" takes Daybreak's finished text and compresses it with igzip level 2: no way that writes
  these bytes can take less.""",
    ),
)
"""What is said of the ways whose names begin so; "" of all."""


def notes(ways: Collection[str]) -> str:
    """How each of the ways that were measured is set up."""
    said = [text for begins, text in _NOTES if any(way.startswith(begins) for way in ways)]
    return "\nHow each way is set up:\n\n" + "\n".join(said) + "\n"


MANY_MEMBERS = _job(
    "members",
    "One CSV and one JSON file for every Leader",
    "the Members of every Leader, beside the ways that stand close",
    rows=8_000_000,
    by_order={"shuffled": _FAST, "clustered": ("daybreak", "limit")},
)
EVERY_WAY = _job(
    "ways",
    "The same by every way",
    "fewer Members by every way, and from a source in the order of its Leaders",
    rows=1_000_000,
    by_order={"shuffled": tuple(WAYS), "clustered": _FAST},
)
