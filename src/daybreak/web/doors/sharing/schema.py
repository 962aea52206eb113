"""Columns of a table as Spark's JSON schema."""

from __future__ import annotations

from functools import cache

import msgspec

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource

_TYPES: dict[ColumnType, str] = {
    ColumnType.UUID: "string",
    ColumnType.TEXT: "string",
    ColumnType.BIGINT: "long",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamp",
}


@cache
def schema_string(resource: Resource) -> str:
    """Return the schema of a resource as JSON text.

    Columns outside of the key are nullable, because deleted rows of changes have no values there.
    """
    fields = [
        {
            "name": column.name,
            "type": _TYPES[column.type],
            "nullable": column.name not in resource.key,
            "metadata": {"comment": column.description},
        }
        for column in resource.columns
    ]
    return msgspec.json.encode({"type": "struct", "fields": fields}).decode()
