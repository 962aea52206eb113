"""Conditional requests (RFC 9110 §13): what the client holds already, and if it is still good."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import Literal

Verdict = Literal["go_on", "not_modified", "failed"]


@lru_cache(64)  # the files of a snapshot have one date
def http_date(instant: datetime) -> str:
    """`Sun, 22 Nov 2026 04:00:00 GMT`; fractions of a second are dropped."""
    return format_datetime(instant.astimezone(UTC).replace(microsecond=0), usegmt=True)


def parse_http_date(text: str | None) -> datetime | None:
    """The instant of an HTTP date; None when it is not one, or not there."""
    if text is None:
        return None
    try:
        found = parsedate_to_datetime(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def judge(headers: Mapping[str, str], *, etag: str, modified: datetime) -> Verdict:
    """The order of §13.2.2, for GET and HEAD. `headers` have lower-case names; `etag` is strong
    and quoted.
    """
    modified = modified.replace(microsecond=0)
    if_match = headers.get("if-match")
    if if_match is not None:
        if not _names(if_match, etag, strong=True):
            return "failed"
    else:
        limit = parse_http_date(headers.get("if-unmodified-since"))
        if limit is not None and modified > limit:
            return "failed"
    if_none_match = headers.get("if-none-match")
    if if_none_match is not None:
        return "not_modified" if _names(if_none_match, etag, strong=False) else "go_on"
    since = parse_http_date(headers.get("if-modified-since"))
    if since is not None and modified <= since:
        return "not_modified"
    return "go_on"


def range_stands(if_range: str | None, *, etag: str, modified: datetime) -> bool:
    """Whether a Range header counts in view of If-Range (§13.1.5): strong comparison, or the very
    date. Without If-Range it does.
    """
    if if_range is None:
        return True
    if_range = if_range.strip()
    if if_range.startswith(('"', "W/")):
        return if_range == etag
    return parse_http_date(if_range) == modified.replace(microsecond=0)


def _names(field: str, etag: str, *, strong: bool) -> bool:
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
