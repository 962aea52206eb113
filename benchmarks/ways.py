"""The ways: each makes a CSV and a JSON file, gzipped, of every Leader's Members. Peers get their best settings."""

from __future__ import annotations

import csv
import gzip
import json
import resource as system_resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.source import AS_OF, with_text_ids

Told = dict[str, Any]
THREADS = 2
PYTHON_PART = 20
_PIECE_BYTES = 1 << 20


def daybreak(source: Path, out: Path, *, compression: str = "igzip-2", resources: Iterable[str] = ("members",)) -> Told:
    """A run's export into a local disk store, synced and renamed at the end as in a run."""
    return _daybreak(source, out, compression, resources, previous={})


def daybreak_tenth(source: Path, out: Path) -> Told:
    """The second of two runs, when the rows of nine in ten Leaders are what they were. The first is not counted."""
    prints: dict[str, str] = {}
    _daybreak(source, out / "first", "igzip-2", ("members",), previous={}, keep=prints)
    unchanged = {client_id: seen for number, (client_id, seen) in enumerate(sorted(prints.items())) if number % 10}
    started, cpu = time.monotonic(), _cpu_seconds()
    _daybreak(source, out / "second", "igzip-2", ("members",), previous=unchanged)
    return {"wall_seconds": time.monotonic() - started, "cpu_seconds": _cpu_seconds() - cpu}


def _daybreak(
    source: Path,
    out: Path,
    compression: str,
    resources: Iterable[str],
    *,
    previous: dict[str, str],
    keep: dict[str, str] | None = None,
) -> Told:
    from daybreak.catalogue.models import load_models
    from daybreak.domain.snapshot import ManifestEntry
    from daybreak.export import export_resource
    from daybreak.filestore.local_disk import LocalDisk
    from daybreak.sources.duckdb import DuckdbSource

    snapshot_id = "00000000-0000-4000-8000-000000000000"
    sink = LocalDisk(out).stage(snapshot_id)
    reader = DuckdbSource(source, load_models(), memory_bytes=500_000_000, threads=THREADS, temp_dir=out / "spill")
    entries: list[ManifestEntry] = []
    with reader.open(AS_OF) as reading:
        reading.check()
        for name in resources:
            export_resource(
                reading, name, ("csv", "json"), sink, previous=previous, threads=THREADS,
                compression=compression, on_entries=entries.extend,
            )  # fmt: skip
        reading.confirm()
    sink.seal()
    if keep is not None:
        keep.update({entry.client_id: entry.fingerprint for entry in entries if entry.client_id})
    return {}


