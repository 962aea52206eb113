"""Responses to requests for stored files: status and headers, conditions (RFC 9110 §13), and ranges (§14)."""

import base64
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import structs

from daybreak.domain.errors import RequestError
from daybreak.domain.snapshot import PARQUET_MAGIC, CurrentFile, StoredPart
from daybreak.web.http.negotiation import Representation
from daybreak.web.http.problems import RangeNotSatisfiable

VARY = "Accept, Accept-Encoding"
# A 304 has no headers that describe the content (RFC 9110 §15.4.5). S3 clients would verify a checksum.
_CONTENT_HEADERS = frozenset(
    {"content-type", "content-disposition", "content-encoding", "x-amz-checksum-sha256", "x-amz-checksum-type"}
)

Outcome = Literal["proceed", "not_modified", "failed"]
MAX_RANGES = 8
_BYTES = re.compile(r"bytes[ \t]*=(.+)", re.IGNORECASE | re.ASCII)
_SPEC = re.compile(r"([0-9]{0,30})-([0-9]{0,30})", re.ASCII)


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
        return sum(len(segment.prefix) + segment.length for segment in self.segments)

    def body(self, content: bytes) -> bytes:
        """Return the body, from the content of the whole file."""
        return b"".join(each.prefix + content[each.start : each.start + each.length] for each in self.segments)


