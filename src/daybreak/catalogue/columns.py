"""Columns and their six types, for source tables and resources."""

from dataclasses import dataclass
from enum import StrEnum
from zlib import crc32


class ColumnType(StrEnum):
    """Type of a column. A timestamp is a UTC instant with microseconds."""

    UUID = "uuid"
    TEXT = "text"
    BIGINT = "bigint"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


TEXTS = frozenset({ColumnType.UUID, ColumnType.TEXT})
"""Types whose values are quoted in CSV."""
TIMES = frozenset({ColumnType.DATE, ColumnType.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `allowed` lists the expected values; other values are exported and counted."""

    name: str
    type: ColumnType
    nullable: bool
    description: str
    allowed: tuple[str, ...] = ()


def columns(*rows: tuple[str, str, str] | tuple[str, str, str, tuple[str, ...]]) -> tuple[Column, ...]:
    """Return columns from (name, type, description[, allowed values]). A type with `?` is nullable."""
    return tuple(
        Column(name, ColumnType(kind.rstrip("?")), kind.endswith("?"), description, *allowed)
        for name, kind, description, *allowed in rows
    )


def field_id(name: str) -> int:
    """Return the field id of a column in Parquet files and Iceberg tables: a positive number below 2^30.

    It depends on the name alone, so that columns keep it when others are added or removed.
    """
    return crc32(name.encode()) % (2**30 - 1) + 1
