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

import msgspec
from isal import isal_zlib

from benchmarks.source import members_model, open_members
from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import resource_named

_MEMBERS = resource_named("members")
_TIMES = [place for place, column in enumerate(_MEMBERS.columns) if column.type is ColumnType.TIMESTAMP]
_MASK = (1 << 64) - 1
_RECORDS = msgspec.json.Decoder(list[dict[str, Any]])
_RECORD = msgspec.json.Decoder(dict[str, Any])


class RowMismatch(Exception):
    """Files have other rows than the source, or a file has rows of several Leaders."""


@dataclass(slots=True)
class Content:
    """Number of rows and sum of their hashes, which does not depend on their order. Only valid within one process."""

    rows: int = 0
    digest: int = 0

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            self.rows += 1
            self.digest = (self.digest + hash(row)) & _MASK


@dataclass(frozen=True, slots=True)
class Expected:
    """Content of the source. In `csv`, NULL and the empty text are equal, as for CSV readers."""

    csv: Content
    json: Content


def source_content(source: Path) -> Expected:
    """Return the content of the Members: their model on the Parquet files."""
    in_csv, in_json = Content(), Content()
    with open_members(source) as connection:
        columns = ", ".join(f'CAST("{name}" AS VARCHAR)' for name in _MEMBERS.column_names)
        connection.execute(f"SELECT {columns} FROM ({members_model()})")
        while batch := connection.fetchmany(20_000):
            rows = _normalized(batch)
            in_json.add(rows)
            in_csv.add(tuple(cell or "" for cell in row) for row in rows)
    return Expected(in_csv, in_json)


def verify_files(out: Path, expected: Expected) -> None:
    """Read all files of Members in a folder. Raises RowMismatch."""
    leader_index = _MEMBERS.column_names.index("LEADER_ID")
    in_csv, in_json = Content(), Content()
    for path in out.rglob("*.gz"):
        content = isal_zlib.decompress(path.read_bytes(), 31)
        is_csv = ".csv" in path.name or path.parent.name == "csv"
        rows = _normalized(_csv_rows(content) if is_csv else _json_rows(content))
        if len({row[leader_index] for row in rows}) > 1:
            raise RowMismatch(f"{path} has rows of several Leaders")
        (in_csv if is_csv else in_json).add(rows)
    for kind, found, wanted in (("CSV", in_csv, expected.csv), ("JSON", in_json, expected.json)):
        if found != wanted:
            raise RowMismatch(f"{out}: {kind} has {found.rows:,} rows, the source {wanted.rows:,}, or cells differ")


def _normalized(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return rows without differences in how methods write instants."""
    normalized = []
    for row in rows:
        cells = list(row)
        for place in _TIMES:
            if cells[place]:
                cells[place] = _instant(cells[place])
        normalized.append(tuple(cells))
    return normalized


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)


def _csv_rows(content: bytes) -> Iterable[Sequence[str]]:
    reader = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
    if tuple(next(reader)) != _MEMBERS.column_names:
        raise RowMismatch("the header of a CSV file differs from the columns of the resource")
    return reader


def _json_rows(content: bytes) -> Iterable[Sequence[Any]]:
    # Some writers omit columns that are NULL.
    empty = dict.fromkeys(_MEMBERS.column_names)
    cells_of = itemgetter(*_MEMBERS.column_names)
    records = _RECORDS.decode(content) if content.startswith(b"[") else _RECORD.decode_lines(content)
    return [cells_of(empty | record) for record in records]
