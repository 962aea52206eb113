"""SQL that encodes rows as text lines: one CSV record and one JSON record per row.

A CSV record ends in LF. A JSON record begins with a comma and LF. A JSON file consists of the joined records without
the first two bytes, in brackets.

Encoding is the most expensive part of a run, so this SQL is optimized. Each cell is converted to text once for all
formats. A text cell becomes a JSON string, which is also valid CSV if nothing needs escaping. Only rows with a
backslash in their line are encoded again for CSV, cell by cell. Columns without NULLs are not tested for NULL.
"""

from collections.abc import Collection
from functools import cache

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export.sql import identifier, literal

JSON_SEPARATOR = b",\n"
_TIMESTAMP_FORMAT = "'%Y-%m-%dT%H:%M:%S.%fZ'"
_JSON_STRINGS = frozenset({ColumnType.UUID, ColumnType.DATE, ColumnType.TIMESTAMP})


def csv_header(resource: Resource) -> bytes:
    """Return the CSV header record."""
    return _csv_header(resource.column_names)


@cache
def _csv_header(column_names: tuple[str, ...]) -> bytes:
    # Cached, because every file of every Leader needs it.
    return (",".join(identifier(name) for name in column_names) + "\n").encode()


def line_query(rows_query: str, resource: Resource, kinds: Collection[str], non_null: Collection[str]) -> str:
    """Return a SELECT of `ordinal` and one column per kind of line (csv, json), in the order of `rows_query`.

    `rows_query` selects `ordinal` and the resource's columns. `non_null` are columns without NULLs.
    """
    encoders = {"csv": _csv_line(resource), "json": _json_line(resource, non_null)}
    lines = ", ".join(encoders[kind] for kind in kinds)
    return (
        f"SELECT ordinal, {lines} FROM (SELECT *, {_csv_draft(resource, non_null)} AS csv_draft "
        f"FROM (SELECT ordinal, {_cells(resource)} FROM ({rows_query})))"
    )


def _cells(resource: Resource) -> str:
    """Return SQL for every column unchanged, and for its text as `cell_NAME`: a quoted JSON string for a text, the
    plain value for other types.
    """
    parts = []
    for column in resource.columns:
        name = identifier(column.name)
        match column.type:
            case ColumnType.TEXT:
                text = f"CAST(to_json({name}) AS VARCHAR)"
            case ColumnType.TIMESTAMP:
                text = f"strftime({name}, {_TIMESTAMP_FORMAT})"
            case _:
                text = f"CAST({name} AS VARCHAR)"
        parts.append(f"{name}, {text} AS {_cell(column)}")
    return ", ".join(parts)


def _csv_draft(resource: Resource, non_null: Collection[str]) -> str:
    """Return SQL for the CSV record, which is correct if no text needs escaping."""
    parts: list[str] = []
    for position, column in enumerate(resource.columns):
        comma = "," if position else ""
        if column.type is not ColumnType.UUID:
            parts += [literal(comma), _cell(column)]
        elif column.name in non_null:
            parts += [literal(comma + '"'), _cell(column), literal('"')]
        else:
            parts += [literal(comma), f"'\"' || {_cell(column)} || '\"'"]
    return _concat([*parts, "chr(10)"])


def _csv_line(resource: Resource) -> str:
    """Return SQL for the CSV record, texts and identifiers quoted. `concat` skips NULLs, which are empty in CSV."""
    if not any(column.type is ColumnType.TEXT for column in resource.columns):
        return "csv_draft"
    parts: list[str] = []
    for position, column in enumerate(resource.columns):
        name = identifier(column.name)
        parts.append(literal("," if position else ""))
        match column.type:
            case ColumnType.TEXT:
                parts.append(f"""'"' || replace({name}, '"', '""') || '"'""")
            case ColumnType.UUID:
                parts.append(f"'\"' || {_cell(column)} || '\"'")
            case _:
                parts.append(_cell(column))
    escaped = _concat([*parts, "chr(10)"])
    return f"CASE WHEN contains(csv_draft, '\\') THEN {escaped} ELSE csv_draft END"


def _json_line(resource: Resource, non_null: Collection[str]) -> str:
    """Return SQL for the JSON record, with the separator before it."""
    parts: list[str] = []
    constant = JSON_SEPARATOR.decode() + "{"
    for position, column in enumerate(resource.columns):
        constant += ("," if position else "") + f'"{column.name}":'
        cell = _cell(column)
        is_string = column.type in _JSON_STRINGS
        if column.name not in non_null:
            value = f"'\"' || {cell} || '\"'" if is_string else cell
            parts += [literal(constant), f"coalesce({value}, 'null')"]
            constant = ""
        elif is_string:
            parts += [literal(constant + '"'), cell]
            constant = '"'
        else:
            parts += [literal(constant), cell]
            constant = ""
    return _concat([*parts, literal(constant + "}")])


def _cell(column: Column) -> str:
    return identifier("cell_" + column.name)


def _concat(parts: list[str]) -> str:
    # One call with many arguments is a third faster than a chain of `||`.
    return "concat(" + ", ".join(part for part in parts if part != "''") + ")"
