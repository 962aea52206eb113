"""Records of the audit trail, and queries over it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

import msgspec

from daybreak.domain.identity import Caller, Principal, Seat

_UNKNOWN_ACTOR = "unknown"
_MAX_USER_AGENT_LENGTH = 300


class AuditEvent(msgspec.Struct, frozen=True):
    """One recorded action: actor, time, origin and result. Append-only; contains no secret.

    `actor` is an email, `operator`, `service` or `demo`; `unknown` for unknown actors. `action` is a dotted name
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


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters and page of a read of the audit trail. Filters that are None match every event.

    `action` matches exactly, or by prefix if it ends in `.` or `*`. `since` is inclusive, `until` exclusive.
    `actor_contains` ignores case. `succeeded` is whether the result is `ok`.
    `sign_ins` adds the sign-ins of the seats with a grant on `client_id`. A sign-in that fails has no account.
    `after_id` continues after that event: with newer events, or with older ones if `newest_first`.
    `up_to_id` leaves out newer events, so that pages with an `offset` do not move while events are added.
    """

    client_id: str | None = None
    seat_id: str | None = None
    subject: str | None = None
    actor: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    actor_contains: str | None = None
    succeeded: bool | None = None
    sign_ins: bool = False
    after_id: int | None = None
    up_to_id: int | None = None
    newest_first: bool = False
    offset: int = 0
    limit: int = 1000


SIGN_INS = ("login", "second_factor", "password.reset_requested", "password.reset")
"""Actions that `AuditQuery.sign_ins` adds."""


@dataclass(frozen=True, slots=True)
class EventOrigin:
    """The time, client, seat, account and credential (`subject`) of an audited action.

    Without a seat the actor is `unknown`. The submitted email is not recorded, because it may be a password.
    """

    at: datetime
    caller: Caller
    seat: Seat | None = None
    client_id: str | None = None
    subject: str | None = None

    @classmethod
    def of(cls, principal: Principal, at: datetime, caller: Caller) -> Self:
        """Return the origin of an action of `principal` on its account."""
        return cls(at, caller, principal.seat, principal.account.client_id, principal.subject)

    def event(self, action: str, result: str, details: Mapping[str, object] | None = None) -> AuditEvent:
        """Create an event of this origin. `result` is `ok` or an error code."""
        return AuditEvent(
            at=self.at,
            action=action,
            result=result,
            actor=self.seat.email if self.seat is not None else _UNKNOWN_ACTOR,
            seat_id=self.seat.seat_id if self.seat is not None else None,
            client_id=self.client_id,
            subject=self.subject,
            address=self.caller.address,
            user_agent=self.caller.user_agent[:_MAX_USER_AGENT_LENGTH],
            request_id=self.caller.request_id,
            details=details or {},
        )
