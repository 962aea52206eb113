"""The SQL that makes text lines: one CSV record and one JSON record per row.

A CSV record ends in LF. A JSON record begins with comma and LF, so that a file is its records
joined: the first two bytes are dropped and brackets put around.

Making lines is the dearest part of a run, hence the shape of this SQL: each cell becomes text once
for all formats, and a text cell becomes a JSON string, which is what CSV wants too wherever nothing
needs escaping. Rows with a backslash in their line are the few that do; they alone take the slow
way, cell by cell. Columns that the survey found without NULLs need no test for them.
"""

from __future__ import annotations

from collections.abc import Collection

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource

JSON_SEPARATOR = b",\n"
_TIME = "'%Y-%m-%dT%H:%M:%S.%fZ'"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL constant."""
    return "'" + text.replace("'", "''") + "'"


def header(resource: Resource) -> bytes:
    """The CSV header record."""
    return (",".join(quoted(name) for name in resource.column_names) + "\n").encode()


def cells(resource: Resource) -> str:
    """The first select list: every column as it is, and its text as `cell_NAME`.

    A text's cell is a JSON string with its quotes; other cells come without quotes.
    """
    parts = []
    for column in resource.columns:
        name = quoted(column.name)
        match column.type:
            case ColumnType.TEXT:
                text = f"CAST(to_json({name}) AS VARCHAR)"
            case ColumnType.TIMESTAMP:
                text = f"strftime({name}, {_TIME})"
            case _:
                text = f"CAST({name} AS VARCHAR)"
        parts.append(f"{name}, {text} AS {_cell(column)}")
    return ", ".join(parts)


def drafts(resource: Resource, filled: Collection[str]) -> str:
    """The select list between: the CSV record as it is when no text needs escaping."""
    parts: list[str] = []
    for position, column in enumerate(resource.columns):
        comma = "," if position else ""
        if column.type is not ColumnType.UUID:
            parts += [literal(comma), _cell(column)]
        elif column.name in filled:
            parts += [literal(comma + '"'), _cell(column), literal('"')]
        else:
            parts += [literal(comma), f"'\"' || {_cell(column)} || '\"'"]
    return _concat([*parts, "chr(10)"])


def csv_line(resource: Resource) -> str:
    """The CSV record over the column `csv_draft`: text and identifiers quoted, NULL nothing.

    `concat` leaves NULLs out, which is just what a NULL cell is.
    """
    if not any(column.type is ColumnType.TEXT for column in resource.columns):
        return "csv_draft"
    parts: list[str] = []
    for position, column in enumerate(resource.columns):
        name = quoted(column.name)
        parts.append(literal("," if position else ""))
        match column.type:
            case ColumnType.TEXT:
                parts.append(f"""'"' || replace({name}, '"', '""') || '"'""")
            case ColumnType.UUID:
                parts.append(f"'\"' || {_cell(column)} || '\"'")
            case _:
                parts.append(_cell(column))
    slow = _concat([*parts, "chr(10)"])
    return f"CASE WHEN contains(csv_draft, '\\') THEN {slow} ELSE csv_draft END"


def json_line(resource: Resource, filled: Collection[str]) -> str:
    """The JSON record, with the separator in front of it; `filled` are columns without NULLs."""
    parts: list[str] = []
    constant = JSON_SEPARATOR.decode() + "{"
    for position, column in enumerate(resource.columns):
        constant += ("," if position else "") + f'"{column.name}":'
        cell = _cell(column)
        as_string = column.type in {ColumnType.UUID, ColumnType.DATE, ColumnType.TIMESTAMP}
        if column.name not in filled:
            value = f"'\"' || {cell} || '\"'" if as_string else cell
            parts += [literal(constant), f"coalesce({value}, 'null')"]
            constant = ""
        elif as_string:
            parts += [literal(constant + '"'), cell]
            constant = '"'
        else:
            parts += [literal(constant), cell]
            constant = ""
    return _concat([*parts, literal(constant + "}")])


def _cell(column: Column) -> str:
    return quoted("cell_" + column.name)


def _concat(parts: list[str]) -> str:
    # One call with many arguments is a third faster than a chain of `||`.
    return "concat(" + ", ".join(part for part in parts if part != "''") + ")"
