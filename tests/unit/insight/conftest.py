"""Published files of one account, written to a file store on disk."""

import gzip
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.engine import ENGINE_TYPES
from daybreak.export.sql import identifier, literal
from daybreak.filestore.local_disk import LocalDisk
from daybreak.insight.published_tables import PublishedTables
from tests.parts.csv_content import csv_bytes

Row = Mapping[str, object]


@dataclass(frozen=True)
class Published:
    """Files of some resources in one store."""

    store: LocalDisk
    entries: Mapping[str, ManifestEntry]

    @contextmanager
    def open(self) -> Iterator[PublishedTables]:
        """Open every file."""
        with PublishedTables.open(self.store, list(self.entries.values())) as tables:
            yield tables


@pytest.fixture
def publish(tmp_path: Path) -> Callable[..., Published]:
    """A function that writes rows of resources in one format. Columns that a row leaves out are NULL."""

    def write(format_name: str = "csv", **resources: Sequence[Row]) -> Published:
        store = LocalDisk(tmp_path / "files")
        sink = store.stage(str(uuid.uuid4()))
        entries = {}
        for name, rows in resources.items():
            content = encode(resource_named(name), rows, format_name, tmp_path)
            written = sink.write("6f0c3a52-77a4-4d4c-9ad6-0b1f2f0ec6b1", name, format_name, [content])
            stored = StoredFormat(written.bytes, written.sha256, len(content), written.sha256, written.key)
            entries[name] = ManifestEntry("client", name, len(rows), "0" * 32, {format_name: stored})
        sink.commit()
        return Published(store, entries)

    return write


def encode(resource: Resource, rows: Sequence[Row], format_name: str, folder: Path) -> bytes:
    """Return a file as Daybreak publishes it."""
    values = [[row.get(name) for name in resource.column_names] for row in rows]
    match format_name:
        case "csv":
            return gzip.compress(csv_bytes(resource, values))
        case "parquet":
            return _parquet(resource, values, folder)
    records = [json.dumps(dict(zip(resource.column_names, row, strict=True))) for row in values]
    text = "\n".join([*records, ""]) if format_name == "ndjson" else "[" + ",\n".join(records) + "]\n"
    return gzip.compress(text.encode())


def _parquet(resource: Resource, rows: list[list[object]], folder: Path) -> bytes:
    path = folder / f"{resource.name}.parquet"
    columns = ", ".join(f"{identifier(column.name)} {ENGINE_TYPES[column.type]}" for column in resource.columns)
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE rows ({columns})")
        for row in rows:
            engine.execute(f"INSERT INTO rows VALUES ({', '.join('?' for _ in row)})", row)
        engine.execute(f"COPY rows TO {literal(str(path))} (FORMAT parquet)")
    return path.read_bytes()
