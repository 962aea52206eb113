"""Responses to requests for stored files: status, headers and parts of the file."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from daybreak.domain.errors import RequestError
from daybreak.domain.snapshot import CurrentFile
from daybreak.web.http.conditional import evaluate, http_date, range_applies
from daybreak.web.http.negotiation import Representation
from daybreak.web.http.problems import RangeNotSatisfiable
from daybreak.web.http.ranges import Span, Unsatisfiable, parse_ranges

VARY = "Accept, Accept-Encoding"
# A 304 has no headers that describe the content (RFC 9110 §15.4.5). S3 clients would verify a checksum.
_CONTENT_HEADERS = frozenset(
    {"content-type", "content-disposition", "content-encoding", "x-amz-checksum-sha256", "x-amz-checksum-type"}
)


class Segment(msgspec.Struct, frozen=True):
    """Bytes to send: `prefix`, then `length` bytes of the file from `start`."""

    prefix: bytes
    start: int
    length: int


class FileEntity(msgspec.Struct, frozen=True):
    """A file as a client sees it. `headers` are those of all its responses, without the length of the body. They have
    names in lower case, and contain the entity tag.
    """

    headers: Mapping[str, str]
    modified_at: datetime
    bytes: int


class FileAnswer(msgspec.Struct, frozen=True):
    """Response to a request for a file. Header names are in lower case. Without segments it has no body."""

    status: int
    headers: Mapping[str, str]
    segments: tuple[Segment, ...] = ()

    @property
    def length(self) -> int:
        """Number of bytes in the body."""
        return sum(len(segment.prefix) + segment.length for segment in self.segments)


def etag_of(file: CurrentFile, representation: Representation) -> str:
    """Return a strong entity tag: the digest of the stored bytes, and the representation."""
    return f'"{file.stored.sha256[:40]}-{representation.tag}"'


@lru_cache(1024)  # for files that are fetched repeatedly
def file_headers(file: CurrentFile, representation: Representation) -> dict[str, str]:
    """Return the headers of a file in a representation, without the length. Do not modify the result."""
    digest = base64.b64encode(bytes.fromhex(file.stored.sha256)).decode("ascii")
    headers = {
        "content-type": representation.content_type,
        "content-disposition": f'attachment; filename="{representation.file_name}"',
        "etag": etag_of(file, representation),
        "last-modified": http_date(file.modified_at),
        "accept-ranges": "bytes",
        "repr-digest": f"sha-256=:{digest}:",
        "x-row-count": str(file.rows),
        "x-snapshot-id": file.snapshot_id,
        "x-snapshot-version": str(file.version),
        "cache-control": "private, no-cache, no-transform",
    }
    if representation.content_encoding is not None:
        headers["content-encoding"] = representation.content_encoding
    if representation.varies:
        headers["vary"] = VARY
    return headers


def entity_of(file: CurrentFile, representation: Representation) -> FileEntity:
    """Return a file in a representation."""
    return FileEntity(file_headers(file, representation), file.modified_at, file.stored.bytes)


def file_answer(entity: FileEntity, request_headers: Mapping[str, str], *, method: str) -> FileAnswer:
    """Return the response to a GET or HEAD request, with its conditions and ranges (RFC 9110 §13 and §14).

    Args:
        entity: The file.
        request_headers: The headers of the request, with names in lower case.
        method: `GET` or `HEAD`.

    Raises:
        RequestError: `precondition_failed` or `range_not_satisfiable`.
    """
    headers, etag, size = dict(entity.headers), entity.headers["etag"], entity.bytes
    outcome = evaluate(request_headers, etag=etag, modified=entity.modified_at)
    if outcome == "failed":
        raise RequestError("The file does not match the condition of the request.", code="precondition_failed")
    if outcome == "not_modified":
        return FileAnswer(304, {name: value for name, value in headers.items() if name not in _CONTENT_HEADERS})
    whole = headers | {"content-length": str(size)}
    if method == "HEAD":
        return FileAnswer(200, whole)
    if "range" in request_headers and range_applies(
        request_headers.get("if-range"), etag=etag, modified=entity.modified_at
    ):
        ranges = parse_ranges(request_headers["range"], size)
        if isinstance(ranges, Unsatisfiable):
            raise RangeNotSatisfiable(ranges.reason, size)
        if ranges is not None:
            return _partial(ranges, size, headers)
    return FileAnswer(200, whole, (Segment(b"", 0, size),))


def _partial(spans: tuple[Span, ...], size: int, headers: dict[str, str]) -> FileAnswer:
    """Return a 206 response with one part, or several as `multipart/byteranges` (RFC 9110 §14.6)."""
    if len(spans) == 1:
        span = spans[0]
        changed = {"content-range": _content_range(span, size), "content-length": str(span.length)}
        return FileAnswer(206, headers | changed, (Segment(b"", span.start, span.length),))
    boundary = os.urandom(12).hex()
    segments = []
    for span in spans:
        prefix = (
            f"\r\n--{boundary}\r\nContent-Type: {headers['content-type']}\r\n"
            f"Content-Range: {_content_range(span, size)}\r\n\r\n"
        )
        segments.append(Segment(prefix.encode("ascii"), span.start, span.length))
    segments.append(Segment(f"\r\n--{boundary}--\r\n".encode("ascii"), size, 0))
    length = sum(len(segment.prefix) + segment.length for segment in segments)
    changed = {"content-type": f"multipart/byteranges; boundary={boundary}", "content-length": str(length)}
    return FileAnswer(206, headers | changed, tuple(segments))


def _content_range(span: Span, size: int) -> str:
    return f"bytes {span.start}-{span.stop - 1}/{size}"
