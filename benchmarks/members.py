"""Export of the Members of every Leader as gzip CSV and JSON, by Daybreak and by other methods.

Two jobs: many Members with the fast methods, and fewer Members with all methods, some of which are slow.
"""

import argparse
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.comparison import comparison_chart, comparison_table
from benchmarks.job import Job, Section
from benchmarks.measure import Measurement, measure_method
from benchmarks.source import make_source, read_once
from benchmarks.verify import source_content, verify_files

METHODS = {
    "daybreak": "Daybreak (igzip 2)",
    "daybreak-zlib-ng": "Daybreak (zlib-ng 4)",
    "daybreak-sql": "Daybreak (igzip 2), lines encoded in SQL",
    "duckdb": "DuckDB COPY ... PARTITION_BY, gzip",
    "polars-6": "Polars partitioned sink, gzip 6",
    "polars-1": "Polars partitioned sink, gzip 1",
    "python": "Python csv, json and gzip, one core",
    "limit": "compression only, one thread per core",
    "spark": "Spark partitionBy, gzip",
    "daybreak-spark": "Daybreak on Spark (igzip 2)",
}
_BASELINE = "daybreak"
_REQUIRE_JAVA = ("spark", "daybreak-spark")
_FAST = ("daybreak", "duckdb", "polars-6", "limit")
_ONE_ROUND = {"python"}
"""Too slow for more than one round."""


def _job(name: str, heading: str, description: str, *, rows: int, by_order: Mapping[str, Sequence[str]]) -> Job:
    """Return a job. `by_order` maps an order of the source's rows to the methods to run."""

    def run(options: argparse.Namespace) -> Section:
        parts, charts = [], {}
        measured_methods: set[str] = set()
        for order in options.orders.split(","):
            source = make_source(options.folder, options.rows, options.leaders, 1_000_000, order)
            without = () if shutil.which("java") else _REQUIRE_JAVA
            available = [method for method in by_order[order] if method not in without]
            methods = options.methods.split(",") if options.methods else available
            measured_methods.update(methods)
            read_once(source)
            measurements = measure_in_turns(options, methods, source, partial(measure_method, source=source))
            chart = f"benchmarks-{name}-{order}"
            charts[chart] = comparison_chart(f"Members, {order} source: seconds", measurements, METHODS, _BASELINE)
            parts += [
                f"### {order.capitalize()} source\n",
                comparison_table(measurements, METHODS, _BASELINE),
                _text_rate(measurements.get(_BASELINE, ())),
                f"\n![Seconds by method](../images/{chart}.svg)\n",
            ]
        body = (
            f"{options.rows:,} Members of {options.leaders:,} Leaders.\n\n" + "\n".join(parts) + notes(measured_methods)
        )
        return Section(body, charts, ("duckdb", "polars", "isal", "zlib-ng", "nanoarrow", "wasmtime", "pyspark"))

    options = {
        "rows": (rows, "Members"),
        "leaders": (5_000, "Leaders"),
        "orders": (",".join(by_order), "orders of the rows in the source"),
        "methods": ("", "some of: " + ", ".join(METHODS)),
    }
    return Job(name, heading, description, options, run, rounds=1)


def _text_rate(measurements: Sequence[Measurement]) -> str:
    """Return a sentence about the size of the text, before compression."""
    if not measurements:
        return ""
    text_mb = measurements[0].reported["text_bytes"] / 1e6
    seconds = median(one.cpu_seconds for one in measurements)
    return f"\nDaybreak makes {text_mb:,.0f} MB of text, **{text_mb / seconds:,.0f} MB per second and core**.\n"


def measure_in_turns(
    options: argparse.Namespace, methods: Sequence[str], source: Path, measure: Callable[..., Measurement]
) -> dict[str, list[Measurement]]:
    """Run every method once per round. The files of the first round are compared with the source.

    `measure` receives a method and, as `out`, an empty folder.
    """
    measurements: dict[str, list[Measurement]] = {method: [] for method in methods}
    expected = source_content(source)
    for number in range(options.rounds):
        for method in methods:
            if number and method in _ONE_ROUND:
                continue
            out = options.out / source.name / f"{method}-{number}"
            out.mkdir(parents=True)
            # A method that syncs at the end must not wait for the writes of others.
            os.sync()
            measurements[method].append(measure(method, out=out))
            if number == 0:
                verify_files(out, expected)
            print(f"round {number + 1}, {method}: {measurements[method][-1].wall_seconds:.1f} s", flush=True)
    return measurements


_NOTES: tuple[tuple[str, str], ...] = (
    (
        "",
        """\
- Each method uses one thread per core and reads the same Parquet files from the page cache.
- The files of the first round are read with Python's csv and with msgspec. Every cell is compared with the source
  through a sum of row hashes, and each file must contain the rows of one Leader.
- Daybreak quotes every text and writes JSON as an array; the others write one record per line. Its time includes more
  work, which no other method does: fingerprints, counts of NULLs and unexpected values, sorted rows, SHA-256 of each
  file and its content, and one sync at the end.""",
    ),
    (
        "duckdb",
        """\
- DuckDB: one `COPY` per format with `PARTITION_BY`, `preserve_insertion_order` off, and
  `partitioned_write_max_open_files` above the number of Leaders. Sorting by Leader first, a larger
  `partitioned_write_flush_threshold` and more threads did not help.""",
    ),
    (
        "polars",
        """\
- Polars: streaming engine, both sinks in one `collect_all` so that rows are read once, `maintain_order` off, no limit
  on the size of a file. Sorting first did not help. It reads a copy of the source with identifiers as text, because it
  cannot write binary ones to CSV.""",
    ),
    ("python", "- Python: csv, json and gzip level 6 on one core, with rows sorted by DuckDB; one round."),
    (
        "",
        """\
- Files are deleted after the last method, because ext4 creates files more slowly for minutes after deleting many. A
  sync before each method keeps it from waiting for the writes of others.""",
    ),
    (
        "spark",
        """\
- Spark: one Java process with one thread per core and 4 GB. Rows are repartitioned by Leader, then written with
  `partitionBy` as CSV and JSON, gzip. It reads identifiers as text. The time includes the start of the session.""",
    ),
    (
        "daybreak-spark",
        """\
- Daybreak on Spark: the same process, see [Spark](../how-to/spark.md).""",
    ),
    (
        "limit",
        """\
- "Compression only" takes Daybreak's finished text and compresses it with igzip level 2. No method that writes these
  bytes can be faster.""",
    ),
)
"""Notes by the beginning of the method's name, "" for all."""


def notes(methods: Collection[str]) -> str:
    """Return a Markdown list of the configuration of these methods."""
    texts = [text for prefix, text in _NOTES if any(method.startswith(prefix) for method in methods)]
    return "\nHow each method is configured:\n\n" + "\n".join(texts) + "\n"


MANY_MEMBERS = _job(
    "members",
    "One CSV and one JSON file for every Leader",
    "the Members of every Leader, with the fast methods",
    rows=8_000_000,
    by_order={"shuffled": _FAST, "clustered": ("daybreak", "limit")},
)
ALL_METHODS = _job(
    "methods",
    "The same with all methods",
    "fewer Members with all methods, also from a source sorted by Leader",
    rows=1_000_000,
    by_order={"shuffled": tuple(METHODS), "clustered": _FAST},
)
