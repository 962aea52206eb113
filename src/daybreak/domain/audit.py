"""The audit trail's one record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec


class AuditEvent(msgspec.Struct, frozen=True):
    """Who did what, when, from where, with which result. Append-only; holds no secret.

    `actor` is an email, `operator`, `service` or `demo`; `unknown` where nobody is known. `action` is a dotted name
    such as `login`, `second_factor.enrolled`, `context.switched`, `logout`, `token.created`, `token.revoked`,
    `grant.changed`, `link.issued`, `file.fetched`; `result` is `ok` or an error code.
    """

    at: datetime
    action: str
    result: str
    actor: str
    seat_id: str | None = None
    client_id: str | None = None
    subject: str | None = None
    address: str = ""
    user_agent: str = ""
    request_id: str = ""
    details: Mapping[str, object] = msgspec.field(default_factory=dict)
    event_id: int | None = None
