"""Published files of one account, written to a file store on disk."""

import gzip
import io
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource, resource_named
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.engine import ENGINE_TYPES
from daybreak.export.sql import identifier, literal
from daybreak.filestore.local_disk import LocalDisk
from daybreak.insight.published_tables import PublishedTables

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
    match format_name:
        case "csv":
            return gzip.compress(_csv(resource, rows))
        case "parquet":
            return _parquet(resource, rows, folder)
    records = [json.dumps({name: row.get(name) for name in resource.column_names}) for row in rows]
    text = "\n".join([*records, ""]) if format_name == "ndjson" else "[" + ",\n".join(records) + "]\n"
    return gzip.compress(text.encode())


def _csv(resource: Resource, rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    text.write(",".join(f'"{name}"' for name in resource.column_names) + "\n")
    for row in rows:
        cells = []
        for column in resource.columns:
            value = row.get(column.name)
            shown = json.dumps(value) if isinstance(value, bool) else str(value)
            quoted = column.type in (ColumnType.TEXT, ColumnType.UUID)
            cells.append("" if value is None else '"' + shown.replace('"', '""') + '"' if quoted else shown)
        text.write(",".join(cells) + "\n")
    return text.getvalue().encode()


def _parquet(resource: Resource, rows: Sequence[Row], folder: Path) -> bytes:
    path = folder / f"{resource.name}.parquet"
    columns = ", ".join(f"{identifier(column.name)} {ENGINE_TYPES[column.type]}" for column in resource.columns)
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE rows ({columns})")
        for row in rows:
            values = [row.get(name) for name in resource.column_names]
            engine.execute(f"INSERT INTO rows VALUES ({', '.join('?' for _ in values)})", values)
        engine.execute(f"COPY rows TO {literal(str(path))} (FORMAT parquet)")
    return path.read_bytes()
