"""Lines of responses: the table, its files, and what changed, in the format that the client accepts.

The format `delta` wraps actions of a Delta table, which the client writes to a log and reads with a library for Delta:
https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.credentials.signed_link import marked_link
from daybreak.domain.snapshot import StoredFormat, StoredPart, TableFiles, milliseconds
from daybreak.iceberg.manifests import TYPES
from daybreak.iceberg.metadata import table_id
from daybreak.sharing import QueryResult, SharedFile
from daybreak.table_changes import ChangesResult, History

ResponseFormat = Literal["parquet", "delta"]
_Kind = Literal["file", "add", "remove", "cdf"]
# Change data feed needs version 4 of writers. https://github.com/delta-io/delta/blob/master/PROTOCOL.md#writer-version-requirements
_DELTA_PROTOCOL = {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 4}}

_TYPES = {**TYPES, ColumnType.TIMESTAMP: "timestamp"}


class LineWriter(msgspec.Struct, frozen=True):
    """Writes the lines about an account's tables in one format. `has_changes`: changes of tables can be requested."""

    format: ResponseFormat
    client_id: str
    has_changes: bool

    def table(self, resource: Resource, table: TableFiles, *, versioned: bool = False) -> list[Any]:
        """Return the lines that describe a table at a version. `versioned`: the request selected it."""
        files = table.stored.files
        size = {"size": sum(file.bytes for file in files), "numFiles": len(files)}
        return [self._protocol(), self._metadata(resource, size | ({"version": table.version} if versioned else {}))]

    def query(self, result: QueryResult, *, versioned: bool) -> list[Any]:
        """Return the lines of a query: the table and its files. `versioned`: the request selected a version."""
        table = result.table
        version = table.version if versioned else None
        files = [self._file("file", result.resource, file, table.published_at, version) for file in result.files]
        return [*self.table(result.resource, table, versioned=versioned), *files]

    def changes(self, result: ChangesResult) -> list[Any]:
        """Return the lines of the changes of a table: the table and a file for each version that changed it."""
        files = [
            self._file("cdf", result.resource, file, publication.published_at, publication.version)
            for publication, file in result.files
        ]
        return [self._protocol(), self._metadata(result.resource, {"version": result.first_version}), *files]

    def history(self, result: History) -> list[Any]:
        """Return the lines of a range of versions: the table, and the files that each removed and added."""
        lines = [self._protocol(), self._metadata(result.resource, {"version": result.first_version})]
        before = result.resource
        for revision in result.revisions:
            resource, table = revision.resource, revision.table
            if resource.columns != before.columns:
                lines.append(self._metadata(resource, {"version": table.version}))
            at = (table.published_at, table.version)
            lines += [self._file("remove", resource, file, *at) for file in revision.removed]
            lines += [self._file("add", resource, file, *at) for file in revision.added]
            before = resource
        return lines

    def _protocol(self) -> dict[str, Any]:
        return {"protocol": _DELTA_PROTOCOL if self.format == "delta" else {"minReaderVersion": 1}}

    def _metadata(self, resource: Resource, extra: dict[str, int]) -> dict[str, Any]:
        """Return the metadata of a table. `extra` are fields of the protocol, which Delta does not know."""
        in_delta = self.format == "delta"
        feed = "delta.enableChangeDataFeed" if in_delta else "enableChangeDataFeed"
        metadata = {
            "id": table_id(self.client_id, resource.name),
            "name": resource.name,
            "description": resource.description,
            "format": {"provider": "parquet"} | ({"options": {}} if in_delta else {}),
            "schemaString": schema_string(resource),
            "partitionColumns": [],
            "configuration": {feed: "true"} if self.has_changes else {},
        }
        return {"metaData": {"deltaMetadata": metadata, **extra} if in_delta else {**metadata, **extra}}

    def _file(
        self, kind: _Kind, resource: Resource, file: SharedFile, published_at: datetime, version: int | None
    ) -> dict[str, Any]:
        """Return the line of a file. `version` is None unless the client receives it."""
        at = milliseconds(published_at)
        common = {"id": file.stored.sha256, "expirationTimestamp": milliseconds(file.expires_at)}
        common |= {} if version is None else {"version": version, "timestamp": at}
        body: dict[str, Any] = {"partitionValues": {}, "size": file.stored.bytes}
        if kind in {"file", "add"}:
            body["stats"] = _statistics(resource, file.stored)
        if self.format == "parquet":
            return {kind: {"url": file.url, **common, **body}}
        body = {"path": marked_link(file.url), "dataChange": kind != "cdf", **body}
        match kind:
            case "file" | "add":
                action = {"add": {**body, "modificationTime": at}}
            case "remove":
                action = {"remove": {**body, "deletionTimestamp": at, "extendedFileMetadata": True}}
            case "cdf":
                action = {"cdc": body}
        return {"file": {**common, "deltaSingleAction": action}}


def end_line(files: Sequence[SharedFile], refresh_token: str | None) -> dict[str, Any]:
    """Return the last line, with which a client knows that the response is complete."""
    token = {} if refresh_token is None else {"refreshToken": refresh_token}
    expiry = {"minUrlExpirationTimestamp": min(milliseconds(file.expires_at) for file in files)} if files else {}
    return {"endStreamAction": token | expiry}


def _statistics(resource: Resource, stored: StoredFormat | StoredPart) -> str:
    """Return the statistics of a file as JSON text.

    Minimum and maximum values are left out, because they would repeat personal data.
    """
    assert stored.statistics is not None  # `SnapshotStore.table` returns only files with statistics
    statistics = stored.statistics
    # A version whose columns were not recorded may have fewer than today.
    is_known = len(statistics.null_counts) == len(resource.columns)
    null_counts = dict(zip(resource.column_names, statistics.null_counts, strict=True)) if is_known else {}
    return msgspec.json.encode({"numRecords": statistics.rows, "nullCount": null_counts}).decode()


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
