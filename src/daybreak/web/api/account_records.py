"""Records of an account as JSON lines: the audit trail, and signed receipts of erasures."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import readable_audit_seat, require_in_context
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
from daybreak.web.fair_queue import in_thread
from daybreak.web.request_state import caller_of
from daybreak.web.streams import Streams

_EVENTS_PER_READ = 500
_RECEIPTS_PER_READ = 20
_ENCODER = msgspec.json.Encoder()
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
    response=ResponseType("One event per line.", AuditLine, ("application/x-ndjson",)),
    problems=("rate_limited",),
)


def audit_routes(services: Services, streams: Streams) -> list[ApiRoute]:
    """Return the route /download/v1/audit/{client_id}."""

    async def trail(request: Request) -> Response:
        principal = await principal_of(request, services)
        client_id = request.path_params["client_id"].lower()
        await require_in_context(services.state, principal, "read_audit", client_id)
        query = AuditQuery(
            client_id=client_id,
            seat_id=readable_audit_seat(principal),
            action=ACTION.read(request) or None,
            since=_instant(request, SINCE),
            until=_instant(request, UNTIL),
            limit=_EVENTS_PER_READ,
        )
        headers = {"Content-Type": READ_AUDIT.response.media_types[0]}
        record = partial(_record_export, request, services, principal)
        return await streams.respond(request, client_id, _events(services, query), headers, record=record)

    return [ApiRoute("/download/v1/audit/{client_id}", trail, READ_AUDIT)]


async def _record_export(request: Request, services: Services, principal: Principal) -> None:
    parameters = ((parameter.name, parameter.read(request)) for parameter in (SINCE, UNTIL, ACTION))
    details = {"format": "ndjson", "filter": {name: value for name, value in parameters if value}}
    origin = EventOrigin.of(principal, services.clock(), caller_of(request))
    await record_download(services, origin, "audit.exported", "ok", details)


async def _events(services: Services, query: AuditQuery) -> AsyncIterator[bytes]:
    while True:

        def read(stores: Stores, query: AuditQuery = query) -> list[AuditEvent]:
            return stores.audit.read(query)

        # In a thread: a filter that few events match reads all of them.
        events = await in_thread(partial(services.state.read, read))
        if events:
            yield _ENCODER.encode_lines([view_of(AuditLine, event, id=event.event_id or 0) for event in events])
        if len(events) < _EVENTS_PER_READ:
            return
        query = replace(query, after_id=events[-1].event_id)


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
    response=ResponseType("One receipt per line.", ReceiptLine, ("application/x-ndjson",)),
    problems=("rate_limited",),
)


def erasure_routes(services: Services, streams: Streams) -> list[ApiRoute]:
    """Return the route of receipts. It precedes those of files."""

    async def receipts(request: Request) -> Response:
        principal = await principal_of(request, services)
        client_id = request.path_params["client_id"].lower()
        await require_in_context(services.state, principal, "download", client_id)
        origin = EventOrigin.of(principal, services.clock(), caller_of(request))
        details = {"file": "receipts"}
        record = partial(record_download, services, origin, "statement.fetched", "ok", details)
        headers = {"Content-Type": LIST_RECEIPTS.response.media_types[0]}
        return await streams.respond(request, client_id, _receipts(services, client_id), headers, record=record)

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
