"""Strict readers of files: they accept only what the contract allows."""

import json
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource

Cells = tuple[Any, ...]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_QUOTED_TYPES = {ColumnType.TEXT, ColumnType.UUID}


def unpack(stored: bytes) -> bytes:
    """Return the content of a single gzip member with mtime 0. Raises AssertionError for anything else."""
    assert stored[:4] == b"\x1f\x8b\x08\x00", "not gzip, or with a file name or comment"
    assert stored[4:8] == b"\0\0\0\0", "mtime is not zero"
    reader = zlib.decompressobj(wbits=31)
    content = reader.decompress(stored) + reader.flush()
    assert reader.eof, "the stream is truncated"
    assert not reader.unused_data, "data after the first member"
    return content


def read_csv_gz(stored: bytes, resource: Resource) -> list[Cells]:
    """Return the typed rows of a CSV file. Raises AssertionError if a byte violates the contract."""
    text = unpack(stored).decode("utf-8")
    header = ",".join(f'"{column.name}"' for column in resource.columns) + "\n"
    assert text.startswith(header), text[:200]
    rows = []
    for record in _records(text[len(header) :]):
        assert len(record) == len(resource.columns), record
        rows.append(tuple(_csv_cell(cell, column) for cell, column in zip(record, resource.columns, strict=True)))
    return rows


def read_json_gz(stored: bytes, resource: Resource) -> list[Cells]:
    """Return the typed rows of a JSON file.

    Raises AssertionError unless it is one array with one record per line and ordered keys.
    """
    text = unpack(stored).decode("utf-8")
    assert text.startswith("[")
    assert text.endswith("]")
    names = [column.name for column in resource.columns]
    records = json.loads(text, object_pairs_hook=list, parse_constant=_refuse)
    body = text[1:-1].strip("\n")
    assert len(body.split("\n")) == len(records) or not records
    rows = []
    for pairs in records:
        assert [name for name, _ in pairs] == names
        rows.append(
            tuple(_json_cell(value, column) for (_, value), column in zip(pairs, resource.columns, strict=True))
        )
    return rows


def _records(text: str) -> Iterator[list[tuple[str, bool]]]:
    """Yield records of (text, was quoted). LF ends a record; a quoted cell may contain any text, quotes doubled."""
    at, record = 0, []
    while at < len(text):
        if text[at] == '"':
            pieces, at = [], at + 1
            while True:
                end = text.index('"', at)
                pieces.append(text[at:end])
                at = end + 1
                if at < len(text) and text[at] == '"':
                    pieces.append('"')
                    at += 1
                else:
                    break
            record.append(("".join(pieces), True))
        else:
            end = min(found for found in (text.find(",", at), text.find("\n", at)) if found >= 0)
            assert '"' not in text[at:end]
            assert "\r" not in text[at:end]
            record.append((text[at:end], False))
            at = end
        assert text[at] in ",\n", text[at : at + 20]
        if text[at] == "\n":
            yield record
            record = []
        elif text[at + 1 :] == "":
            raise AssertionError("the last record is not terminated")
        at += 1
        if record and text[at - 1] == "," and text[at : at + 1] == "\n":
            record.append(("", False))
            yield record
            record, at = [], at + 1
    assert not record, "the last record is not terminated"


def _csv_cell(cell: tuple[str, bool], column: Column) -> Any:
    text, was_quoted = cell
    if not was_quoted and text == "":
        return _null(column)
    assert was_quoted == (column.type in _QUOTED_TYPES), (column.name, cell)
    match column.type:
        case ColumnType.BIGINT:
            assert re.fullmatch(r"-?(0|[1-9]\d*)", text), text
            return int(text)
        case ColumnType.BOOLEAN:
            return {"true": True, "false": False}[text]
        case _:
            return _from_text(text, column)


def _json_cell(value: Any, column: Column) -> Any:
    if value is None:
        return _null(column)
    match column.type:
        case ColumnType.BIGINT:
            assert type(value) is int
            return value
        case ColumnType.BOOLEAN:
            assert type(value) is bool
            return value
        case _:
            assert type(value) is str
            return _from_text(value, column)


def _from_text(text: str, column: Column) -> Any:
    match column.type:
        case ColumnType.UUID:
            assert _UUID.fullmatch(text), text
            return text
        case ColumnType.DATE:
            assert _DATE.fullmatch(text), text
            return date.fromisoformat(text)
        case ColumnType.TIMESTAMP:
            assert _TIME.fullmatch(text), text
            return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        case _:
            return text


def _null(column: Column) -> None:
    assert column.nullable, f"{column.name} is NULL"


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")
