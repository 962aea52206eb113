"""An account's own part of the audit trail, as JSON lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import FieldFault, InvalidRequest
from daybreak.ports.state import Stores
from daybreak.web.authentication import principal_of
from daybreak.web.routing import Route, methods
from daybreak.web.services import Services
from daybreak.web.streamed import streamed

_PAGE = 500


class AuditLine(msgspec.Struct, frozen=True):
    """One event as account people see it."""

    id: int
    at: datetime
    action: str
    result: str
    actor: str
    seat_id: str | None
    subject: str | None
    address: str
    user_agent: str
    request_id: str
    details: dict[str, Any]


def audit_routes(services: Services) -> list[Route]:
    """GET /download/v1/audit/{client_id}."""

    async def trail(request: Request) -> Response:
        principal = await principal_of(request, services)
        client_id = request.path_params["client_id"].lower()
        require(principal, "read_audit", client_id)
        since, until = _instant(request, "since"), _instant(request, "until")
        action = request.query_params.get("action") or None
        pages = _pages(services, client_id, since, until, action)
        # The first page before the answer starts: a database that is away is a problem body.
        first = await anext(pages, b"")
        return streamed(request, _chained(first, pages), media_type="application/x-ndjson")

    return [methods("/download/v1/audit/{client_id}", GET=trail)]


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for page in rest:
        yield page


async def _pages(
    services: Services,
    client_id: str,
    since: datetime | None,
    until: datetime | None,
    action: str | None,
) -> AsyncIterator[bytes]:
    after: int | None = None
    encoder = msgspec.json.Encoder()
    while True:
        seen = after

        def read(stores: Stores, seen: int | None = seen) -> list[AuditEvent]:
            return stores.audit.read(
                client_id=client_id,
                action=action,
                since=since,
                until=until,
                after_id=seen,
                limit=_PAGE,
            )

        events = await services.state.aread(read)
        if events:
            yield encoder.encode_lines([_line(event) for event in events])
        if len(events) < _PAGE:
            return
        after = events[-1].event_id


def _line(event: AuditEvent) -> AuditLine:
    return AuditLine(
        id=event.event_id or 0,
        at=event.at,
        action=event.action,
        result=event.result,
        actor=event.actor,
        seat_id=event.seat_id,
        subject=event.subject,
        address=event.address,
        user_agent=event.user_agent,
        request_id=event.request_id,
        details=dict(event.details),
    )


def _instant(request: Request, name: str) -> datetime | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{name} is not an instant.",
            faults=(FieldFault(f"?{name}", "Write it as 2026-11-20T04:00:00Z."),),
        ) from None
