"""Checks of every value that a server sends, once, when it is received.

A service may be malicious or broken. Its values become parts of paths, SQL statements, requests and lines on a
terminal, so each is compared with an allow-list here. Every function returns the value in its type, or raises
InvalidValue, whose message names what is wrong and never repeats the value.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

T = TypeVar("T")

MAX_JSON_BYTES = 16 << 20
_MAX_DEPTH = 32
_MAX_ITEMS = 1_000_000
_MAX_TEXT = 2_000
_MAX_URL = 8_192
_MAX_INTEGER = 2**63 - 1
_MAX_FILE_BYTES = 10**13
RESOURCES = (
    "campaigns",
    "outbound_message_type_usage",
    "campaign_links",
    "members",
    "member_state_changes",
    "member_term_accepts",
    "custom_member_data",
    "communities",
    "member_communities",
)
"""The resources of the service's specification. No other name becomes a file or a table."""
ENDINGS: Mapping[str, str] = {"csv": ".csv.gz", "json": ".json.gz", "ndjson": ".ndjson.gz", "parquet": ".parquet"}
"""The ending of the files of each format."""
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Control, format and surrogate characters, which a terminal interprets or does not show.
_HIDDEN = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
# The characters of RFC 3986 section 2, without the apostrophe.
_URL = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=%-]+")
_FILE_NAME = re.compile(rf"({'|'.join(RESOURCES)})({'|'.join(map(re.escape, ENDINGS.values()))})")


_QUOTED = r"[\"`\[]?[A-Za-z][A-Za-z0-9_]{0,62}[\"`\]]?"
# The lines of CREATE TABLE statements. Single lines, because a pattern of the whole text could take forever to fail.
_DDL_LINE = re.compile(
    r"|-- [A-Za-z0-9 ,.]{1,200}|\);"
    rf"|CREATE TABLE {_QUOTED} \("
    rf"|  {_QUOTED} [A-Z][A-Za-z0-9]{{0,30}}(?:\((?:[0-9]{{1,5}}|MAX)\))?(?: [A-Z ]{{1,40}})?,?"
    rf"|  PRIMARY KEY \({_QUOTED}(?:, {_QUOTED}){{0,9}}\)(?: NOT ENFORCED)?"
)


class InvalidValue(ValueError):
    """A value of a response is not of its kind. The message names the kind."""


