"""The ways Daybreak's own engine is measured, and the program that runs one way of any kind.

A way reads a source and writes into a folder. It may tell its own seconds, when only a part of it counts.
"""

from __future__ import annotations

import gzip
import json
import resource as system_resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks import peers, spark
from benchmarks.machine import cores
from benchmarks.source import AS_OF

if TYPE_CHECKING:
    from daybreak.ports.sources import EmbeddedReading, RowSource

THREADS = cores()
MEMORY_BYTES = 640_000_000
"""What a run with the limit of 1 GB gives its engine."""

Way = Callable[[Path, Path], dict[str, Any]]


def daybreak(
    source: Path, out: Path, *, compression: str = "igzip-2", resources: Iterable[str] = ("members",)
) -> dict[str, Any]:
    """A run's export from a folder of Parquet files."""
    from daybreak.catalogue.models import load_models
    from daybreak.sources.duckdb import DuckdbSource

    reader = DuckdbSource(source, load_models(), memory_bytes=MEMORY_BYTES, threads=THREADS, temp_dir=out / "spill")
    return export(reader, out, compression=compression, resources=resources)


def daybreak_from_postgresql(source: Path, out: Path) -> dict[str, Any]:
    """The same from PostgreSQL. `source` is a file with the server's address."""
    from daybreak.catalogue.models import load_models
    from daybreak.sources.postgresql import PostgresqlSource

    location = source.read_text("utf-8")
    reader = PostgresqlSource(
        location, load_models(), memory_bytes=MEMORY_BYTES, threads=THREADS, temp_dir=out / "spill"
    )
    return export(reader, out)


def export(
    reader: RowSource, out: Path, *, compression: str = "igzip-2", resources: Iterable[str] = ("members",)
) -> dict[str, Any]:
    """A run's export into a local disk store, synced and renamed at the end as in a run."""
    from daybreak.domain.snapshot import ManifestEntry
    from daybreak.export import export_resource
    from daybreak.filestore.local_disk import LocalDisk

    sink = LocalDisk(out).stage("00000000-0000-4000-8000-000000000000")
    entries: list[ManifestEntry] = []
    with reader.open(AS_OF) as reading:
        reading.check()
        for name in resources:
            export_resource(
                cast("EmbeddedReading", reading), name, ("csv", "json"), sink, threads=THREADS, compression=compression,
                on_entries=entries.extend,
            )  # fmt: skip
        reading.confirm()
    sink.seal()
    return {}


def daybreak_in_sql(source: Path, out: Path) -> dict[str, Any]:
    """The same where no process may make code: the compiled encoder cannot run, the engine's SQL makes the lines."""
    sys.modules["wasmtime"] = None  # type: ignore[assignment]
    return daybreak(source, out)


def limit(source: Path, out: Path, *, resources: Iterable[str] = ("members",)) -> dict[str, Any]:
    """What no way can beat: compressing the finished text with igzip 2, a thread a core. The text comes first."""
    from daybreak.export.gzip_member import PART_BYTES, codec_named

    daybreak(source, out, resources=resources)
    codec = codec_named("igzip-2")

    def compress(content: bytes) -> int:
        view = memoryview(content)
        return sum(len(codec.member(view[start : start + PART_BYTES])) for start in range(0, len(view), PART_BYTES))

    took: dict[str, dict[str, float]] = {}
    for name in resources:
        contents = [gzip.decompress(path.read_bytes()) for path in out.rglob(f"*.{name}.*.gz")]
        started, cpu = time.monotonic(), cpu_seconds()
        with ThreadPoolExecutor(THREADS) as pool:
            size = sum(pool.map(compress, contents))
        took[name] = {
            "wall_seconds": time.monotonic() - started,
            "cpu_seconds": cpu_seconds() - cpu,
            "bytes": size,
            "text_bytes": sum(map(len, contents)),
        }
    return {
        "resources": took,
        "wall_seconds": sum(one["wall_seconds"] for one in took.values()),
        "cpu_seconds": sum(one["cpu_seconds"] for one in took.values()),
        "output_bytes": sum(one["bytes"] for one in took.values()),
    }


def _limit_of_all(source: Path, out: Path) -> dict[str, Any]:
    from daybreak.catalogue.resources import RESOURCE_NAMES

    return limit(source, out, resources=RESOURCE_NAMES)


def _peer(way: Callable[..., None], **settings: Any) -> Way:
    def run(source: Path, out: Path) -> dict[str, Any]:
        way(source, out, **settings)
        return {}

    return run


BY_NAME: dict[str, Way] = {
    "daybreak": daybreak,
    "daybreak-postgresql": daybreak_from_postgresql,
    "daybreak-sql": daybreak_in_sql,
    "daybreak-zlib-ng": lambda source, out: daybreak(source, out, compression="zlib-ng-4"),
    "limit": limit,
    "limit-all": _limit_of_all,
    "duckdb": _peer(peers.duckdb, threads=THREADS),
    "polars-6": _peer(peers.polars, level=6),
    "polars-1": _peer(peers.polars, level=1),
    "python": _peer(peers.python),
    "spark": spark.partitioned,
    "daybreak-spark": spark.daybreak,
}


def cpu_seconds() -> float:
    """Seconds this process used on all cores so far."""
    used = system_resource.getrusage(system_resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """`python -m benchmarks.ways WAY SOURCE OUT`: one line of JSON at the end tells what the way tells."""
    way, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    print(json.dumps(BY_NAME[way](source, out)))


if __name__ == "__main__":
    main()
