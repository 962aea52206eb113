"""The feed of an account's deltas, and requests for delta files."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from daybreak import downloads
from daybreak.access.services import Services
from daybreak.catalogue.download_paths import delta_names
from daybreak.catalogue.formats import DEFAULT_FORMATS, delta_format
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.delta_feed import DeltaFeed, delta_feed
from daybreak.domain.delta import ChainEntry, ResourceDelta
from daybreak.domain.errors import FieldFault, InvalidRequest, NotFound
from daybreak.web.api import examples
from daybreak.web.api.examples import field, uuid
from daybreak.web.api.files import CLIENT_ID, link_response_type, require_plain_path, respond_with_link
from daybreak.web.api.operation import (
    FILES,
    SESSION_OR_API_TOKEN,
    ApiRoute,
    Header,
    Operation,
    Parameter,
    ResponseType,
    principal_of,
    view_of,
)
from daybreak.web.http.files import evaluate

_ETAG = '"60303ae22b998861bce3b28f33eec1be758a213c"'
_MAX_VERSION = 2**63 - 1
_MAX_DIGITS = 19
_FILES_EXAMPLE = {"csv": {"name": "members.delta.csv.gz", "bytes": 9120, "sha256": examples.SHA256}}


class DeltaFileView(msgspec.Struct, frozen=True):
    """Delta file in one format. The digest is the SHA-256 of the file in lower-case hexadecimal."""

    name: Annotated[str, field("Name to request the file with.", "members.delta.csv.gz")]
    bytes: Annotated[int, field("Size of the file.", 9120)]
    sha256: Annotated[str, field("Digest of the file.", examples.SHA256)]


class ResourceDeltaView(msgspec.Struct, frozen=True):
    """Change of a resource. Only `changed` has files."""

    state: Annotated[
        Literal["changed", "unchanged", "full_required"],
        field("`changed`: apply the delta. `full_required`: load the full file.", "changed"),
    ]
    reason: Annotated[str | UnsetType, field("Why the full file is required.", "larger_than_full")] = UNSET
    inserted: Annotated[int | UnsetType, field("Number of rows with operation `I`.", 120)] = UNSET
    deleted: Annotated[int | UnsetType, field("Number of rows that the operations `D` delete.", 40)] = UNSET
    rows_before: Annotated[int | UnsetType, field("Rows of the full file before.", 3308319)] = UNSET
    rows_after: Annotated[int | UnsetType, field("Rows of the full file after.", 3308399)] = UNSET
    content_sha256_before: Annotated[
        str | UnsetType, field("Digest of the uncompressed full CSV file before.", examples.CONTENT_SHA256)
    ] = UNSET
    content_sha256_after: Annotated[
        str | UnsetType, field("Digest of the uncompressed full CSV file after.", examples.CONTENT_SHA256)
    ] = UNSET
    constants: Annotated[
        dict[str, str | None] | UnsetType,
        field("Columns whose value all rows have now. Deltas do not compare them.", {"ETL_LOADED_AT": examples.AS_OF}),
    ] = UNSET
    files: Annotated[dict[str, DeltaFileView] | UnsetType, field("Delta files by format.", _FILES_EXAMPLE)] = UNSET


class DeltaEntry(msgspec.Struct, frozen=True):
    """Changes of one publication."""

    version: Annotated[int, field("Version of the publication.", 48)]
    from_version: Annotated[int, field("Version that the deltas apply to.", 47)]
    snapshot_id: Annotated[str, uuid("The snapshot.", examples.SNAPSHOT_ID)]
    as_of: Annotated[datetime, field("Instant that the data describes.", examples.AS_OF)]
    published_at: Annotated[datetime, field("When the snapshot was published.", examples.PUBLISHED_AT)]
    resources: Annotated[
        dict[str, ResourceDeltaView], field("The nine resources by name.", {"campaigns": {"state": "unchanged"}})
    ]


class DeltaFeedData(msgspec.Struct, frozen=True):
    """Chain of an account's publications."""

    client_id: Annotated[str, uuid("The account.", examples.CLIENT_ID)]
    chain_id: Annotated[str, uuid("The chain. Load the full files if it changes.", examples.SNAPSHOT_ID)]
    oldest_version: Annotated[int, field("Oldest version that deltas continue from.", 41)]
    version: Annotated[int, field("Version of the current snapshot.", 48)]
    snapshot_id: Annotated[str, uuid("The current snapshot.", examples.SNAPSHOT_ID)]
    as_of: Annotated[datetime, field("Instant that the current data describes.", examples.AS_OF)]
    published_at: Annotated[datetime, field("When it was published.", examples.PUBLISHED_AT)]
    next_expected_at: Annotated[datetime, field("When the next snapshot is due.", "2026-11-25T04:00:00Z")]
    entries: Annotated[tuple[DeltaEntry, ...], Meta(description="The publications, oldest first.")]


class DeltaFeedView(msgspec.Struct, frozen=True):
    """Feed of an account's deltas."""

    data: DeltaFeedData


