"""Signed links: the file, or a redirect to the object store."""

import dataclasses
from types import NoneType
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from daybreak import downloads
from daybreak.access.services import Services
from daybreak.catalogue.download_paths import link_names
from daybreak.catalogue.formats import format_named
from daybreak.credentials.signed_link import LINK_FILE_NAME, LINK_MARKER, LINK_PART, PARAMETERS, LinkRequest
from daybreak.credentials.sigv4 import merged_headers
from daybreak.domain.errors import Forbidden
from daybreak.settings import Settings
from daybreak.web.api import examples
from daybreak.web.api.files import CLIENT_ID, require_plain_path
from daybreak.web.api.operation import LINKS, AnyOperation, ApiRoute, Header, Operation, Parameter, ResponseType
from daybreak.web.file_sender import STORE_URL_SECONDS, FileSender
from daybreak.web.http.files import entity_of
from daybreak.web.http.negotiation import choose, stored_representation
from daybreak.web.request_state import caller_of, record_subject

_LINK_FIELDS = {
    "expires": ("Expiry of the link, as a Unix timestamp in seconds.", "1795509900"),
    "nonce": ("Random value.", "8d1f0c27a95be364"),
    "subject": ("Credential that the link was issued for.", "1a2b6f1d453c84e7a9f026d41c8e7b935"),
    "kid": ("Key of the signature.", "5c90e1ab"),
    "signature": ("Signature of the link.", "3b1f...c07e"),
}
_ETAG = '"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b-f"'
_DATE = "Tue, 24 Nov 2026 04:00:00 GMT"
_CONDITIONS = (
    Parameter("Range", "header", "Byte ranges, at most eight (RFC 9110 §14.2).", "bytes=1048576-"),
    Parameter("If-Range", "header", "Ignore `Range` if the file has another `ETag`.", _ETAG),
    Parameter("If-None-Match", "header", "Return 304 if the file has one of these `ETag`s.", _ETAG),
    Parameter("If-Modified-Since", "header", "Return 304 unless the file was published after this time.", _DATE),
    Parameter("If-Match", "header", "Return 412 unless the file has one of these `ETag`s.", _ETAG),
    Parameter("If-Unmodified-Since", "header", "Return 412 if the file was published after this time.", _DATE),
)
_UNCHANGED_HEADERS = (
    Header("ETag", "Changes when the content changes.", _ETAG),
    Header("Last-Modified", "When the snapshot was published.", _DATE),
    Header("Repr-Digest", "SHA-256 of the file (RFC 9530).", "sha-256=:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=:"),
    Header("X-Row-Count", "Number of rows, without the header.", "1204"),
    Header("X-Snapshot-Id", "Snapshot of the file.", examples.SNAPSHOT_ID),
    Header("X-Snapshot-Version", "Version of the snapshot.", "48"),
)
_HEADERS = (*_UNCHANGED_HEADERS, Header("Content-Disposition", "File name.", 'attachment; filename="campaigns.csv.gz"'))
_LOCATION = Header("Location", "URL of the file in the object store.", "https://bucket.example.org/...")
_SERVED = (
    "`Accept: text/csv` with `Accept-Encoding: gzip` returns the content with `Content-Encoding: gzip` instead of a "
    "compressed file; the other formats work the same way."
)
_REDIRECTED = (
    "Requests for files in an object store are redirected to the store, which evaluates conditions and ranges. The "
    "service sends a file itself if the store would send another representation of it."
)
_PROBLEMS = (
    "invalid_link",
    "link_expired",
    "link_revoked",
    "address_not_allowed",
    "unknown_file",
    "file_gone",
    "no_delta",
    "rate_limited",
    "state_unavailable",
    "busy",
    "files_unavailable",
    "precondition_failed",
    "range_not_satisfiable",
    "file_damaged",
    "file_store_fault",
)
_STORE_URL: ResponseType[Any] = ResponseType(
    f"`Location` works for {STORE_URL_SECONDS} seconds.", NoneType, (), 302, (_LOCATION,)
)

