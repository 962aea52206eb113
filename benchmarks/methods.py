"""Export methods: Daybreak's variants, and the program that runs any method.

A method reads a source and writes to a folder. It reports its own times if only a part of it is to be measured.
"""

from __future__ import annotations

import gzip
import json
import resource as system_resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import peers, spark
from benchmarks.machine import ENGINE_MEMORY_BYTES, cores
from benchmarks.source import AS_OF
from daybreak.catalogue.resources import RESOURCE_NAMES

if TYPE_CHECKING:
    from daybreak.sources.reading import RowSource

THREADS = cores()
Method = Callable[[Path, Path], dict[str, Any] | None]


def daybreak(
    source: Path, out: Path, *, compression: str = "igzip-2", resources: Iterable[str] = ("members",)
) -> dict[str, Any]:
    """Export a folder of Parquet files as a run does."""
    from daybreak.catalogue.models import load_models
    from daybreak.sources.duckdb import DuckdbSource

    reader = DuckdbSource(
        source, load_models(), memory_bytes=ENGINE_MEMORY_BYTES, threads=THREADS, temp_dir=out / "spill"
    )
    return export(reader, out, compression=compression, resources=resources)


def daybreak_from_postgresql(source: Path, out: Path) -> dict[str, Any]:
    """Export from PostgreSQL as a run does. `source` is a file with the URL of the server."""
    from daybreak.catalogue.models import load_models
    from daybreak.sources.postgresql.source import PostgresqlSource

    location = source.read_text("utf-8")
    reader = PostgresqlSource(
        location, load_models(), memory_bytes=ENGINE_MEMORY_BYTES, threads=THREADS, temp_dir=out / "spill"
    )
    return export(reader, out)


def export(
    reader: RowSource, out: Path, *, compression: str = "igzip-2", resources: Iterable[str] = ("members",)
) -> dict[str, Any]:
    """Export to a local disk store, with sync and rename at the end, as a run does. Report the size of the text."""
    from daybreak.export.job import ExportJob, ExportResults
    from daybreak.filestore.local_disk import LocalDisk
    from daybreak.filestore.packs import NO_PACKS

    # A file for each Leader, as the other methods write.
    sink = LocalDisk(out, NO_PACKS).stage("00000000-0000-4000-8000-000000000000")
    results = ExportResults()
    with reader.open(AS_OF) as reading:
        reading.check()
        for name in resources:
            reading.export(ExportJob(name, ("csv", "json"), compression, THREADS), sink, results)
        reading.confirm_unchanged()
    sink.commit()
    return {"text_bytes": sum(one.content_bytes for entry in results.entries for one in entry.formats.values())}


def daybreak_in_sql(source: Path, out: Path) -> dict[str, Any]:
    """Export without the compiled line encoder: DuckDB encodes the lines with SQL."""
    sys.modules["wasmtime"] = None  # type: ignore[assignment]
    return daybreak(source, out)


def limit(source: Path, out: Path, *, resources: Iterable[str] = ("members",)) -> dict[str, Any]:
    """Compress the finished text with igzip 2, one thread per core: a lower bound for every method."""
    from daybreak.export.gzip_member import CODECS, PART_BYTES

    daybreak(source, out, resources=resources)
    codec = CODECS["igzip-2"]

    def compress(content: bytes) -> int:
        view = memoryview(content)
        parts = (codec.part(view[start : start + PART_BYTES], last=True) for start in range(0, len(view), PART_BYTES))
        return sum(len(piece) for pieces, _ in parts for piece in pieces)

    reported: dict[str, dict[str, float]] = {}
    for name in resources:
        contents = [gzip.decompress(path.read_bytes()) for path in out.rglob(f"*.{name}.*.gz")]
        started, cpu = time.monotonic(), cpu_seconds()
        with ThreadPoolExecutor(THREADS) as pool:
            size = sum(pool.map(compress, contents))
        reported[name] = {
            "wall_seconds": time.monotonic() - started,
            "cpu_seconds": cpu_seconds() - cpu,
            "bytes": size,
            "text_bytes": sum(map(len, contents)),
        }
    return {
        "resources": reported,
        "wall_seconds": sum(one["wall_seconds"] for one in reported.values()),
        "cpu_seconds": sum(one["cpu_seconds"] for one in reported.values()),
        "output_bytes": sum(one["bytes"] for one in reported.values()),
    }


BY_NAME: dict[str, Method] = {
    "daybreak": daybreak,
    "daybreak-postgresql": daybreak_from_postgresql,
    "daybreak-sql": daybreak_in_sql,
    "daybreak-zlib-ng": partial(daybreak, compression="zlib-ng-4"),
    "limit": limit,
    "limit-all": partial(limit, resources=RESOURCE_NAMES),
    "duckdb": partial(peers.duckdb, threads=THREADS),
    "polars-6": partial(peers.polars, level=6),
    "polars-1": partial(peers.polars, level=1),
    "python": peers.python,
    "spark": spark.partitioned,
    "daybreak-spark": spark.daybreak,
}


def cpu_seconds() -> float:
    """Return the CPU seconds of this process so far."""
    used = system_resource.getrusage(system_resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run `python -m benchmarks.methods METHOD SOURCE OUT`. The last line of output is the method's report as JSON."""
    method, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    print(json.dumps(BY_NAME[method](source, out) or {}))


if __name__ == "__main__":
    main()
