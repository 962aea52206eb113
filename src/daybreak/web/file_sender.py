"""Sending a stored file: from the disk, through nginx, or from the object store.

The parts of a file count as one download while they are not longer than the file.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal
from urllib.parse import quote

import structlog
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.fair_share import FairShare
from daybreak.access.services import Services
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable
from daybreak.downloads import OpenedFile, count_bytes, record_download
from daybreak.web.http.digests import DigestGuard
from daybreak.web.http.files import FileAnswer, FileEntity, file_answer, in_stored_file, parse_ranges
from daybreak.web.metrics import count_event
from daybreak.web.request_state import caller_of, request_id_of
from daybreak.web.transfers import (
    FileTransfer,
    file_pieces,
    piece_bytes_for,
    read_segments,
    store_pieces,
    with_first_piece,
)

STORE_URL_SECONDS = 60
"""Lifetime of the URL of an object store that a link redirects to."""
# The location of the files in the nginx configuration of docs/how-to/operations.md.
ACCELERATED_LOCATION = "/daybreak-files/"
# Smaller bodies are sent in one piece, and do not count as transfers.
INLINE_BYTES = 64 * 1024
_FETCHED = "file.fetched"
_log = structlog.get_logger("daybreak.web")

_MAX_DOWNLOADS = 4096


class FileSender:
    """Sends files that a credential may have, and records the downloads. One per worker."""

    def __init__(self, services: Services, guard: DigestGuard) -> None:
        self._services = services
        self._guard = guard
        self._transfers = FairShare(services.settings.files.max_transfers, "downloads")
        self._partial_downloads = PartialDownloads()

    async def send(
        self, request: Request, opened: OpenedFile, entity: FileEntity, headers: Mapping[str, str], *, redirect: bool
    ) -> Response:
        """Return the response to a GET or HEAD request, which is recorded before the first byte.

        Args:
            request: The request.
            opened: The file.
            entity: The file as the client sees it.
            headers: The headers of the request, with names in lower case. Its conditions and ranges are evaluated.
            redirect: Whether a redirect to an object store may replace the file.

        Raises:
            RequestError, RateLimited, FileStoreError, Unavailable.
        """
        key, part = opened.file.stored.key, opened.file.part
        with reported_faults(request, key), ExitStack() as resources:
            packed = await self._services.files.packed(key)
            if packed is not None:
                answer = file_answer(entity, headers, method=request.method)
                return await self._send_packed(request, opened, answer, packed)
            file = self._services.files.open_local(key)
            if file is None:
                if redirect and part is None:
                    return await self._redirect(request, opened, entity)
                return await self._send_from_store(request, opened, file_answer(entity, headers, method=request.method))
            resources.enter_context(file)
            await self._guard.check(file, opened.file)
            answer = in_stored_file(file_answer(entity, headers, method=request.method), part)
            if part is None and self._is_accelerated(request, answer, headers):
                await self._record(request, opened, answer.length)
                return _accelerated(entity, key)
            if answer.length <= INLINE_BYTES:
                body = read_segments(file, answer.segments)
                await self._record(request, opened, answer.length)
                return Response(body, answer.status, answer.headers)
            resources.enter_context(self._transfers.slot(opened.client_id))
            await self._record(request, opened, answer.length)
            pieces = file_pieces(file, answer.segments, piece_bytes_for(self._transfers.running))
            # From here on, the response owns the file and its transfer slot.
            return FileTransfer(answer, _reporting(pieces, request, opened), resources.pop_all())

    async def _send_packed(self, request: Request, opened: OpenedFile, answer: FileAnswer, content: bytes) -> Response:
        """Send a packed file. It is small, so it is read as a whole and its digest is compared each time."""
        stored = opened.file.stored
        if hashlib.sha256(content).hexdigest() != stored.sha256:
            raise FileDamaged(f"The file {stored.key} does not match its digest.")
        await self._record(request, opened, answer.length)
        return Response(answer.body(content), answer.status, answer.headers)

    async def _redirect(self, request: Request, opened: OpenedFile, entity: FileEntity) -> Response:
        method: Literal["GET", "HEAD"] = "HEAD" if request.method == "HEAD" else "GET"
        key = opened.file.stored.key
        url = await self._services.files.signed_url(key, seconds=STORE_URL_SECONDS, method=method)
        if url is None:
            raise Unavailable("The file store is not available.", code="files_unavailable")
        headers = {"Location": url} | ({"Vary": entity.headers["vary"]} if "vary" in entity.headers else {})
        await self._record(request, opened, _requested_bytes(request, opened))
        return Response(status_code=302, headers=headers)

    async def _send_from_store(self, request: Request, opened: OpenedFile, answer: FileAnswer) -> Response:
        answer = in_stored_file(answer, opened.file.part)
        with ExitStack() as resources:
            if answer.length > INLINE_BYTES:
                resources.enter_context(self._transfers.slot(opened.client_id))
            stored = opened.file.stored
            pieces = await with_first_piece(
                store_pieces(self._services.files, stored.key, answer.segments, stored.bytes)
            )
            await self._record(request, opened, answer.length)
            return FileTransfer(answer, _reporting(pieces, request, opened), resources.pop_all())

    def _is_accelerated(self, request: Request, answer: FileAnswer, headers: Mapping[str, str]) -> bool:
        """Return whether nginx sends the body.

        nginx would evaluate If-Match and If-Unmodified-Since again, against its own entity tag and date of the file. It
        evaluates the Range header that the client sent.
        """
        return (
            self._services.settings.files.accelerate == "nginx"
            and answer.length > INLINE_BYTES
            and headers.get("range") == request.headers.get("range")
            and not {"if-match", "if-unmodified-since"} & headers.keys()
        )

    async def _record(self, request: Request, opened: OpenedFile, sent_bytes: int) -> None:
        """Count the bytes of a response, and record a download in the audit trail, before it starts.

        The parts of one download are recorded once.
        """
        if request.method != "GET" or sent_bytes == 0:
            return
        caller, file_bytes = caller_of(request), opened.file.content.bytes
        origin = EventOrigin(self._services.clock(), caller, opened.seat, opened.client_id, opened.subject)
        await count_bytes(self._services, origin, _FETCHED, opened.details, sent_bytes)
        record = partial(record_download, self._services, origin, _FETCHED, "ok", opened.details)
        if sent_bytes >= file_bytes:
            await record()
            return
        key = (request.scope["raw_path"], request.scope["query_string"], opened.subject, caller.address)
        await self._partial_downloads.record(key, record, part_bytes=sent_bytes, file_bytes=file_bytes)


@contextmanager
def reported_faults(request: Request, key: str) -> Iterator[None]:
    """Count and log a fault of the file or its store."""
    try:
        yield
    except (FileStoreError, Unavailable) as error:
        count_event(error.code)
        _log.error(
            "file_not_served",
            request_id=request_id_of(request.scope),
            key=key,
            code=error.code,
            cause=error.message,
        )
        raise


async def _reporting(pieces: AsyncIterator[bytes], request: Request, opened: OpenedFile) -> AsyncIterator[bytes]:
    """Yield the pieces of a body. Their faults cut off a response that has started."""
    with reported_faults(request, opened.file.stored.key):
        async for piece in pieces:
            yield piece


def _requested_bytes(request: Request, opened: OpenedFile) -> int:
    """Return how many bytes of the file the store sends if the client repeats its Range header there."""
    size = opened.file.stored.bytes
    ranges = parse_ranges(request.headers.get("range", ""), size)
    return sum(map(len, ranges)) if isinstance(ranges, tuple) else size


def _accelerated(entity: FileEntity, key: str) -> Response:
    """Return a response that nginx replaces with the file. nginx evaluates Range and If-Range, with this entity tag."""
    headers = dict(entity.headers) | {"x-accel-redirect": ACCELERATED_LOCATION + quote(key)}
    # nginx adds its own Accept-Ranges header.
    del headers["accept-ranges"]
    return Response(headers=headers)


@dataclass(slots=True)
class _Download:
    """A download in parts. `recorded_bytes` are the bytes that its last record still covers."""

    recorded_bytes: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PartialDownloads:
    """Most recent downloads in parts."""

    def __init__(self) -> None:
        self._downloads: OrderedDict[Hashable, _Download] = OrderedDict()

    async def record(
        self, key: Hashable, record: Callable[[], Awaitable[None]], *, part_bytes: int, file_bytes: int
    ) -> None:
        """Record the download of a part, unless an earlier record covers it.

        A record covers as many bytes as the file has. A client that requests the same part repeatedly is therefore
        recorded again. A failed record covers nothing.

        Args:
            key: What was requested, with which credential and from which address.
            record: Records a download. Its errors are raised.
            part_bytes: Length of this part.
            file_bytes: Length of the file.
        """
        download = self._downloads.setdefault(key, _Download())
        self._downloads.move_to_end(key)
        if len(self._downloads) > _MAX_DOWNLOADS:
            self._downloads.popitem(last=False)
        # Parts that arrive at the same time wait for the record of the first one.
        async with download.lock:
            if download.recorded_bytes < part_bytes:
                await record()
                download.recorded_bytes = file_bytes
            download.recorded_bytes -= part_bytes
