"""Records of an account as JSON lines: the audit trail, and signed receipts of erasures."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import Action, readable_audit_seat, require_in_context
from daybreak.access.services import Services
from daybreak.domain.audit import AuditEvent, AuditQuery, EventOrigin
from daybreak.domain.erasure import SignedReceipt
from daybreak.domain.errors import FieldFault, InvalidRequest
from daybreak.domain.identity import Principal
from daybreak.downloads import record_download
from daybreak.state.stores import Stores
from daybreak.web.api import examples
from daybreak.web.api.examples import field, uuid
from daybreak.web.api.files import CLIENT_ID
from daybreak.web.api.operation import (
    FILES,
    SESSION_OR_API_TOKEN,
    ApiRoute,
    Operation,
    Parameter,
    ResponseType,
    principal_of,
    view_of,
)
from daybreak.web.request_state import caller_of
from daybreak.web.streams import Streams, audit_batches, thread_pieces

_EVENTS_PER_READ = 500
_RECEIPTS_PER_READ = 20
_ENCODER = msgspec.json.Encoder()
_LINES = ("application/x-ndjson",)
_HEADERS = {"Content-Type": _LINES[0]}
_STATEMENT = '{"_type":"https://in-toto.io/Statement/v1","predicateType":"https://daybreak.example/erasure/v1",...}'


class AuditLine(msgspec.Struct, frozen=True):
    """Event in the audit trail."""

    id: Annotated[int, field("Number of the event. It increases with each event.", 48213)]
    at: Annotated[datetime, field("Time of the event.", "2026-11-24T08:30:12Z")]
    action: Annotated[str, field("Name of the action.", "link.issued")]
    result: Annotated[str, field("`ok`, or the code of the error.", "ok")]
    actor: Annotated[str, field("Email of the seat, or the name of the component that acted.", "maya@example.org")]
    seat_id: Annotated[str | None, uuid("The seat, if one acted.", examples.SEAT_ID)]
    subject: Annotated[str | None, field("Session or API token used.", f"session:{examples.SESSION_ID}")]
    address: Annotated[str, field("IP address of the client.", "198.51.100.24")]
    user_agent: Annotated[str, field("`User-Agent` header of the client.", "curl/8.14.1")]
    request_id: Annotated[str, field("Id of the request.", examples.REQUEST_ID)]
    details: Annotated[
        dict[str, Any],
        field("Details of the action.", {"file": "campaigns.csv.gz", "snapshot_id": examples.SNAPSHOT_ID}),
    ]


SINCE = Parameter("since", "query", "Only events at or after this time.", "2026-11-24T00:00:00Z", datetime)
UNTIL = Parameter("until", "query", "Only events before this time.", "2026-11-25T00:00:00Z", datetime)
ACTION = Parameter(
    "action", "query", "Only events with this action. A `*` at the end selects a prefix: `token.*`.", "file.fetched"
)


READ_AUDIT = Operation(
    operation_id="readAuditTrail",
    summary="Read the audit trail",
    description="Returns events of the account as JSON lines, oldest first. Owners and admins of the account get every "
    "event, other users their own. Each call is recorded as `audit.exported`.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(CLIENT_ID, SINCE, UNTIL, ACTION),
    response=ResponseType("One event per line.", AuditLine, _LINES),
    problems=("rate_limited",),
)


def audit_routes(services: Services, streams: Streams) -> list[ApiRoute]:
    """Return the route /download/v1/audit/{client_id}."""

    async def trail(request: Request) -> Response:
        principal, client_id = await _authorized(request, services, "read_audit")
        query = AuditQuery(
            client_id=client_id,
            seat_id=readable_audit_seat(principal),
            action=ACTION.read(request) or None,
            since=_instant(request, SINCE),
            until=_instant(request, UNTIL),
            limit=_EVENTS_PER_READ,
        )
        parameters = {parameter.name: parameter.read(request) for parameter in (SINCE, UNTIL, ACTION)}
        details = {"format": "ndjson", "filter": {name: value for name, value in parameters.items() if value}}
        record = _recorder(request, services, principal, "audit.exported", details)
        pieces = thread_pieces(map(_event_lines, audit_batches(services.state, query)))
        return await streams.respond(request, client_id, pieces, _HEADERS, record=record)

    return [ApiRoute("/download/v1/audit/{client_id}", trail, READ_AUDIT)]


async def _authorized(request: Request, services: Services, action: Action) -> tuple[Principal, str]:
    """Return who may perform an action on the account in the path, and the account's id."""
    principal, client_id = await principal_of(request, services), request.path_params["client_id"].lower()
    await require_in_context(services.state, principal, action, client_id)
    return principal, client_id


def _recorder(
    request: Request, services: Services, principal: Principal, action: str, details: Mapping[str, object]
) -> Callable[[], Awaitable[None]]:
    """Return a function that counts a download, and records it in the audit trail."""
    origin = EventOrigin.of(principal, services.clock(), caller_of(request))
    return partial(record_download, services, origin, action, "ok", details)


def _event_lines(events: Sequence[AuditEvent]) -> bytes:
    return _ENCODER.encode_lines([view_of(AuditLine, event, id=event.event_id or 0) for event in events])


def _instant(request: Request, parameter: Parameter) -> datetime | None:
    text = parameter.read(request)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        fault = FieldFault(f"?{parameter.name}", f"Write it as {parameter.example}.")
        raise InvalidRequest(f"{parameter.name} is not a valid time.", faults=(fault,)) from None


class ReceiptLine(msgspec.Struct, frozen=True):
    """Receipt of an erasure."""

    erasure_id: Annotated[str, uuid("The erasure.", examples.SNAPSHOT_ID)]
    finished_at: Annotated[datetime, field("When the erasure finished.", "2026-11-24T08:30:12Z")]
    statement: Annotated[str, field("The receipt, in-toto Statement v1. Its bytes are signed.", _STATEMENT)]
    signature: Annotated[
        str, field("The signature, as `ssh-keygen -Y verify` reads it.", "-----BEGIN SSH SIGNATURE-----\n...\n")
    ]


LIST_RECEIPTS = Operation(
    operation_id="listErasureReceipts",
    summary="List receipts of erasures",
    description="Returns the signed receipts of erasures in files of the account, oldest first. A receipt lists the "
    "replaced files with their digests before and after. Each call counts as a download.",
    tag=FILES,
    credential=SESSION_OR_API_TOKEN,
    parameters=(CLIENT_ID,),
    response=ResponseType("One receipt per line.", ReceiptLine, _LINES),
    problems=("rate_limited",),
)


def erasure_routes(services: Services, streams: Streams) -> list[ApiRoute]:
    """Return the route of receipts. It precedes those of files."""

    async def receipts(request: Request) -> Response:
        principal, client_id = await _authorized(request, services, "download")
        record = _recorder(request, services, principal, "statement.fetched", {"file": "receipts"})
        return await streams.respond(request, client_id, _receipts(services, client_id), _HEADERS, record=record)

    return [ApiRoute("/download/v1/files/{client_id}/receipts", receipts, LIST_RECEIPTS)]


async def _receipts(services: Services, client_id: str) -> AsyncIterator[bytes]:
    offset = 0
    while True:

        def read(stores: Stores, offset: int = offset) -> list[SignedReceipt]:
            return stores.erasures.account_receipts(client_id, offset, _RECEIPTS_PER_READ)

        found = await services.state.aread(read)
        if found:
            yield _ENCODER.encode_lines([view_of(ReceiptLine, each) for each in found])
        if len(found) < _RECEIPTS_PER_READ:
            return
        offset += _RECEIPTS_PER_READ