@lru_cache(1024)  # for files that are fetched repeatedly
def file_headers(file: CurrentFile, representation: Representation) -> dict[str, str]:
    """Return the headers of a file in a representation, without the length. Do not modify the result."""
    digest = base64.b64encode(bytes.fromhex(file.content.sha256)).decode("ascii")
    headers = {
        "content-type": representation.content_type,
        "content-disposition": f'attachment; filename="{representation.file_name}"',
        # Strong: it has the digest of the stored bytes, and the representation.
        "etag": f'"{file.content.sha256[:40]}-{representation.tag}"',
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
    return FileEntity(file_headers(file, representation), file.modified_at, file.content.bytes)


def in_stored_file(answer: FileAnswer, part: StoredPart | None) -> FileAnswer:
    """Return the response to a request for a part of a file, with its segments as those of the stored file."""
    if part is None:
        return answer
    return structs.replace(
        answer, segments=tuple(each for segment in answer.segments for each in _placed(segment, part))
    )


def _placed(segment: Segment, part: StoredPart) -> Iterator[Segment]:
    end, footer_at = segment.start + segment.length, part.bytes - part.footer_bytes
    yield Segment(segment.prefix + PARQUET_MAGIC[segment.start : end], 0, 0)
    for start, stop, stored_at in (
        (len(PARQUET_MAGIC), footer_at, part.start),
        (footer_at, part.bytes, part.footer_start),
    ):
        first, last = max(segment.start, start), min(end, stop)
        if first < last:
            yield Segment(b"", stored_at + first - start, last - first)


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


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """The header selects no part of the file, or too many (416)."""

    reason: str


def parse_ranges(header: str, size: int) -> tuple[range, ...] | Unsatisfiable | None:
    """Parse a Range header for a file of `size` bytes.

    Returns:
        The requested parts in their order, with overlapping ones merged. None when the header must be ignored, because
        its unit is not `bytes` or it is malformed (§14.2).
    """
    matched = _BYTES.fullmatch(header.strip())
    if matched is None:
        return None
    specs = [spec.strip() for spec in matched.group(1).split(",")]
    specs = [spec for spec in specs if spec]
    if len(specs) > MAX_RANGES:
        return Unsatisfiable(f"At most {MAX_RANGES} ranges are allowed in one request.")
    spans: list[range] = []
    for spec in specs:
        match = _SPEC.fullmatch(spec)
        if match is None or spec == "-":
            return None
        first, last = match.groups()
        if not first:
            span = range(max(0, size - int(last)), size)
        elif last and int(last) < int(first):
            return None
        else:
            span = range(int(first), min(int(last) + 1, size) if last else size)
        if span:
            spans.append(span)
    if not specs:
        return None
    if not spans:
        return Unsatisfiable(f"The file has {size} bytes.")
    return _merged(spans)


def _merged(spans: list[range]) -> tuple[range, ...]:
    """Merge overlapping and adjacent parts, at the position of the first of them."""
    kept: list[range] = []
    for span in spans:
        merged = span
        position = len(kept)
        for index in range(len(kept) - 1, -1, -1):
            other = kept[index]
            if other.start <= merged.stop and merged.start <= other.stop:
                merged = range(min(other.start, merged.start), max(other.stop, merged.stop))
                del kept[index]
                position = index
        kept.insert(position, merged)
    return tuple(kept)


def _partial(spans: tuple[range, ...], size: int, headers: dict[str, str]) -> FileAnswer:
    """Return a 206 response with one part, or several as `multipart/byteranges` (RFC 9110 §14.6)."""
    if len(spans) == 1:
        span = spans[0]
        changed = {"content-range": _content_range(span, size), "content-length": str(len(span))}
        return FileAnswer(206, headers | changed, (Segment(b"", span.start, len(span)),))
    boundary = os.urandom(12).hex()
    segments = []
    for span in spans:
        prefix = (
            f"\r\n--{boundary}\r\nContent-Type: {headers['content-type']}\r\n"
            f"Content-Range: {_content_range(span, size)}\r\n\r\n"
        )
        segments.append(Segment(prefix.encode("ascii"), span.start, len(span)))
    segments.append(Segment(f"\r\n--{boundary}--\r\n".encode("ascii"), size, 0))
    length = sum(len(segment.prefix) + segment.length for segment in segments)
    changed = {"content-type": f"multipart/byteranges; boundary={boundary}", "content-length": str(length)}
    return FileAnswer(206, headers | changed, tuple(segments))


def _content_range(span: range, size: int) -> str:
    return f"bytes {span.start}-{span.stop - 1}/{size}"


@lru_cache(64)  # all files of a snapshot share one date
def http_date(instant: datetime) -> str:
    """Format an instant as `Sun, 22 Nov 2026 04:00:00 GMT`. Fractions of a second are dropped."""
    return format_datetime(instant.astimezone(UTC).replace(microsecond=0), usegmt=True)


def parse_http_date(text: str | None) -> datetime | None:
    """Parse an HTTP date; None when it is missing or malformed."""
    if text is None:
        return None
    try:
        found = parsedate_to_datetime(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def evaluate(headers: Mapping[str, str], *, etag: str, modified: datetime) -> Outcome:
    """Evaluate the conditions of a GET or HEAD request in the order of §13.2.2.

    Args:
        headers: The headers of the request, with names in lower case.
        etag: The strong entity tag of the file, quoted.
        modified: When the file was last modified.
    """
    modified = modified.replace(microsecond=0)
    if_match = headers.get("if-match")
    if if_match is not None:
        if not _matches(if_match, etag, strong=True):
            return "failed"
    else:
        limit = parse_http_date(headers.get("if-unmodified-since"))
        if limit is not None and modified > limit:
            return "failed"
    if_none_match = headers.get("if-none-match")
    if if_none_match is not None:
        return "not_modified" if _matches(if_none_match, etag, strong=False) else "proceed"
    since = parse_http_date(headers.get("if-modified-since"))
    if since is not None and modified <= since:
        return "not_modified"
    return "proceed"


def range_applies(if_range: str | None, *, etag: str, modified: datetime) -> bool:
    """Return whether If-Range permits the Range header: by strong comparison, or by the exact date (§13.1.5)."""
    if if_range is None:
        return True
    if_range = if_range.strip()
    if if_range.startswith(('"', "W/")):
        return if_range == etag
    return parse_http_date(if_range) == modified.replace(microsecond=0)


def _matches(field: str, etag: str, *, strong: bool) -> bool:
    if field.strip() == "*":
        return True
    for member in field.split(","):
        tag = member.strip()
        if tag.startswith("W/"):
            if strong:
                continue
            tag = tag[2:]
        if tag == etag:
            return True
    return False
