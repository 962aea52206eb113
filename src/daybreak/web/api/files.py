"""Requests for files, which are redirected to signed links, and the manifest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from daybreak import downloads
from daybreak.access.services import Services
from daybreak.catalogue.download_paths import download_paths
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.errors import NotFound
from daybreak.domain.identity import Principal
from daybreak.downloads import Manifest, NamedFile
from daybreak.web.api import examples
from daybreak.web.api.examples import field, uuid
from daybreak.web.api.operation import (
    FILES,
    SESSION_OR_API_TOKEN,
    ApiRoute,
    Header,
    Operation,
    Parameter,
    ResponseType,
    Variant,
    principal_of,
    view_of,
)
from daybreak.web.metrics import count_event
from daybreak.web.request_state import caller_of


class LinkView(msgspec.Struct, frozen=True):
    """Signed link and its file."""

    url: Annotated[str, field("Signed link, as in `Location`.", examples.LINK)]
    expires_at: Annotated[datetime, field("When the link stops working.", "2026-11-24T08:45:00Z")]
    snapshot_id: Annotated[str, uuid("Snapshot of the file.", examples.SNAPSHOT_ID)]
    version: Annotated[int, field("Version of the snapshot.", 48)]
    as_of: Annotated[datetime, field("Instant that the data describes.", examples.AS_OF)]
    published_at: Annotated[datetime, field("When the snapshot was published.", examples.PUBLISHED_AT)]
    resource: Annotated[str, field("Resource in the file.", "campaigns")]
    format: Annotated[str, field("Format of the file.", "csv")]
    rows: Annotated[int, field("Number of rows, without the header.", 1204)]
    bytes: Annotated[int, field("Size of the file.", 48213)]
    sha256: Annotated[str, field("SHA-256 of the file, in hexadecimal.", examples.SHA256)]


class LinkResult(msgspec.Struct, frozen=True):
    """Signed link to a file."""

    data: LinkView


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


def link_response_type(example: str) -> ResponseType[LinkResult]:
    """Return the type of a response with a link."""
    location = Header("Location", "The link.", example)
    return ResponseType("The link, in `Location` and in the body.", LinkResult, status=302, headers=(location,))


CLIENT_ID = Parameter("client_id", "path", "`client_id` of the account.", examples.CLIENT_ID, UUID)
GET_MANIFEST = Operation(
    operation_id="getManifest",
    summary="List files",
    description="Returns the manifest of the current snapshot: its age, and the rows, sizes and digests of every "
    "file. `late` is `true` from a minute after {publish_time} until the files of the day are published.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(CLIENT_ID,),
    response=ResponseType("The manifest.", ManifestView),
    problems=("snapshot_not_ready",),
)
REQUEST_FILE = Operation(
    operation_id="requestFile",
    summary="Request a file",
    description="Redirects to a signed link to the file, which works for {link_lifetime} and needs no token. Each "
    "request returns a new link.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(CLIENT_ID, Parameter("file", "path", "Path of the file.", "campaigns.csv.gz")),
    response=link_response_type(examples.LINK),
    problems=("unknown_file", "snapshot_not_ready", "rate_limited"),
)


def file_routes(services: Services) -> list[ApiRoute]:
    """Return the routes below /download/v1/files."""
    endpoints = _FileEndpoints(services)
    request_file = replace(REQUEST_FILE, variants=_file_variants(services.settings.snapshot.formats))
    return [
        ApiRoute("/download/v1/files/{client_id}", endpoints.manifest, GET_MANIFEST),
        ApiRoute("/download/v1/files/{client_id}/{file:path}", endpoints.download, request_file),
    ]


@dataclass(frozen=True, slots=True)
class _FileEndpoints:
    services: Services

    async def download(self, request: Request) -> Response:
        principal = await principal_of(request, self.services)
        require_plain_path(request)
        named = downloads.file_at(request.path_params["file"], self.services.settings.snapshot.formats)
        return await respond_with_link(REQUEST_FILE, self.services, principal, request, named)

    async def manifest(self, request: Request) -> Response:
        principal = await principal_of(request, self.services)
        client_id = request.path_params["client_id"].lower()
        found = await downloads.manifest(self.services, principal, client_id)
        view = manifest_view(client_id, found, self.services.settings.snapshot.formats)
        return GET_MANIFEST.response.create(view)


def require_plain_path(request: Request) -> None:
    """Refuse percent-encoded paths. No path of a file needs the encoding, and an encoded path could hide another one.

    Raises:
        NotFound: `unknown_file`.
    """
    raw = request.scope.get("raw_path") or b""
    if b"%" in raw:
        raise NotFound("The path contains percent-encoding. Write its characters as they are.", code="unknown_file")


def _file_variants(formats: tuple[str, ...]) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            path,
            f"request{resource.name.title().replace('_', '')}{file_format.name.capitalize()}",
            resource.title,
            resource.description,
        )
        for path, (resource, file_format) in download_paths(formats).items()
    )


async def respond_with_link(
    operation: Operation[LinkResult], services: Services, principal: Principal, request: Request, named: NamedFile
) -> Response:
    """Issue a link to a file of the account in the path. Raises the errors of `issue_link`."""
    client_id = request.path_params["client_id"].lower()
    issued = await downloads.issue_link(services, principal, client_id, named, caller_of(request))
    count_event("link_issued")
    stored = {"bytes": issued.file.stored.bytes, "sha256": issued.file.stored.sha256}
    view = view_of(LinkView, issued.file, url=issued.url, expires_at=issued.expires_at, **stored)
    return operation.response.create(LinkResult(view), {"Location": issued.url})