SINCE = Parameter("since", "query", "Only publications after this version.", 45, int)
IF_NONE_MATCH = Parameter("If-None-Match", "header", "Return 304 if the feed has one of these `ETag`s.", _ETAG)
_HEADERS = (
    Header("ETag", "Changes when the feed changes.", _ETAG),
    Header("Cache-Control", "Caches must ask again before each use.", "no-cache"),
)
_UNCHANGED: ResponseType[Any] = ResponseType("The client already has the feed.", NoneType, (), 304, _HEADERS)
GET_DELTAS = Operation(
    operation_id="getDeltas",
    summary="List deltas",
    description="Returns the publications after a version, with the resources that changed in each. A delta turns the "
    "rows of `from_version` into those of `version`.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(CLIENT_ID, SINCE, IF_NONE_MATCH),
    response=ResponseType("The feed.", DeltaFeedView, headers=_HEADERS),
    other_responses=(_UNCHANGED,),
    problems=("snapshot_not_ready", "chain_closed"),
)
_DELTA_NAME = Annotated[str, Meta(extra_json_schema={"enum": list(delta_names())})]
REQUEST_DELTA = Operation(
    operation_id="requestDelta",
    summary="Request a delta",
    description="Redirects to a signed link to the delta file, which works for {link_lifetime} and needs no token. "
    "Each request returns a new link.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(
        CLIENT_ID,
        Parameter("version", "path", "Version of the publication.", 48, int),
        Parameter("name", "path", "Name of the delta file.", "members.delta.csv.gz", _DELTA_NAME),
    ),
    response=link_response_type(examples.DELTA_LINK),
    problems=("unknown_file", "no_delta", "rate_limited"),
)


def delta_routes(services: Services) -> list[ApiRoute]:
    """Return the routes of deltas below /download/v1/files."""
    endpoints = _DeltaEndpoints(services)
    return [
        ApiRoute("/download/v1/files/{client_id}/deltas", endpoints.feed, GET_DELTAS),
        ApiRoute("/download/v1/files/{client_id}/deltas/{version}/{name}", endpoints.download, REQUEST_DELTA),
    ]


@dataclass(frozen=True, slots=True)
class _DeltaEndpoints:
    services: Services

    async def feed(self, request: Request) -> Response:
        principal = await principal_of(request, self.services)
        client_id = request.path_params["client_id"].lower()
        sent, since = SINCE.read(request), None
        if sent is not None:
            try:
                since = _version(sent)
            except ValueError as reason:
                fault = FieldFault("?since", "Use a version such as 45.")
                raise InvalidRequest(f"The version {reason}.", faults=(fault,)) from None
        found = await delta_feed(self.services, principal, client_id, since)
        body = _feed_view(client_id, found)
        etag = f'"{hashlib.sha256(msgspec.json.encode(body)).hexdigest()[:40]}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if_none_match = {"if-none-match": ", ".join(request.headers.getlist("if-none-match"))}
        conditions = if_none_match if "if-none-match" in request.headers else {}
        if evaluate(conditions, etag=etag, modified=found.chain.current.published_at) == "not_modified":
            return _UNCHANGED.create(None, headers)
        return GET_DELTAS.response.create(body, headers)

    async def download(self, request: Request) -> Response:
        principal = await principal_of(request, self.services)
        require_plain_path(request)
        try:
            version = _version(request.path_params["version"])
        except ValueError as reason:
            raise NotFound(f"The version in the path {reason}. Use one of the feed.", code="no_delta") from None
        named = downloads.delta_named(request.path_params["name"], version)
        return await respond_with_link(REQUEST_DELTA, self.services, principal, request, named)


def _version(text: str) -> int:
    """Return a version. Raises ValueError with what is wrong with another text."""
    if not text.isascii() or not text.isdecimal():
        raise ValueError("is not a whole number")
    digits = text.lstrip("0") or "0"
    if len(digits) > _MAX_DIGITS or int(digits) > _MAX_VERSION:
        raise ValueError("is too large")
    return int(digits)


def _feed_view(client_id: str, feed: DeltaFeed) -> DeltaFeedView:
    chain = feed.chain
    return DeltaFeedView(
        view_of(
            DeltaFeedData,
            chain.current,
            client_id=client_id,
            chain_id=chain.chain_id,
            oldest_version=chain.oldest_version,
            next_expected_at=feed.freshness.next_expected_at,
            entries=tuple(map(_entry, chain.entries)),
        )
    )


def _entry(entry: ChainEntry) -> DeltaEntry:
    resources = {resource.name: _resource(resource, entry.resources.get(resource.name)) for resource in RESOURCES}
    return view_of(DeltaEntry, entry.publication, from_version=entry.publication.version - 1, resources=resources)


def _resource(resource: Resource, delta: ResourceDelta | None) -> ResourceDeltaView:
    if delta is None:
        return ResourceDeltaView("unchanged")
    if delta.state == "full_required":
        return ResourceDeltaView("full_required", delta.reason)
    files = {
        name: DeltaFileView(resource.file_name(delta_format(name)), stored.bytes, stored.sha256)
        for name, stored in delta.formats.items()
        if name in DEFAULT_FORMATS
    }
    return view_of(ResourceDeltaView, delta, reason=UNSET, files=files)
