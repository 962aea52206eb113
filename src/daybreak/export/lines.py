"""The SQL that makes text lines: one CSV record and one JSON record per row.

A CSV record ends in LF. A JSON record begins with comma and LF, so that a file is its records
joined: the first two bytes are dropped and brackets put around. The rules are in docs/formats.md.
"""

from __future__ import annotations

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource

JSON_SEPARATOR = b",\n"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def header(resource: Resource) -> bytes:
    """The CSV header record."""
    return (",".join(quoted(name) for name in resource.column_names) + "\n").encode()


def shaped_columns(resource: Resource) -> str:
    """The select list that brings a model's columns to our types and writes times as text once.

    Times keep their name with `__text` behind it.
    """
    parts = []
    for column in resource.columns:
        name = quoted(column.name)
        parts.append(name)
        if column.type is ColumnType.TIMESTAMP:
            parts.append(f"strftime({name}, '%Y-%m-%dT%H:%M:%S.%fZ') AS {quoted(column.name + '__text')}")
    return ", ".join(parts)


def _text(column: Column) -> str:
    if column.type is ColumnType.TIMESTAMP:
        return quoted(column.name + "__text")
    return quoted(column.name)


def csv_line(resource: Resource) -> str:
    """The expression of a CSV record: text and identifiers quoted, NULL is nothing at all.

    `concat` leaves NULLs out, which is just what a NULL cell is. Quotes are only looked for and
    doubled where there are any, which is cheaper than an unconditional replace.
    """
    parts: list[str] = []
    for position, column in enumerate(resource.columns):
        comma = "," if position else ""
        value = _text(column)
        if column.type in {ColumnType.TEXT, ColumnType.UUID}:
            if column.type is ColumnType.TEXT:
                cell = f"CASE WHEN contains({value}, '\"') THEN replace({value}, '\"', '\"\"') ELSE {value} END"
            else:
                cell = value
            quote = f"CASE WHEN {value} IS NOT NULL THEN '\"' END"
            parts += [f"'{comma}'", quote, cell, quote]
        else:
            parts += [f"'{comma}'", value]
    return "concat(" + ", ".join(part for part in parts if part != "''") + ", chr(10))"


def json_line(resource: Resource) -> str:
    """The expression of a JSON record with the separator in front of it."""
    members = ", ".join(f"{quoted(c.name)} := {_text(c)}" for c in resource.columns)
    return f"concat(',', chr(10), to_json(struct_pack({members})))"