def json_value(content: bytes) -> Any:
    """Decode a JSON text that is bounded in size and depth. Numbers that JSON does not have are refused."""
    if len(content) > MAX_JSON_BYTES:
        raise InvalidValue("it is larger than 16 MB")
    try:
        value = json.loads(content.decode(), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_unique)
    except RecursionError:
        raise InvalidValue("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise InvalidValue("it is not UTF-8") from None
    _check_depth(value)
    return value


def _matching(pattern: str, kind: str) -> Callable[[object], str]:
    """Return a function that returns text which matches a pattern, and raises InvalidValue for anything else."""
    compiled = re.compile(pattern)

    def check(value: object) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise InvalidValue(f"{kind} is invalid")
        return value

    return check


uuid = _matching(_UUID, "a UUID")
"""Return a UUID in canonical form: an account, a snapshot or a chain."""
digest = _matching(r"[0-9a-f]{64}", "a SHA-256")
"""Return a SHA-256 as 64 lower-case hex digits."""
service_name = _matching(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[0-9]{1,5})?", "the name of a service")
"""Return the name under which a service signs: that of a host, which becomes part of a file name."""
name = _matching(r"[A-Za-z][A-Za-z0-9_]{0,62}", "the name of a column")
"""Return the name of a column or table, which becomes part of SQL."""
code = _matching(r"[a-z][a-z0-9_]{0,63}", "a code")
"""Return an error code or another name in snake case."""
request_id = _matching(r"[A-Za-z0-9_.:-]{0,128}", "a request id")
"""Return the id of a request."""
token = _matching(r"[!-~]{1,8192}", "a token")
"""Return a token, which becomes part of a header."""
etag = _matching(r'(?:W/)?"[!#-~]{0,200}"|', "an entity tag")
"""Return an entity tag, which becomes part of a header, or an empty text."""


def is_uuid(text: str) -> bool:
    """Return whether text is a UUID in canonical form."""
    return re.fullmatch(_UUID, text) is not None


def create_tables(value: object) -> str:
    """Return CREATE TABLE statements, which people run in their databases. Nothing else is accepted in them."""
    if not isinstance(value, str) or not all(map(_DDL_LINE.fullmatch, value.split("\n"))):
        raise InvalidValue("the CREATE TABLE statements are invalid")
    return value


def resource(value: object) -> str:
    """Return the name of one of the nine resources."""
    if value not in RESOURCES:
        raise InvalidValue("a resource is unknown")
    return str(value)


def format_name(value: object) -> str | None:
    """Return the name of a file format, None for one that a newer service offers."""
    found = code(value)
    return found if found in ENDINGS else None


def is_file_name(text: str) -> bool:
    """Return whether text is the name of a file with all rows of a resource, such as `members.csv.gz`."""
    return _FILE_NAME.fullmatch(text) is not None


def count(value: object) -> int:
    """Return a number of rows or bytes, or a version: an integer from 0 to 2^63 - 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_INTEGER:
        raise InvalidValue("a number is not an integer from 0 to 2^63 - 1")
    return value


def size_bytes(value: object) -> int:
    """Return the size of a file, which is never empty."""
    found = count(value)
    if not 1 <= found <= _MAX_FILE_BYTES:
        raise InvalidValue("the size of a file is invalid")
    return found


def flag(value: object) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise InvalidValue("a value is neither true nor false")
    return value


def text(value: object) -> str:
    """Return text for people, in one line. Other characters that a terminal interprets or hides become U+FFFD."""
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise InvalidValue("a text is missing or too long")
    return _HIDDEN.sub("\ufffd", " ".join(value.split()))


def cell(value: object) -> str | None:
    """Return the value of a cell, unchanged. It only becomes a parameter of a statement."""
    if value is None:
        return None
    # No database stores half of a character.
    if not isinstance(value, str) or any("\ud800" <= each <= "\udfff" for each in value):
        raise InvalidValue("a value of a column is not text")
    return value


def instant(value: object) -> datetime:
    """Return an instant in UTC."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) and len(value) <= 40 else None
        if found is not None and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidValue("a time is not an ISO 8601 instant")


def retry_after(text: str, now: datetime) -> float | None:
    """Return the seconds of Retry-After, a number or a date (RFC 9110 section 10.2.3), None for another text."""
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds())


def link(value: object, base: str) -> str:
    """Return the absolute URL of a link or redirect from `base`: http or https, without a user. A request over https
    leads to https only. Apostrophes are refused, because people put links into SQL.
    """
    if not isinstance(value, str) or len(value) > _MAX_URL or not _URL.fullmatch(value):
        raise InvalidValue("a link is not a URL")
    try:
        absolute = urljoin(base, value)
        parts = urlsplit(absolute)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidValue("a link is not a URL") from None
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc:
        raise InvalidValue("a link is not a URL")
    if base.startswith("https:") and parts.scheme != "https":
        raise InvalidValue("a link has no https")
    return absolute


def items(value: object, parse: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
    """Return the parsed objects of a list."""
    if not isinstance(value, list | tuple) or len(value) > _MAX_ITEMS:
        raise InvalidValue("a list is missing or too long")
    return tuple(parse(mapping(each)) for each in value)


def mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidValue("an object is missing")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidValue("a number is not finite")
    return number


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidValue("a name is repeated")
    return found


def _check_depth(value: object, levels: int = _MAX_DEPTH) -> None:
    """Raise InvalidValue for a value with more levels."""
    if not levels:
        raise InvalidValue("it is nested too deeply")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in children:
        _check_depth(each, levels - 1)
