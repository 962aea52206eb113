"""One small platform in two engines, and what an engine makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock

import duckdb
import psycopg

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource
from daybreak.ports import EmbeddedReading, WrittenFile

AS_OF = datetime(2026, 11, 20, 3, 12, tzinfo=UTC)

_TYPES = {
    ColumnType.UUID: "uuid",
    ColumnType.TEXT: "text",
    ColumnType.BIGINT: "bigint",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamptz",
}


@dataclass
class KeptFiles:
    """A FileSink that keeps the bytes in memory."""

    files: dict[str, bytes] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        content = b"".join(pieces)
        key = f"{client_id}/{resource}.{format}"
        with self._lock:
            self.files[key] = content
        return WrittenFile(key, len(content), sha256(content).hexdigest())

    def carry(self, key: str) -> str:
        return key

    def seal(self) -> None:
        """Nothing to make durable."""

    def discard(self) -> None:
        self.files.clear()


def all_entries(reading: EmbeddedReading, formats: tuple[str, ...] = ("csv", "json")) -> list[ManifestEntry]:
    """The manifest of everything in a reading, sorted."""
    entries: list[ManifestEntry] = []
    for resource in RESOURCES:
        export_resource(reading, resource, formats, KeptFiles(), on_entries=entries.extend)
    return sorted(entries, key=lambda entry: (entry.resource, entry.client_id))


def fill_postgresql(url: str, parquet: Path) -> None:
    """Copies the thirteen Parquet files of a platform into tables of the same names."""
    with (
        closing(duckdb.connect()) as engine,
        psycopg.connect(url) as server,
        server.cursor() as cursor,
    ):
        for table in SOURCE_TABLES:
            columns = ", ".join(f"{c.name} {_TYPES[c.type]}" for c in table.columns)
            cursor.execute(f"CREATE TABLE {table.name} ({columns})".encode())
            names = ", ".join(
                f"{c.name}::TIMESTAMP::VARCHAR || '+00'" if c.type is ColumnType.TIMESTAMP else f"{c.name}::VARCHAR"
                for c in table.columns
            )
            rows = engine.execute(f"SELECT {names} FROM read_parquet('{parquet / table.name}.parquet')")
            listed = ", ".join(c.name for c in table.columns)
            with cursor.copy(f"COPY {table.name} ({listed}) FROM STDIN".encode()) as copy:
                while batch := rows.fetchmany(10_000):
                    for row in batch:
                        copy.write_row(row)
