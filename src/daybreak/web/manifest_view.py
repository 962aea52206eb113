"""The manifest as consumers see it: how fresh, and every file of one Leader."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES
from daybreak.downloads import Manifest


class FormatView(msgspec.Struct, frozen=True):
    """One file. Digests are lower-case hex SHA-256, of the stored file and of what is inside."""

    format: str
    path: str
    bytes: int
    sha256: str
    content_bytes: int
    content_sha256: str


class FileView(msgspec.Struct, frozen=True):
    """One resource with its rows and files."""

    resource: str
    title: str
    rows: int
    files: tuple[FormatView, ...]


class ManifestData(msgspec.Struct, frozen=True):
    """One Leader's files of the current snapshot; `late` with a reason when a publication that should be there is
    not.
    """

    client_id: str
    snapshot_id: str
    as_of: datetime
    published_at: datetime
    next_expected_at: datetime
    late: bool
    reason: str | None
    resources: tuple[FileView, ...]


class ManifestView(msgspec.Struct, frozen=True):
    """What GET /download/v1/files/{client_id} gives."""

    data: ManifestData


def manifest_view(client_id: str, manifest: Manifest, formats: Sequence[str]) -> ManifestView:
    """The nine resources in the order of the documentation; only formats that are configured."""
    by_name = {entry.resource: entry for entry in manifest.entries}
    snapshot, freshness = manifest.snapshot, manifest.freshness
    assert snapshot.published_at is not None  # what is served has been published
    return ManifestView(
        ManifestData(
            client_id=client_id,
            snapshot_id=snapshot.snapshot_id,
            as_of=snapshot.as_of,
            published_at=snapshot.published_at,
            next_expected_at=freshness.next_expected_at,
            late=freshness.late,
            reason=freshness.reason,
            resources=tuple(
                FileView(
                    resource=resource.name,
                    title=resource.title,
                    rows=by_name[resource.name].rows,
                    files=tuple(
                        FormatView(
                            format=name,
                            path=f"/download/v1/files/{client_id}/{resource.path_for(format_named(name))}",
                            bytes=stored.bytes,
                            sha256=stored.sha256,
                            content_bytes=stored.content_bytes,
                            content_sha256=stored.content_sha256,
                        )
                        for name, stored in by_name[resource.name].formats.items()
                        if name in formats
                    ),
                )
                for resource in RESOURCES
                if resource.name in by_name
            ),
        )
    )
