"""Stored files as HTTP answers: whole, in parts, or not at all when they are not what was stored.

Small files go out in one piece; of larger ones and of parts the server gets the place in the file, and the kernel sends
it: however slow a reader is, it holds no memory.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import FileIO

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daybreak.domain.errors import FileDamaged, FileStoreError, RequestError
from daybreak.domain.snapshot import CurrentFile
from daybreak.web.answers import Answer, Headers
from daybreak.web.negotiation import Representation
from daybreak.web.preconditions import http_date, judge, range_stands
from daybreak.web.problems import RangeNotSatisfiable
from daybreak.web.ranges import Span, Unsatisfiable, parse_ranges

INLINE_BYTES = 64 * 1024
_CHECKED_AT_MOST = 100_000


class _Identity(msgspec.Struct, frozen=True):
    """A file on disk as it was when its digest was right."""

    inode: int
    modified_ns: int
    bytes: int
    sha256: str


class DigestGuard:
    """Checks the digest of each file before this process serves it for the first time, and again
    when it is another file on disk than the one that was checked.
    """

    def __init__(self) -> None:
        self._good: OrderedDict[str, _Identity] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[None]] = {}
        # Digests of large files must not queue before the short work of other requests.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="digest")

    async def check(self, octets: FileIO, file: CurrentFile) -> None:
        """Raises FileDamaged when the octets of the open file are not those of the manifest, FileStoreError when they
        cannot be read.
        """
        key = file.stored.key
        identity = _identity(octets, file)
        if self._good.get(key) == identity:
            return
        while key in self._under_way:
            await asyncio.wait((self._under_way[key],))
            if self._good.get(key) == identity:
                return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._under_way[key] = done
        try:
            await loop.run_in_executor(self._threads, _compare, octets, file)
        finally:
            del self._under_way[key]
            done.set_result(None)
        self._good[key] = identity
        if len(self._good) > _CHECKED_AT_MOST:
            self._good.popitem(last=False)

    def close(self) -> None:
        """Ends its threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _identity(octets: FileIO, file: CurrentFile) -> _Identity:
    found = os.fstat(octets.fileno())
    if found.st_size != file.stored.bytes:
        raise FileDamaged(f"The file {file.stored.key} has {found.st_size} octets, not {file.stored.bytes}")
    return _Identity(found.st_ino, found.st_mtime_ns, found.st_size, file.stored.sha256)


def _compare(octets: FileIO, file: CurrentFile) -> None:
    try:
        digest = hashlib.file_digest(octets, "sha256").hexdigest()
    except OSError as fault:
        raise _unreadable(file, fault) from fault
    if digest != file.stored.sha256:
        raise FileDamaged(f"The file {file.stored.key} is not what was written")


def _unreadable(file: CurrentFile, fault: OSError) -> FileStoreError:
    return FileStoreError(f"The file {file.stored.key} cannot be read: {fault.strerror}")


def etag_of(file: CurrentFile, representation: Representation) -> str:
    """A strong entity tag: the digest of the octets, and which representation they are."""
    return f'"{file.stored.sha256[:40]}-{representation.tag}"'


class FileHeaders(msgspec.Struct, frozen=True):
    """The headers of a file, names in lower case, whatever part of it is sent; without its length. As texts, and as
    they go over the wire.
    """

    texts: Mapping[str, str]
    wire: Headers


@lru_cache(1024)  # of what is fetched again and again
def file_headers(file: CurrentFile, representation: Representation) -> FileHeaders:
    """The headers that a file has in a representation."""
    digest = base64.b64encode(bytes.fromhex(file.stored.sha256)).decode("ascii")
    headers = {
        "content-type": representation.content_type,
        "content-disposition": f'attachment; filename="{representation.file_name}"',
        "etag": etag_of(file, representation),
        "last-modified": http_date(file.published_at),
        "accept-ranges": "bytes",
        "repr-digest": f"sha-256=:{digest}:",
        "x-row-count": str(file.rows),
        "x-snapshot-id": file.snapshot_id,
        "cache-control": "private, no-cache, no-transform",
    }
    if representation.content_encoding is not None:
        headers["content-encoding"] = representation.content_encoding
    if representation.varies:
        headers["vary"] = "Accept, Accept-Encoding"
    return FileHeaders(headers, [(name.encode("ascii"), text.encode("latin-1")) for name, text in headers.items()])


