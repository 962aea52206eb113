"""Signed links: the file, or a redirect to the object store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from io import FileIO
from typing import Literal
from urllib.parse import quote

import structlog
from starlette.requests import Request
from starlette.responses import Response

from daybreak import downloads
from daybreak.domain.errors import FileStoreError, Forbidden, Unavailable
from daybreak.domain.snapshot import CurrentFile
from daybreak.downloads import OpenedFile
from daybreak.web.api.files import require_plain_path
from daybreak.web.api.link_operation import STORE_URL_SECONDS, link_operation
from daybreak.web.api.operation import ApiRoute
from daybreak.web.api.partial_downloads import PartialDownloads
from daybreak.web.http.digests import DigestGuard
from daybreak.web.http.files import VARY, FileAnswer, file_answer, file_headers
from daybreak.web.http.negotiation import Representation, choose, stored_representation
from daybreak.web.http.ranges import parse_ranges
from daybreak.web.metrics import count_event
from daybreak.web.request_state import caller_of, record_subject, request_id_of
from daybreak.web.services import Services
from daybreak.web.transfers import (
    FileTransfer,
    TransferLimit,
    file_pieces,
    read_segments,
    store_pieces,
    with_first_piece,
)

LINK_ROUTE = "link"
# The location of the files in the nginx configuration of docs/how-to/operations.md.
ACCELERATED_LOCATION = "/daybreak-files/"
# Smaller bodies are sent in one piece, and do not count as transfers.
INLINE_BYTES = 64 * 1024
_MAX_QUERY_CHARACTERS = 1024
_log = structlog.get_logger("daybreak.web")


def link_routes(services: Services, guard: DigestGuard) -> list[ApiRoute]:
    """Return the route below /download/v1/links."""
    endpoint = _LinkEndpoint(services, guard)
    path, operation = "/download/v1/links/{client_id}/{snapshot_id}/{file}", link_operation(services.settings)
    return [ApiRoute(path, endpoint.fetch, operation, name=LINK_ROUTE)]


class _LinkEndpoint:
    def __init__(self, services: Services, guard: DigestGuard) -> None:
        self._services = services
        self._guard = guard
        self._transfers = TransferLimit(services.settings.files.max_transfers)
        self._partial_downloads = PartialDownloads()

    async def fetch(self, request: Request) -> Response:
        require_plain_path(request)
        query = request.scope["query_string"].decode("latin-1")
        if len(query) > _MAX_QUERY_CHARACTERS:
            raise Forbidden("Invalid link.", code="invalid_link")
        parts = request.path_params
        link = downloads.LinkRequest(parts["client_id"], parts["snapshot_id"], parts["file"], _parameters(query))
        opened = await downloads.open_link(self._services.downloads, link, caller_of(request))
        record_subject(request, "", opened.client_id)
        representation = choose(
            opened.named.resource,
            opened.named.format,
            accept=request.headers.getlist("accept"),
            accept_encoding=request.headers.getlist("accept-encoding"),
            serve_gzip_as=opened.serve_gzip_as or self._services.settings.files.serve_gzip_as,
        )
        try:
            return await self._respond(request, opened, representation)
        except (FileStoreError, Unavailable) as error:
            count_event(error.code)
            _log.error(
                "file_not_served",
                request_id=request_id_of(request.scope),
                key=opened.file.stored.key,
                code=error.code,
                cause=error.message,
            )
            raise

    async def _respond(self, request: Request, opened: OpenedFile, representation: Representation) -> Response:
        file = self._services.files.open_local(opened.file.stored.key)
        if file is None:
            return await self._respond_from_store(request, opened, representation)
        with ExitStack() as resources:
            resources.enter_context(file)
            await self._guard.check(file, opened.file)
            headers = _merged_headers(request)
            answer = file_answer(opened.file, representation, headers, method=request.method)
            if self._is_accelerated(answer, headers):
                await self._record(request, opened, answer.length)
                return _accelerated(opened.file, representation)
            if answer.length <= INLINE_BYTES:
                body = _read(file, answer, opened.file.stored.key)
                await self._record(request, opened, answer.length)
                return Response(body, answer.status, answer.headers)
            resources.enter_context(self._transfers.transfer())
            await self._record(request, opened, answer.length)
            # From here on, the response owns the file and its transfer slot.
            return FileTransfer(answer, file_pieces(file, answer.segments), resources.pop_all())

    async def _respond_from_store(
        self, request: Request, opened: OpenedFile, representation: Representation
    ) -> Response:
        """Redirect to the object store if it sends this representation, else send the file through the service."""
        serve_gzip_as = self._services.settings.files.serve_gzip_as
        if representation == stored_representation(opened.named.resource, opened.named.format, serve_gzip_as):
            redirect = await self._store_redirect(request, opened)
            if representation.varies:
                redirect.headers["Vary"] = VARY
            await self._record(request, opened, _requested_bytes(request, opened))
            return redirect
        answer = file_answer(opened.file, representation, _merged_headers(request), method=request.method)
        with ExitStack() as resources:
            if answer.length > INLINE_BYTES:
                resources.enter_context(self._transfers.transfer())
            pieces = await with_first_piece(store_pieces(self._services.files, opened.file.stored.key, answer.segments))
            await self._record(request, opened, answer.length)
            return FileTransfer(answer, pieces, resources.pop_all())

    def _is_accelerated(self, answer: FileAnswer, headers: Mapping[str, str]) -> bool:
        """Return whether nginx sends the body.

        nginx would evaluate If-Match and If-Unmodified-Since again, against its own entity tag and date of the file.
        """
        return (
            self._services.settings.files.accelerate == "nginx"
            and answer.length > INLINE_BYTES
            and not {"if-match", "if-unmodified-since"} & headers.keys()
        )

    async def _record(self, request: Request, opened: OpenedFile, sent_bytes: int) -> None:
        """Record a download in the audit trail before it starts. The parts of one download are recorded once."""
        if request.method != "GET" or sent_bytes == 0:
            return
        caller, file_bytes = caller_of(request), opened.file.stored.bytes
        record = partial(downloads.record_fetch, self._services.downloads, opened, caller)
        if sent_bytes >= file_bytes:
            await record()
            return
        key = (request.scope["raw_path"], request.scope["query_string"], caller.address)
        await self._partial_downloads.record(key, record, part_bytes=sent_bytes, file_bytes=file_bytes)

    async def _store_redirect(self, request: Request, opened: OpenedFile) -> Response:
        method: Literal["GET", "HEAD"] = "HEAD" if request.method == "HEAD" else "GET"
        key = opened.file.stored.key
        url = await self._services.files.signed_url(key, seconds=STORE_URL_SECONDS, method=method)
        if url is None:
            raise Unavailable("The file store is not available.", code="files_unavailable")
        return Response(status_code=302, headers={"Location": url})


def _requested_bytes(request: Request, opened: OpenedFile) -> int:
    """Return how many bytes of the file the store sends if the client repeats its Range header there."""
    size = opened.file.stored.bytes
    ranges = parse_ranges(request.headers.get("range", ""), size)
    return sum(span.length for span in ranges) if isinstance(ranges, tuple) else size


def _accelerated(file: CurrentFile, representation: Representation) -> Response:
    """Return a response that nginx replaces with the file. nginx evaluates Range and If-Range, with this entity tag."""
    headers = file_headers(file, representation) | {"x-accel-redirect": ACCELERATED_LOCATION + quote(file.stored.key)}
    # nginx adds its own Accept-Ranges header.
    del headers["accept-ranges"]
    return Response(headers=headers)


def _read(file: FileIO, answer: FileAnswer, key: str) -> bytes:
    try:
        return read_segments(file, answer.segments)
    except OSError as error:
        raise FileStoreError(f"The file {key} cannot be read: {error.strerror}") from error


def _parameters(query: str) -> list[tuple[str, str]]:
    """Split the query without decoding it, because links contain no percent-encoding."""
    return [(name, value) for name, _, value in (field.partition("=") for field in query.split("&"))]


def _merged_headers(request: Request) -> dict[str, str]:
    """Return the headers with names in lower case, repeated ones joined to one list (RFC 9110 §5.3)."""
    merged: dict[str, str] = {}
    for name, value in request.headers.items():
        merged[name] = f"{merged[name]}, {value}" if name in merged else value
    return merged