LINK_ROUTE = "link"
_MAX_QUERY_CHARACTERS = 1024


def link_operation(settings: Settings) -> AnyOperation:
    """Return the description of a download from the configured file store."""
    formats = settings.snapshot.formats
    file_name = Annotated[str, Meta(extra_json_schema={"enum": list(link_names(formats))})]
    file = ResponseType("The file.", bytes, _media_types(formats), headers=_HEADERS)
    ranges = dataclasses.replace(
        file,
        description="The requested ranges of the file.",
        status=206,
        media_types=(*file.media_types, "multipart/byteranges"),
    )
    unchanged = ResponseType("The client already has the file.", NoneType, (), 304, _UNCHANGED_HEADERS)
    operation = Operation(
        operation_id="downloadFile",
        summary="Download a file",
        description="Opens a signed link, which works for {link_lifetime}. The link is the credential: send no token. "
        + _SERVED,
        tag=LINKS,
        parameters=(
            CLIENT_ID,
            Parameter("snapshot_id", "path", "The snapshot.", examples.SNAPSHOT_ID, UUID),
            Parameter("file", "path", "File name.", "campaigns.csv.gz", file_name),
            *(Parameter(name, "query", *_LINK_FIELDS[name], required=True) for name in PARAMETERS),
            Parameter(LINK_PART, "query", "Number of a part of a large Parquet file, from 1.", 1, int),
            Parameter(LINK_MARKER[0], "query", "Marks links for readers of Delta tables.", LINK_MARKER[1], str),
            Parameter(
                LINK_FILE_NAME, "query", "Repeats the file name. May be left out.", "campaigns.csv.gz", file_name
            ),
            *_CONDITIONS,
        ),
        response=file,
        other_responses=(ranges, unchanged),
        problems=_PROBLEMS,
    )
    if settings.files.folder is not None:
        return operation
    return dataclasses.replace(
        operation,
        description=f"{operation.description} {_REDIRECTED}",
        response=_STORE_URL,
        other_responses=(file, *operation.other_responses),
    )


def _media_types(formats: tuple[str, ...]) -> tuple[str, ...]:
    types = {format_named(name).media_type for name in formats}
    return tuple(sorted(types | {format_named(name).content_type.partition(";")[0] for name in formats}))


def link_routes(services: Services, sender: FileSender) -> list[ApiRoute]:
    """Return the route below /download/v1/links."""

    async def fetch(request: Request) -> Response:
        require_plain_path(request)
        query = request.scope["query_string"].decode("latin-1")
        if len(query) > _MAX_QUERY_CHARACTERS:
            raise Forbidden("Invalid link.", code="invalid_link")
        parts = request.path_params
        link = LinkRequest(parts["client_id"], parts["snapshot_id"], parts["file"], _parameters(query))
        opened = await downloads.open_link(services, link, caller_of(request))
        record_subject(request, "", opened.client_id)
        serve_gzip_as = services.settings.files.serve_gzip_as
        resource, file_format = opened.named.resource, opened.named.format
        representation = choose(
            resource,
            file_format,
            accept=request.headers.getlist("accept"),
            accept_encoding=request.headers.getlist("accept-encoding"),
            serve_gzip_as=opened.serve_gzip_as or serve_gzip_as,
        )
        # An object store sends one representation only.
        redirect = representation == stored_representation(resource, file_format, serve_gzip_as)
        if opened.saved_name is not None:
            name = opened.saved_name._replace(file_name=representation.file_name).text
            representation = msgspec.structs.replace(representation, file_name=name)
        entity, headers = entity_of(opened.file, representation), merged_headers(request.scope["headers"])
        return await sender.send(request, opened, entity, headers, redirect=redirect)

    path, operation = "/download/v1/links/{client_id}/{snapshot_id}/{file}", link_operation(services.settings)
    return [ApiRoute(path, fetch, operation, name=LINK_ROUTE)]


def _parameters(query: str) -> list[tuple[str, str]]:
    """Split the query without decoding it, because links contain no percent-encoding."""
    return [(name, value) for name, _, value in (field.partition("=") for field in query.split("&"))]
