"""Values of the feed of deltas: what changed between consecutive publications."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
    """Chain of publications of one account, and the `entries` after the version that was requested, in order.

    `etag` identifies this response. `closed_reason` is set when the requested version is not in the chain.
    """

    chain_id: str = ""
    version: int = 0
    snapshot_id: str = ""
    as_of: datetime | None = None
    next_expected_at: datetime | None = None
    entries: tuple[FeedEntry, ...] = ()
    etag: str = ""
    closed_reason: str = ""


def parse_feed(response: Mapping[str, Any], etag: str) -> Feed:
    """Parse the response to a request for the feed."""
    data = response["data"]
    client_id = str(data["client_id"])
    return Feed(
        chain_id=str(data["chain_id"]),
        version=int(data["version"]),
        snapshot_id=str(data["snapshot_id"]),
        as_of=datetime.fromisoformat(data["as_of"]),
        next_expected_at=datetime.fromisoformat(data["next_expected_at"]),
        entries=tuple(
            FeedEntry(
                int(entry["version"]),
                int(entry["from_version"]),
                {
                    name: _resource_delta(client_id, int(entry["version"]), name, change)
                    for name, change in entry["resources"].items()
                },
            )
            for entry in sorted(data["entries"], key=lambda entry: int(entry["version"]))
        ),
        etag=etag,
    )


def _resource_delta(client_id: str, version: int, resource: str, change: Mapping[str, Any]) -> ResourceDelta:
    state = str(change["state"])
    if state != "changed":
        return ResourceDelta(state, reason=str(change.get("reason", "")))
    file = change.get("files", {}).get("csv")
    return ResourceDelta(
        state,
        inserted=int(change["inserted"]),
        deleted=int(change["deleted"]),
        rows_after=int(change["rows_after"]),
        content_sha256_before=str(change["content_sha256_before"]),
        content_sha256_after=str(change["content_sha256_after"]),
        constants=change.get("constants") or {},
        file=None if file is None else _delta_file(client_id, version, resource, file),
    )


def _delta_file(client_id: str, version: int, resource: str, file: Mapping[str, Any]) -> PublishedFile:
    name = str(file["name"])
    if not re.fullmatch(r"[a-z_]+\.delta\.csv\.gz", name):
        raise ValueError(name)
    return PublishedFile(
        resource=resource,
        title=f"{resource}, version {version}",
        format="csv",
        name=f"{version}.{name}",
        path=f"/download/v1/files/{client_id}/deltas/{version}/{name}",
        rows=0,
        size_bytes=int(file["bytes"]),
        sha256=str(file["sha256"]),
        content_sha256="",
    )
