"""Stored files as HTTP answers: whole, in parts, or not at all when they are not what was stored.

Small files go out in one piece; of larger ones and of parts the server gets the place in the file, and the kernel sends
it: however slow a reader is, it holds no memory.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daybreak.domain.errors import FileDamaged, FileStoreError, RequestError
from daybreak.domain.snapshot import CurrentFile
from daybreak.ports.files import FileStore
from daybreak.web.answers import Answer
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

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._good: OrderedDict[str, _Identity] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[None]] = {}
        # Digests of large files must not queue before the short work of other requests.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="digest")

    async def check(self, path: Path, file: CurrentFile) -> None:
        """Raises FileDamaged when the octets on disk are not those of the manifest, FileStoreError
        when the file is not there.
        """
        key = file.stored.key
        identity = _identity(path, file)
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
            await loop.run_in_executor(self._threads, self._files.check, key, file.stored.bytes, file.stored.sha256)
        finally:
            del self._under_way[key]
            done.set_result(None)
        self._good[key] = identity
        if len(self._good) > _CHECKED_AT_MOST:
            self._good.popitem(last=False)

    def close(self) -> None:
        """Ends its threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _identity(path: Path, file: CurrentFile) -> _Identity:
    try:
        found = path.stat()
    except OSError as fault:
        raise FileStoreError(f"{path} cannot be read: {fault.strerror}") from fault
    if found.st_size != file.stored.bytes:
        raise FileDamaged(f"{path} has {found.st_size} octets, not {file.stored.bytes}")
    return _Identity(found.st_ino, found.st_mtime_ns, found.st_size, file.stored.sha256)


def etag_of(file: CurrentFile, representation: Representation) -> str:
    """A strong entity tag: the digest of the octets, and which representation they are."""
    return f'"{file.stored.sha256[:40]}-{representation.tag}"'


def file_headers(file: CurrentFile, representation: Representation) -> dict[str, str]:
    """The headers of a file, names in lower case, whatever part of it is sent; without its length."""
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
    return headers


def file_response(
    path: Path,
    file: CurrentFile,
    representation: Representation,
    request_headers: Mapping[str, str],
    *,
    method: str,
) -> Response:
    """The answer with a file's octets to GET or HEAD, conditions and ranges observed.

    `request_headers` have lower-case names. Raises RequestError `precondition_failed`.
    """
    headers = file_headers(file, representation)
    etag, size = headers["etag"], file.stored.bytes
    verdict = judge(request_headers, etag=etag, modified=file.published_at)
    if verdict == "failed":
        raise RequestError("The file is not the one that your condition names.", code="precondition_failed")
    if verdict == "not_modified":
        for name in ("content-type", "content-disposition", "content-encoding"):
            headers.pop(name, None)
        return Response(status_code=304, headers=headers)
    if method == "GET" and "range" in request_headers:
        stands = range_stands(request_headers.get("if-range"), etag=etag, modified=file.published_at)
        asked = parse_ranges(request_headers["range"], size) if stands else None
        if isinstance(asked, Unsatisfiable):
            raise RangeNotSatisfiable(asked.reason, size)
        if asked is not None:
            return _parts(path, asked, size, headers)
    if method == "HEAD":
        return _Bodiless(headers, size)
    if size <= INLINE_BYTES:
        return _inline(path, size, headers)
    return StoredBytes(path, (Segment(b"", 0, size),), size, 200, headers)


class Segment(msgspec.Struct, frozen=True):
    """Octets to send: `before`, then `length` octets of the file from `start`."""

    before: bytes
    start: int
    length: int


class StoredBytes(Response):
    """Sends segments of a file. The length is known before, so a cut transfer shows."""

    def __init__(
        self, path: Path, segments: tuple[Segment, ...], length: int, status_code: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(status_code=status_code, headers=dict(headers))
        self.headers["Content-Length"] = str(length)
        self._path = path
        self._segments = segments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Opens the file before the answer starts: one that is gone is a problem, not a stump."""
        with _open(self._path) as file:
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


def _open(path: Path) -> IO[bytes]:
    try:
        return path.open("rb", buffering=0)
    except OSError as fault:
        raise FileStoreError(f"{path} cannot be read: {fault.strerror}") from fault


def _inline(path: Path, size: int, headers: Mapping[str, str]) -> Response:
    with _open(path) as file:
        try:
            content = file.read(size + 1)
        except OSError as fault:
            raise FileStoreError(f"{path} cannot be read: {fault.strerror}") from fault
    if len(content) != size:
        raise FileDamaged(f"{path} has {len(content)} octets, not {size}")
    return Answer(content, [(name.encode("ascii"), text.encode("latin-1")) for name, text in headers.items()])


def _parts(path: Path, spans: tuple[Span, ...], size: int, headers: dict[str, str]) -> StoredBytes:
    if len(spans) == 1:
        span = spans[0]
        headers["content-range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
        return StoredBytes(path, (Segment(b"", span.start, span.length),), span.length, 206, headers)
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
    return StoredBytes(path, tuple(segments), length, 206, headers)
