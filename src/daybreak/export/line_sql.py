"""SQL that encodes rows as text lines: one CSV record and one JSON record per row.

A CSV record ends in LF. A JSON record begins with a comma and LF. A JSON file consists of the joined records without
the first two bytes, in brackets.
"""

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export.sql import identifier, literal

LINE_KINDS = ("csv", "json")
JSON_SEPARATOR = b",\n"
_TIMESTAMP_FORMAT = "'%Y-%m-%dT%H:%M:%S.%fZ'"


def csv_header(resource: Resource) -> bytes:
    """Return the CSV header record."""
    return (",".join(map(identifier, resource.column_names)) + "\n").encode()


def line_query(rows_query: str, resource: Resource) -> str:
    """Return a SELECT of `ordinal` and one column for each of LINE_KINDS, in the order of `rows_query`.

    `rows_query` selects `ordinal` and the resource's columns.
    """
    return f"SELECT ordinal, {_csv_line(resource)}, {_json_line(resource)} FROM ({rows_query})"


def _csv_line(resource: Resource) -> str:
    """Return SQL for the CSV record, texts and identifiers quoted. `concat` skips NULLs, which are empty in CSV."""
    cells = ", ',', ".join(map(_csv_cell, resource.columns))
    return f"concat({cells}, chr(10))"


def _csv_cell(column: Column) -> str:
    value = _value(column)
    match column.type:
        case ColumnType.TEXT:
            return f"""'"' || replace({value}, '"', '""') || '"'"""
        case ColumnType.UUID:
            return f"""'"' || {value} || '"'"""
        case _:
            return value


def _json_line(resource: Resource) -> str:
    """Return SQL for the JSON record, with the separator before it."""
    cells = ", ".join(f"{literal(column.name)}: {_value(column)}" for column in resource.columns)
    return f"{literal(JSON_SEPARATOR.decode())} || to_json({{{cells}}})"


def _value(column: Column) -> str:
    """Return SQL for the value of a column, which is converted to text as it is in lines."""
    name = identifier(column.name)
    return f"strftime({name}, {_TIMESTAMP_FORMAT})" if column.type is ColumnType.TIMESTAMP else name
