"""What a client sends: its token, pages, versions, hints and capabilities."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar, get_args

import msgspec
from msgspec import Meta
from starlette.requests import Request

from daybreak.domain.errors import FieldFault, InvalidRequest
from daybreak.domain.snapshot import TableVersion
from daybreak.sharing import Query, TableName
from daybreak.table_changes import VersionRange
from daybreak.web.doors.sharing.lines import ResponseFormat
from daybreak.web.http.bodies import read_json

T = TypeVar("T")
CAPABILITIES = "delta-sharing-capabilities"
FILE_ID_HASH = "fileidhash"
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_PAGE_TOKEN = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d\d?-\d\d?[ T]\d\d?:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?", re.ASCII)

Version = Annotated[int, Meta(ge=0, le=_MAX_INT64)]


class QueryBody(msgspec.Struct, frozen=True, rename="camel"):
    """Body of a query. Daybreak does not filter files by predicates, so their content does not matter."""

    predicate_hints: tuple[str, ...] | None = None
    json_predicate_hints: str | None = None
    limit_hint: Version | None = None
    version: Version | None = None
    timestamp: str | None = None
    starting_version: Version | None = None
    ending_version: Version | None = None
    include_refresh_token: bool = False
    refresh_token: Annotated[str, Meta(max_length=200)] | None = None


class Capabilities(msgspec.Struct, frozen=True):
    """What a client accepts: the format of the response, and whether a last line follows. `file_id_hash` is echoed."""

    format: ResponseFormat
    end_line: bool
    file_id_hash: str | None

    def headers(self) -> dict[str, str]:
        """Return the response headers that confirm them."""
        confirmed = f"responseformat={self.format}" + (";includeendstreamaction=true" if self.end_line else "")
        return {CAPABILITIES: confirmed} | ({FILE_ID_HASH: self.file_id_hash} if self.file_id_hash else {})


def table_name(request: Request) -> TableName:
    parts = request.path_params
    return TableName(parts["share"], parts["schema"], parts["table"])


def page_of(request: Request, items: list[T]) -> tuple[list[T], str | None]:
    """Return the items of the requested page, and the token of the next page: the number of items before it.

    The list contains only what the credential may see, so any number is harmless. Raises InvalidRequest.
    """
    maximum = _whole_number(request, "maxResults", _MAX_INT32)
    token = request.query_params.get("pageToken")
    if token and _PAGE_TOKEN.fullmatch(token) is None:
        raise _invalid_parameter("pageToken", "Send the nextPageToken of the previous page.")
    start = int(token or 0)
    end = len(items) if maximum is None else start + maximum
    if end >= len(items):
        return items[start:], None
    if end == 0:
        # Positions begin at 1, and the first page has no token.
        return [], None
    return items[start:end], str(end)


def starting_version(request: Request) -> TableVersion:
    """Return the version that `startingTimestamp` selects, or the current one."""
    text = request.query_params.get("startingTimestamp")
    return TableVersion() if text is None else TableVersion(not_before=_timestamp(text, "startingTimestamp"))


def metadata_version(request: Request) -> TableVersion:
    """Return the version whose columns a client requests. The Spark connector sends it when a query selects a version.

    Raises:
        InvalidRequest: a parameter is invalid, or there are two.
    """
    selected = _bound(request, "version", "timestamp")
    return TableVersion(not_after=_end(selected)) if isinstance(selected, datetime) else TableVersion(number=selected)


async def query_of(request: Request) -> tuple[Query | VersionRange[int], bool]:
    """Read the body of a query: the files of one version or the changes of a range, and whether to return a token.

    Raises:
        InvalidRequest, RequestError: the body is invalid, selects more than one version, or a range without a start.
    """
    body = await read_json(request, QueryBody)
    selected = [each for each in (body.version, body.timestamp, body.starting_version) if each is not None]
    if len(selected) > 1:
        raise InvalidRequest("Send only one of version, timestamp and startingVersion.")
    if body.ending_version is not None and body.starting_version is None:
        raise InvalidRequest("Send endingVersion with startingVersion only. Send version to query one version.")
    if selected and (body.refresh_token is not None or body.include_refresh_token):
        raise InvalidRequest(
            "Refresh tokens are for the current version. Send no version, timestamp or startingVersion."
        )
    if body.starting_version is not None:
        return VersionRange(body.starting_version, body.ending_version), False
    not_after = None if body.timestamp is None else _end(_timestamp(body.timestamp, "timestamp"))
    query = Query(
        at=TableVersion(number=body.version, not_after=not_after),
        limit=body.limit_hint,
        filtered=bool(body.predicate_hints or body.json_predicate_hints),
        refresh_token=body.refresh_token,
    )
    return query, body.include_refresh_token


def versions_of(request: Request) -> VersionRange[int | datetime]:
    """Return the versions of which a client requests the changes.

    Raises:
        InvalidRequest: a parameter is invalid, or the start is missing or there are two.
    """
    first, last = (_bound(request, f"{name}Version", f"{name}Timestamp") for name in ("starting", "ending"))
    if first is None:
        raise InvalidRequest("Send startingVersion or startingTimestamp.")
    return VersionRange(first, _end(last) if isinstance(last, datetime) else last)


def capabilities_of(request: Request) -> Capabilities:
    """Return what the client accepts. Names are compared without case, and the first known format is preferred.

    Raises:
        InvalidRequest: the client accepts other formats only, or the hash is unknown.
    """
    pairs = [each.partition("=") for each in request.headers.get(CAPABILITIES, "").lower().split(";")]
    capabilities = {name.strip(): [value.strip() for value in values.split(",")] for name, _, values in pairs}
    formats = [each for each in capabilities.get("responseformat", ["parquet"]) if each in get_args(ResponseFormat)]
    if not formats:
        raise InvalidRequest("Unknown format. Send responseformat=delta or responseformat=parquet.")
    file_id_hash = request.headers.get(FILE_ID_HASH, "").strip().lower()
    if file_id_hash and file_id_hash not in get_args(ResponseFormat):
        raise InvalidRequest("Unknown fileidhash. Send delta or parquet, or leave the header out.")
    end_line = capabilities.get("includeendstreamaction") == ["true"]
    return Capabilities("delta" if formats[0] == "delta" else "parquet", end_line, file_id_hash or None)


def _bound(request: Request, version_name: str, timestamp_name: str) -> int | datetime | None:
    version, text = _whole_number(request, version_name, _MAX_INT64), request.query_params.get(timestamp_name)
    if text is None:
        return version
    if version is not None:
        raise InvalidRequest(f"Send either {version_name} or {timestamp_name}.")
    return _timestamp(text, timestamp_name)


def _whole_number(request: Request, name: str, maximum: int) -> int | None:
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    if not _NUMBER.fullmatch(text) or int(text) > maximum:
        raise _invalid_parameter(name, f"Send a whole number from 0 to {maximum}.")
    return int(text)


def _end(instant: datetime) -> datetime:
    """Return the end of the millisecond, because the times in responses are rounded down to milliseconds."""
    rest = instant.microsecond % 1000
    return instant if rest else instant + timedelta(microseconds=999)


def _timestamp(text: str, name: str) -> datetime:
    """Parse a timestamp in ISO 8601, or in the older form `2026-11-24 04:00:00`. Without an offset it is in UTC."""
    try:
        if not _TIMESTAMP.fullmatch(text):
            raise ValueError(text)
        date, time = re.split("[ T]", text, maxsplit=1)
        year, month, day = date.split("-")
        found = datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}T{time if time[1] != ':' else '0' + time}")
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _invalid_parameter(name, "Write it as 2026-11-24T04:00:00Z.") from None


def _invalid_parameter(name: str, fix: str) -> InvalidRequest:
    return InvalidRequest(f"{name} is invalid. {fix}", faults=(FieldFault(f"?{name}", fix),))
