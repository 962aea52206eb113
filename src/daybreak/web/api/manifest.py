"""The manifest in API responses: age of the snapshot, and every file of one account."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES
from daybreak.downloads import Manifest
from daybreak.web.api import examples
from daybreak.web.api.examples import field, uuid
from daybreak.web.api.operation import view_of


class FormatView(msgspec.Struct, frozen=True):
    """File of a resource in one format. Digests are SHA-256 in lower-case hexadecimal."""

    format: Annotated[str, field("Format of the file.", "csv")]
    path: Annotated[
        str, field("Path to request the file from.", f"/download/v1/files/{examples.CLIENT_ID}/campaigns.csv.gz")
    ]
    bytes: Annotated[int, field("Size of the file.", 48213)]
    sha256: Annotated[str, field("Digest of the file.", examples.SHA256)]
    content_bytes: Annotated[int, field("Size of the uncompressed content.", 211906)]
    content_sha256: Annotated[str, field("Digest of the uncompressed content.", examples.CONTENT_SHA256)]


class FileView(msgspec.Struct, frozen=True):
    """Files of a resource."""

    resource: Annotated[str, field("Name of the resource.", "campaigns")]
    title: Annotated[str, field("Title of the resource.", "Campaign Performance")]
    rows: Annotated[int, field("Number of rows, without the header.", 1204)]
    files: Annotated[tuple[FormatView, ...], Meta(description="One file in each format.")]
    incomplete: Annotated[
        bool,
        field("Whether rows are missing because the platform has malformed ones. Ask the operator.", example=False),
    ] = False


class ManifestData(msgspec.Struct, frozen=True):
    """Files of an account in the current snapshot."""

    client_id: Annotated[str, uuid("The account.", examples.CLIENT_ID)]
    snapshot_id: Annotated[str, uuid("The snapshot.", examples.SNAPSHOT_ID)]
    version: Annotated[int, field("Number of the publication. It grows by one each time.", 48)]
    as_of: Annotated[datetime, field("Instant that the data describes.", examples.AS_OF)]
    published_at: Annotated[datetime, field("When the snapshot was published.", examples.PUBLISHED_AT)]
    next_expected_at: Annotated[datetime, field("When the next snapshot is due.", "2026-11-25T04:00:00Z")]
    late: Annotated[bool, field("Whether a newer snapshot is overdue.", example=False)]
    reason: Annotated[str | None, field("Why it is overdue.", None)]
    resources: Annotated[tuple[FileView, ...], Meta(description="The resources, in the order of the documentation.")]


class ManifestView(msgspec.Struct, frozen=True):
    """Manifest of an account."""

    data: ManifestData


def manifest_view(client_id: str, manifest: Manifest, formats: Sequence[str]) -> ManifestView:
    """Return the resources in the order of the documentation, in the configured formats."""
    incomplete = manifest.snapshot.report.incomplete_resources
    by_name = {entry.resource: entry for entry in manifest.entries}
    snapshot, freshness = manifest.snapshot, manifest.freshness
    return ManifestView(
        view_of(
            ManifestData,
            snapshot,
            client_id=client_id,
            next_expected_at=freshness.next_expected_at,
            late=freshness.late,
            reason=freshness.reason,
            resources=tuple(
                FileView(
                    resource=resource.name,
                    title=resource.title,
                    rows=by_name[resource.name].rows,
                    files=tuple(
                        view_of(
                            FormatView,
                            stored,
                            format=name,
                            path=f"/download/v1/files/{client_id}/{resource.path_for(format_named(name))}",
                        )
                        for name, stored in by_name[resource.name].formats.items()
                        if name in formats
                    ),
                    incomplete=resource.name in incomplete,
                )
                for resource in RESOURCES
                if resource.name in by_name
            ),
        )
    )
