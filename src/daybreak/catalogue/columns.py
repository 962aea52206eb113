"""Columns and their six types, as source tables and resources use them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ColumnType(StrEnum):
    """What a cell holds. A timestamp is a UTC instant with microseconds."""

    UUID = "uuid"
    TEXT = "text"
    BIGINT = "bigint"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `allowed` lists the expected values; others are exported and counted."""

    name: str
    type: ColumnType
    nullable: bool
    description: str
    allowed: tuple[str, ...] = ()
