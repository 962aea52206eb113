"""Values of the feed of deltas: what changed between consecutive publications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak_client import wire
from daybreak_client.published import PublishedFile


@dataclass(frozen=True, slots=True)
class ResourceDelta:
    """Change of one resource between two publications.

    `state` is `changed`, `unchanged` or `full_required`, then for `reason`. `inserted` and `deleted` are rows. `file`
    is the delta as CSV, None if no row changed. `constants` are the values after of columns that are the same in all
    rows. The digests are those of the decompressed full CSV files.
    """

    state: str
    reason: str = ""
    inserted: int = 0
    deleted: int = 0
    rows_after: int = 0
    content_sha256_before: str = ""
    content_sha256_after: str = ""
    constants: Mapping[str, str | None] | None = None
    file: PublishedFile | None = None


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One publication, and its changes by resource. A resource without a change may be left out."""

    version: int
    from_version: int
    resources: Mapping[str, ResourceDelta]


@dataclass(frozen=True, slots=True)
class Feed:
    """Chain of publications of an account, and the `entries` after the version that was requested, in order.

    `etag` identifies this response. `closed_reason` is set when the requested version is not in the chain.
    """

    client_id: str = ""
    chain_id: str = ""
    version: int = 0
    snapshot_id: str = ""
    as_of: datetime | None = None
    next_expected_at: datetime | None = None
    entries: tuple[FeedEntry, ...] = ()
    etag: str = ""
    closed_reason: str = ""

    def is_at(self, chain_id: str, version: int, snapshot_id: str) -> bool:
        """Return whether the chain ends with this snapshot.

        A service that was restored from a copy can publish a version again, with other files.
        """
        return (self.chain_id, self.version, self.snapshot_id) == (chain_id, version, snapshot_id)


def parse_feed(response: Mapping[str, Any], etag: str) -> Feed:
    data = wire.mapping(wire.mapping(response)["data"])
    client_id = wire.uuid(data["client_id"])
    entries = wire.items(data["entries"], lambda entry: _entry(client_id, entry))
    return Feed(
        client_id=client_id,
        chain_id=wire.uuid(data["chain_id"]),
        version=wire.count(data["version"]),
        snapshot_id=wire.uuid(data["snapshot_id"]),
        as_of=wire.instant(data["as_of"]),
        next_expected_at=wire.instant(data["next_expected_at"]),
        entries=tuple(sorted(entries, key=lambda entry: entry.version)),
        etag=etag,
    )


def _entry(client_id: str, entry: Mapping[str, Any]) -> FeedEntry:
    version = wire.count(entry["version"])
    changes = {
        wire.resource(name): _resource_delta(client_id, version, name, wire.mapping(change))
        for name, change in wire.mapping(entry["resources"]).items()
    }
    return FeedEntry(version, wire.count(entry["from_version"]), changes)


def _resource_delta(client_id: str, version: int, resource: str, change: Mapping[str, Any]) -> ResourceDelta:
    state = wire.code(change["state"])
    if state != "changed":
        return ResourceDelta(state, reason=wire.text(change.get("reason", "")))
    file = wire.mapping(change.get("files", {})).get("csv")
    return ResourceDelta(
        state,
        inserted=wire.count(change["inserted"]),
        deleted=wire.count(change["deleted"]),
        rows_after=wire.count(change["rows_after"]),
        content_sha256_before=wire.digest(change["content_sha256_before"]),
        content_sha256_after=wire.digest(change["content_sha256_after"]),
        constants={
            wire.name(name): wire.cell(value) for name, value in wire.mapping(change.get("constants") or {}).items()
        },
        file=None if file is None else _delta_file(client_id, version, resource, wire.mapping(file)),
    )


def _delta_file(client_id: str, version: int, resource: str, file: Mapping[str, Any]) -> PublishedFile:
    name = f"{resource}.delta{wire.ENDINGS['csv']}"
    return PublishedFile(
        resource=resource,
        title=f"{resource}, version {version}",
        format="csv",
        name=f"{version}.{name}",
        path=f"/download/v1/files/{client_id}/deltas/{version}/{name}",
        rows=0,
        size_bytes=wire.size_bytes(file["bytes"]),
        sha256=wire.digest(file["sha256"]),
        content_sha256="",
    )
