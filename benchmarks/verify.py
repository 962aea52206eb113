"""Verifies the files of a method: reads them back and compares all cells with the source.

Files are read with Python's csv and with msgspec.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import msgspec
from isal import isal_zlib

from benchmarks.source import AS_OF
from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import Resource, resource_named

_MASK = (1 << 64) - 1
_RECORDS = msgspec.json.Decoder(list[dict[str, Any]])
_RECORD = msgspec.json.Decoder(dict[str, Any])


class RowMismatch(Exception):
    """Files have other rows than the source, or a file has rows of several Leaders."""


@dataclass(frozen=True, slots=True)
class Content:
    """Number of rows and sum of their hashes, which does not depend on their order. Only valid within one process."""

    rows: int
    digest: int


@dataclass(frozen=True, slots=True)
class Expected:
    """Content of the source. In `csv`, NULL and the empty text are equal, as for CSV readers."""

    csv: Content
    json: Content


def source_content(source: Path, name: str = "members") -> Expected:
    """Return the content of a resource: its model on the Parquet files."""
    resource = resource_named(name)
    cells = _Cells(resource)
    in_csv, in_json = _Sum(), _Sum()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        for path in source.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
        columns = ", ".join(f'CAST("{column}" AS VARCHAR)' for column in resource.column_names)
        connection.execute(f"SELECT {columns} FROM ({load_models()[name].at(AS_OF)})")
        while batch := connection.fetchmany(20_000):
            rows = cells.normalize(batch)
            in_json.add(rows)
            in_csv.add(tuple(cell or "" for cell in row) for row in rows)
    return Expected(in_csv.content(), in_json.content())


def verify_files(out: Path, expected: Expected, name: str = "members") -> int:
    """Read all files in a folder and return their number. Raises RowMismatch."""
    resource = resource_named(name)
    cells = _Cells(resource)
    leader_index = resource.column_names.index("LEADER_ID")
    in_csv, in_json = _Sum(), _Sum()
    paths = list(out.rglob("*.gz"))
    for path in paths:
        content = isal_zlib.decompress(path.read_bytes(), 31)
        is_csv = ".csv" in path.name or path.parent.name == "csv"
        rows = cells.normalize(_csv_rows(content, resource) if is_csv else _json_rows(content, resource))
        if len({row[leader_index] for row in rows}) > 1:
            raise RowMismatch(f"{path} has rows of several Leaders")
        (in_csv if is_csv else in_json).add(rows)
    for kind, found, wanted in (("CSV", in_csv, expected.csv), ("JSON", in_json, expected.json)):
        if found.content() != wanted:
            raise RowMismatch(f"{out}: {kind} has {found.rows:,} rows, the source {wanted.rows:,}, or cells differ")
    return len(paths)


class _Sum:
    def __init__(self) -> None:
        self.rows = 0
        self._digest = 0

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            self.rows += 1
            self._digest = (self._digest + hash(row)) & _MASK

    def content(self) -> Content:
        return Content(self.rows, self._digest)


class _Cells:
    """Normalizes values that methods write differently: instants, booleans and numbers."""

    def __init__(self, resource: Resource) -> None:
        types = [column.type for column in resource.columns]
        self._times = [place for place, kind in enumerate(types) if kind is ColumnType.TIMESTAMP]
        self._others = [place for place, kind in enumerate(types) if kind in {ColumnType.BIGINT, ColumnType.BOOLEAN}]

    def normalize(self, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
        normalized = []
        for row in rows:
            cells = list(row)
            for place in self._times:
                if cells[place]:
                    cells[place] = _instant(cells[place])
            for place in self._others:
                if cells[place] is not None:
                    cells[place] = str(cells[place]).lower()
            normalized.append(tuple(cells))
        return normalized


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)


def _csv_rows(content: bytes, resource: Resource) -> Iterable[Sequence[str]]:
    reader = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
    if tuple(next(reader)) != resource.column_names:
        raise RowMismatch("the header of a CSV file differs from the columns of the resource")
    return reader


def _json_rows(content: bytes, resource: Resource) -> Iterable[Sequence[Any]]:
    # Some writers omit columns that are NULL.
    empty = dict.fromkeys(resource.column_names)
    cells_of = itemgetter(*resource.column_names)
    records = _RECORDS.decode(content) if content.startswith(b"[") else _RECORD.decode_lines(content)
    return [cells_of(empty | record) for record in records]