def file_response(
    octets: FileIO,
    file: CurrentFile,
    representation: Representation,
    request_headers: Mapping[str, str],
    *,
    method: str,
) -> Response:
    """The answer with the octets of an open file to GET or HEAD, conditions and ranges observed. A StoredBytes closes
    the file once it is sent; nobody else does.

    `request_headers` have lower-case names. Raises RequestError `precondition_failed`, FileStoreError.
    """
    known = file_headers(file, representation)
    etag, size = known.texts["etag"], file.stored.bytes
    verdict = judge(request_headers, etag=etag, modified=file.published_at)
    if verdict == "failed":
        raise RequestError("The file is not the one that your condition names.", code="precondition_failed")
    if verdict == "not_modified":
        of_content = ("content-type", "content-disposition", "content-encoding")
        return Response(
            status_code=304, headers={name: text for name, text in known.texts.items() if name not in of_content}
        )
    if method == "GET" and "range" in request_headers:
        stands = range_stands(request_headers.get("if-range"), etag=etag, modified=file.published_at)
        asked = parse_ranges(request_headers["range"], size) if stands else None
        if isinstance(asked, Unsatisfiable):
            raise RangeNotSatisfiable(asked.reason, size)
        if asked is not None:
            return _parts(octets, asked, size, dict(known.texts))
    if method == "HEAD":
        return _Bodiless(known.texts, size)
    if size <= INLINE_BYTES:
        return Answer(_content(octets, file), known.wire)
    return StoredBytes(octets, (Segment(b"", 0, size),), size, 200, known.texts)


class Segment(msgspec.Struct, frozen=True):
    """Octets to send: `before`, then `length` octets of the file from `start`."""

    before: bytes
    start: int
    length: int


class StoredBytes(Response):
    """Sends segments of an open file, and closes it. The length is known before, so a cut transfer shows."""

    def __init__(
        self, octets: FileIO, segments: tuple[Segment, ...], length: int, status_code: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(status_code=status_code, headers=dict(headers))
        self.headers["Content-Length"] = str(length)
        self._octets = octets
        self._segments = segments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        with self._octets as file:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for segment in self._segments:
                if segment.before:
                    await send({"type": "http.response.body", "body": segment.before, "more_body": True})
                if segment.length:
                    await send(
                        {
                            "type": "http.response.zerocopysend",
                            "file": file,
                            "offset": segment.start,
                            "count": segment.length,
                            "more_body": True,
                        }
                    )
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Bodiless(Response):
    """The headers of a file with its length, for HEAD."""

    def __init__(self, headers: Mapping[str, str], size: int) -> None:
        super().__init__(headers=dict(headers))
        self.headers["Content-Length"] = str(size)


def _content(octets: FileIO, file: CurrentFile) -> bytes:
    size = file.stored.bytes
    try:
        content = os.pread(octets.fileno(), size + 1, 0)
    except OSError as fault:
        raise _unreadable(file, fault) from fault
    if len(content) != size:
        raise FileDamaged(f"The file {file.stored.key} has {len(content)} octets, not {size}")
    return content


def _parts(octets: FileIO, spans: tuple[Span, ...], size: int, headers: dict[str, str]) -> StoredBytes:
    if len(spans) == 1:
        span = spans[0]
        headers["content-range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
        return StoredBytes(octets, (Segment(b"", span.start, span.length),), span.length, 206, headers)
    boundary = os.urandom(12).hex()
    content_type = headers["content-type"]
    segments = []
    for span in spans:
        before = (
            f"\r\n--{boundary}\r\nContent-Type: {content_type}\r\n"
            f"Content-Range: bytes {span.start}-{span.stop - 1}/{size}\r\n\r\n"
        )
        segments.append(Segment(before.encode("ascii"), span.start, span.length))
    segments.append(Segment(f"\r\n--{boundary}--\r\n".encode("ascii"), size, 0))
    headers["content-type"] = f"multipart/byteranges; boundary={boundary}"
    length = sum(len(segment.before) + segment.length for segment in segments)
    return StoredBytes(octets, tuple(segments), length, 206, headers)
