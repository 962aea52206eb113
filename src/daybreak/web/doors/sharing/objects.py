"""Objects of the protocol in responses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

import msgspec

from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.domain.snapshot import StoredFormat
from daybreak.sharing import SCHEMA_NAME, QueryResult, SharedFile
from daybreak.table_changes import ChangesResult
from daybreak.web.doors.sharing.schema import schema_string

_PROTOCOL = {"protocol": {"minReaderVersion": 1}}


class Share(msgspec.Struct, frozen=True):
    """Share of an account."""

    name: str
    id: str


class Schema(msgspec.Struct, frozen=True):
    """Schema of a share."""

    name: str
    share: str


class Table(msgspec.Struct, frozen=True, rename="camel"):
    """Table of a schema."""

    name: str
    schema: str
    share: str
    share_id: str
    id: str


def share(client_id: str) -> Share:
    """Return the share of an account."""
    return Share(client_id, client_id)


def schema(client_id: str) -> Schema:
    """Return the schema of a share."""
    return Schema(SCHEMA_NAME, client_id)


def tables(client_id: str) -> list[Table]:
    """Return the nine tables of a share."""
    return [
        Table(resource.name, SCHEMA_NAME, client_id, client_id, table_id(client_id, resource)) for resource in RESOURCES
    ]


def table_id(client_id: str, resource: Resource) -> str:
    """Return the permanent id of a table."""
    return str(uuid5(UUID(client_id), resource.name))


def metadata(client_id: str, resource: Resource, *, has_changes: bool) -> dict[str, Any]:
    """Return the metadata that all versions of a table share. `has_changes`: its changes can be requested."""
    return {
        "id": table_id(client_id, resource),
        "name": resource.name,
        "description": resource.description,
        "format": {"provider": "parquet"},
        "schemaString": schema_string(resource),
        "partitionColumns": [],
        "configuration": {"enableChangeDataFeed": "true"} if has_changes else {},
    }


def table_lines(metadata: dict[str, Any]) -> list[Any]:
    """Return the lines that describe a table."""
    return [_PROTOCOL, {"metaData": metadata}]


def query_lines(metadata: dict[str, Any], result: QueryResult, *, versioned: bool) -> list[Any]:
    """Return the lines of a query: the table and its files. `versioned`: the request selected a version."""
    table = result.table
    extra = {"version": table.version, "timestamp": _milliseconds(table.published_at)} if versioned else {}
    files = [
        {"file": {**_file(file), "stats": _statistics(result.resource, file.stored), **extra}} for file in result.files
    ]
    return [*table_lines(metadata), *files]


def change_lines(metadata: dict[str, Any], result: ChangesResult) -> list[Any]:
    """Return the lines of the changes of a table: the table and a file for each version that changed it."""
    files = [
        {
            "cdf": {
                **_file(file),
                "timestamp": _milliseconds(publication.published_at),
                "version": publication.version,
            }
        }
        for publication, file in result.files
    ]
    return [*table_lines(metadata), *files]


def ndjson(lines: Sequence[Any]) -> bytes:
    """Return objects as one line of JSON each."""
    return msgspec.json.Encoder().encode_lines(lines)


def _file(file: SharedFile) -> dict[str, Any]:
    return {
        "url": file.url,
        "id": file.stored.sha256,
        "partitionValues": {},
        "size": file.stored.bytes,
        "expirationTimestamp": _milliseconds(file.expires_at),
    }


def _statistics(resource: Resource, stored: StoredFormat) -> str:
    """Return the statistics of a file as JSON text.

    Minimum and maximum values are left out, because they would repeat personal data.
    """
    assert stored.statistics is not None  # `SnapshotStore.table` returns only files with statistics
    statistics = stored.statistics
    # A version whose columns were not recorded may have fewer than today.
    is_known = len(statistics.null_counts) == len(resource.columns)
    null_counts = dict(zip(resource.column_names, statistics.null_counts, strict=True)) if is_known else {}
    return msgspec.json.encode({"numRecords": statistics.rows, "nullCount": null_counts}).decode()


def _milliseconds(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
