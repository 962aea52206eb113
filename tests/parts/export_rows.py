"""Test rows in the form that the export engine reads, and a sink that keeps files in memory."""

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from daybreak.catalogue.resources import RESOURCE_NAMES, Resource, resource_named
from daybreak.domain.errors import FileStoreError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export.engine import ENGINE_TYPES, open_engine
from daybreak.export.job import ExportJob, ExportResults
from daybreak.filestore.file_store import WrittenFile
from daybreak.sources.reading import Reading

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)

CORPORA = Path(__file__).parent.parent / "vendored"


def naughty_strings() -> list[str]:
    """Return texts that often break readers and writers: two public corpora and a few additions."""
    texts: list[str] = json.loads((CORPORA / "blns" / "blns.json").read_text("utf-8"))
    for path in sorted((CORPORA / "csv-spectrum").glob("*.json")):
        for row in json.loads(path.read_text("utf-8")):
            texts += [*row.keys(), *row.values()]
    return [
        *texts,
        "",
        '"',
        '""',
        ",",
        "\n",
        "\r\n",
        "\\",
        '\\"',
        "\\\\n",
        "\x00",
        "a\x00b",
        "\ufeffBOM",
        "\u2028\u2029",
        "null",
        "NULL",
        ",\n",
        "},\n{",
        "=1+1",
        "'",
        "".join(map(chr, range(0xA0))),
        "\U0001f469\u200d\U0001f680",
        "\u202eright to left",
    ]


def export_job(
    resource: str,
    formats: Sequence[str] = ("csv", "json"),
    *,
    compression: str = "igzip-2",
    threads: int = 2,
    previous: Mapping[str, str] | None = None,
) -> ExportJob:
    """Return a job with the defaults of a run."""
    return ExportJob(resource, tuple(formats), compression, threads, previous or {})


def all_entries(reading: Reading, formats: Sequence[str] = ("csv", "json")) -> list[ManifestEntry]:
    """Export every resource of a reading. Return the manifest entries by resource and client_id."""
    results = ExportResults()
    for resource in RESOURCE_NAMES:
        reading.export(export_job(resource, formats), MemorySink(), results)
    return sorted(results.entries, key=lambda entry: (entry.resource, entry.client_id))


class MemorySink:
    """A `FileSink` that keeps the files: `files[(client_id, resource, format)]`. `earlier` has the files of earlier
    snapshots by key.
    """

    packs = False

    def __init__(self, earlier: Mapping[str, bytes] | None = None) -> None:
        self.files: dict[tuple[str, str, str], bytes] = {}
        self.earlier = earlier or {}
        self._lock = threading.Lock()

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        content = b"".join(pieces)
        with self._lock:
            assert (client_id, resource, format) not in self.files, "written twice"
            self.files[client_id, resource, format] = content
        digest = hashlib.sha256(content).hexdigest()
        return WrittenFile(f"{resource}/{client_id}.{format}", len(content), digest)

    def read(self, key: str) -> Iterator[bytes]:
        if key not in self.earlier:
            raise FileStoreError(f"The file {key} cannot be read: No such file or directory.")
        content = self.earlier[key]
        yield from (content[start : start + 10_000] for start in range(0, len(content), 10_000))

    def reuse(self, key: str, size_bytes: int) -> str:
        return key

    def commit(self) -> None:
        pass

    def discard(self) -> None:
        pass


@dataclass(frozen=True)
class SampleRows:
    """`EmbeddedRows` over the tables `sample_RESOURCE` of an engine."""

    connection: duckdb.DuckDBPyConnection
    known: Sequence[str]

    def leaders(self) -> list[str]:
        return sorted(self.known)

    def rows_query(self, resource: str) -> str:
        return f"SELECT * FROM sample_{resource}"

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self.connection.cursor()


@contextmanager
def sample_rows(
    temp_dir: Path,
    rows: Mapping[str, Sequence[Sequence[object]]],
    leaders: Sequence[str],
    *,
    threads: int = 2,
    memory_bytes: int = 256_000_000,
) -> Iterator[SampleRows]:
    """Open an engine with these rows: Python values by resource, in the order of its columns."""
    connection = open_engine(memory_bytes=memory_bytes, threads=threads, temp_dir=temp_dir)
    try:
        for name, values in rows.items():
            _make_table(connection, resource_named(name), values)
        yield SampleRows(connection, leaders)
    finally:
        connection.close()


def _make_table(connection: duckdb.DuckDBPyConnection, resource: Resource, values: Sequence[Sequence[object]]) -> None:
    columns = ", ".join(f'"{column.name}" {ENGINE_TYPES[column.type]}' for column in resource.columns)
    connection.execute(f"CREATE TABLE sample_{resource.name} ({columns})")
    if values:
        # One list per column. One statement per row would be slower than the test itself.
        lists = [list(column) for column in zip(*values, strict=True)]
        unnested = ", ".join(
            f"unnest(CAST(${number} AS {ENGINE_TYPES[column.type]}[]))"
            for number, column in enumerate(resource.columns, start=1)
        )
        connection.execute(f"INSERT INTO sample_{resource.name} SELECT {unnested}", lists)
