"""Conditional requests (RFC 9110 §13)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import Literal

Outcome = Literal["proceed", "not_modified", "failed"]


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