def duckdb(source: Path, out: Path) -> Told:
    """Two COPYs. As many open files as there are Leaders, or each Leader falls into many files."""
    import duckdb as engine

    from daybreak.catalogue.models import load_models

    with engine.connect(config={"threads": THREADS, "preserve_insertion_order": False}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET partitioned_write_max_open_files = 100000")
        connection.execute(f"CREATE VIEW members AS SELECT * FROM '{source}/members.parquet'")
        select = load_models()["members"].at(AS_OF)
        for options in ("FORMAT csv, HEADER, FORCE_QUOTE *", "FORMAT json"):
            kind = "csv" if "csv" in options else "json"
            connection.execute(
                f"COPY ({select}) TO '{out / kind}' "
                f'({options}, COMPRESSION gzip, PARTITION_BY ("LEADER_ID"), WRITE_PARTITION_COLUMNS, '
                f"FILE_EXTENSION '{kind}.gz')"
            )
    return {}


def polars(source: Path, out: Path, *, level: int) -> Told:
    """The streaming engine's partitioned sinks, one for each format, in one query."""
    import polars as pl

    from daybreak.catalogue.resources import resource_named

    gone = pl.col("subscription_state") == "deleted"
    personal = {"phone_number", "first_name", "last_name", "email", "date_of_birth", "gender", "city", "state",
                "state_code", "country", "country_code", "device_type"}  # fmt: skip
    rows = pl.scan_parquet(with_text_ids(source)).select(
        (pl.when(gone).then(None).otherwise(pl.col(name.lower())) if name.lower() in personal
         else pl.col(name.lower())).alias(name)
        for name in resource_named("members").column_names
    )  # fmt: skip
    for kind in ("csv", "json"):

        def named(arguments: Any, kind: str = kind) -> Path:
            # Many open partitions make it close a file and begin another one for the same Leader.
            return out / kind / f"{arguments.partition_keys.item(0, 0)}-{arguments.index_in_partition}.{kind}.gz"

        (out / kind).mkdir()
        target = pl.PartitionBy(
            out / kind, key="LEADER_ID", include_key=True, file_path_provider=named,
            approximate_bytes_per_file=None,
        )  # fmt: skip
        options: Told = {"compression": "gzip", "compression_level": level, "check_extension": False,
                         "maintain_order": False, "engine": "streaming"}  # fmt: skip
        if kind == "csv":
            rows.sink_csv(target, quote_style="non_numeric", **options)
        else:
            rows.sink_ndjson(target, **options)
    return {}


def python(source: Path, out: Path) -> Told:
    """The standard library, over one row in twenty; what it takes is multiplied."""
    import duckdb as engine

    from daybreak.catalogue.models import load_models

    (out / "csv").mkdir()
    (out / "json").mkdir()
    with engine.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            f"CREATE VIEW members AS SELECT * FROM (SELECT *, row_number() OVER () AS n "
            f"FROM '{source}/members.parquet') WHERE n % {PYTHON_PART} = 0"
        )
        connection.execute(f'SELECT * FROM ({load_models()["members"].at(AS_OF)}) ORDER BY "LEADER_ID", "MEMBER_ID"')
        names = [column[0] for column in connection.description]
        place = names.index("LEADER_ID")

        def rows() -> Iterable[tuple[Any, ...]]:
            while batch := connection.fetchmany(10_000):
                yield from batch

        for leader, own in groupby(rows(), key=lambda row: row[place]):
            with (
                gzip.open(out / "csv" / f"{leader}.csv.gz", "wt", encoding="utf-8", newline="") as text,
                gzip.open(out / "json" / f"{leader}.json.gz", "wt", encoding="utf-8") as records,
            ):
                writer = csv.writer(text)
                writer.writerow(names)
                for row in own:
                    writer.writerow(row)
                    records.write(json.dumps(dict(zip(names, row, strict=True)), default=str) + "\n")
    return {"scale": PYTHON_PART}


def limit(source: Path, out: Path) -> Told:
    """What no way can beat: compressing the finished text with igzip 2, nothing else. The text is made first."""
    from daybreak.export.gzip_member import codec_named

    daybreak(source, out)
    contents = [gzip.decompress(path.read_bytes()) for path in out.rglob("*.gz")]
    codec = codec_named("igzip-2")

    def compress(content: bytes) -> int:
        view = memoryview(content)
        return sum(len(codec.member(view[start : start + _PIECE_BYTES])) for start in range(0, len(view), _PIECE_BYTES))

    started, cpu = time.monotonic(), _cpu_seconds()
    with ThreadPoolExecutor(THREADS) as pool:
        size = sum(pool.map(compress, contents))
    return {
        "wall_seconds": time.monotonic() - started,
        "cpu_seconds": _cpu_seconds() - cpu,
        "output_bytes": size,
    }


def _cpu_seconds() -> float:
    used = system_resource.getrusage(system_resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _all_nine(source: Path, out: Path) -> Told:
    from daybreak.catalogue.resources import RESOURCE_NAMES

    return daybreak(source, out, resources=RESOURCE_NAMES)


BY_NAME: dict[str, Callable[[Path, Path], Told]] = {
    "daybreak": daybreak,
    "daybreak-zlib-ng": lambda source, out: daybreak(source, out, compression="zlib-ng-4"),
    "daybreak-tenth": daybreak_tenth,
    "daybreak-all": _all_nine,
    "duckdb": duckdb,
    "polars-6": lambda source, out: polars(source, out, level=6),
    "polars-1": lambda source, out: polars(source, out, level=1),
    "python": python,
    "limit": limit,
}


def main() -> None:
    """`python -m benchmarks.ways WAY SOURCE OUT`: one line of JSON at the end says what it used."""
    way, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    told = BY_NAME[way](source, out)
    print(json.dumps({"cpu_seconds": _cpu_seconds(), "peak_bytes": _peak_bytes(), **told}))


def _peak_bytes() -> int:
    """The most this process held. (ru_maxrss would begin with what the parent held.)"""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
