"""CSV files as the service writes them, without its code."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource


def csv_bytes(resource: Resource, rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> bytes:
    """Return a CSV file. Another `header` than the columns of the resource may have further ones."""
    header = header or resource.column_names
    quoted = {column.name for column in resource.columns if column.type in {ColumnType.UUID, ColumnType.TEXT}}
    lines = [",".join(_cell(value, name in quoted) for name, value in zip(header, row, strict=True)) for row in rows]
    return ("\n".join([",".join(f'"{name}"' for name in header), *lines]) + "\n").encode()


def _cell(value: object, quoted: bool) -> str:
    if value is None:
        return ""
    return '"' + str(value).replace('"', '""') + '"' if quoted else text_of(value)


def text_of(value: object) -> str:
    """Return a value of another type than text as the files contain it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
    return str(value)
