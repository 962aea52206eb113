"""The nine resources as a Frictionless Data Package of Table Schemas.

https://datapackage.org/standard/table-schema/
"""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.formats import DEFAULT_FORMATS, format_named
from daybreak.catalogue.resources import RESOURCES, Resource

SCHEMA_VERSION = "1.0.0"
"""Raised in its first part when a column changes or goes, in its second when one is added."""

_FIELD_TYPES: dict[ColumnType, dict[str, str]] = {
    ColumnType.UUID: {"type": "string", "format": "uuid"},
    ColumnType.TEXT: {"type": "string", "format": "default"},
    ColumnType.BIGINT: {"type": "integer", "format": "default"},
    ColumnType.BOOLEAN: {"type": "boolean", "format": "default"},
    ColumnType.DATE: {"type": "date", "format": "default"},
    ColumnType.TIMESTAMP: {"type": "datetime", "format": "%Y-%m-%dT%H:%M:%S.%fZ"},
}


def table_schema(resource: Resource) -> dict[str, object]:
    """The Table Schema of one resource: fields in file order, their types and constraints."""
    return {
        "fields": [_field(column) for column in resource.columns],
        "fieldsMatch": "exact",
        "missingValues": [""],
    }


def data_package(formats: Sequence[str] = DEFAULT_FORMATS) -> dict[str, object]:
    """All nine resources with the endings of the formats that are made, versioned; plain JSON values."""
    return {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": "daybreak",
        "version": SCHEMA_VERSION,
        "resources": [
            {
                "name": resource.name,
                "title": resource.title,
                "description": resource.description,
                "path": resource.download_path,
                "type": "table",
                "scheme": "https",
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "compression": "gz",
                "dialect": {
                    "delimiter": ",",
                    "lineTerminator": "\n",
                    "quoteChar": '"',
                    "doubleQuote": True,
                    "header": True,
                },
                "endings": [format_named(name).ending for name in formats],
                "order": list(resource.key),
                "schema": table_schema(resource),
            }
            for resource in RESOURCES
        ],
    }


def _field(column: Column) -> dict[str, object]:
    field: dict[str, object] = {
        "name": column.name,
        **_FIELD_TYPES[column.type],
        "description": column.description,
    }
    if column.type is ColumnType.BOOLEAN:
        field["trueValues"] = ["true"]
        field["falseValues"] = ["false"]
    if not column.nullable:
        field["constraints"] = {"required": True}
    if column.allowed:
        # Expected, not enforced: a value the platform adds later is exported as it is.
        field["expectedValues"] = list(column.allowed)
    return field
