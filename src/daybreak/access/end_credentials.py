"""The end of a seat's credentials, for every reason that concerns the whole seat.

Sessions end with their tokens, download links, form tokens and pending logins: all of them depend on the session. Links
in mails that set a password end with them, including those that were requested and not sent yet.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from daybreak.access.webhook_owners import stop_ownerless_webhooks
from daybreak.state.stores import Stores


class EndReason(StrEnum):
    """Why the credentials of a seat end, as its sessions record it."""

    SEAT_DISABLED = "seat disabled"
    EMAIL_CHANGED = "email changed"
    PASSWORD_CHANGED = "password changed"  # noqa: S105 - not a secret
    PASSWORD_RESET = "password reset"  # noqa: S105 - not a secret
    PASSWORD_SET = "password set by an operator"  # noqa: S105 - not a secret
    SIGNED_OUT = "signed out by an operator"
    ENDED_BY_OWNER = "ended by its owner"
    IDENTITY_BOUND = "identity bound"
    IDENTITY_UNBOUND = "identity unbound"
    FACTOR_RESET = "second factor reset"
    FACTOR_ENROLLED = "second factor enrolled"
    KEY_REVOKED = "key revoked"


_KEEPS_LINKS = frozenset({EndReason.FACTOR_ENROLLED, EndReason.KEY_REVOKED})
"""An operator enrols the second factor of an invited person, who then sets the password. No key signs these links."""


def end_credentials(
    stores: Stores, seat_id: str, reason: EndReason, now: datetime, *, keep_sid: str | None = None
) -> int:
    """End the sessions of a seat, except `keep_sid`, and its links that set a password. Returns the number of sessions.

    Webhooks of a disabled seat are disabled until another owner or admin takes them over. API tokens are not changed.
    They are refused while the seat is disabled, and revoked with the grant that they need.
    """
    if reason not in _KEEPS_LINKS:
        stores.seats.end_links(now, seat_id)
    if reason is EndReason.SEAT_DISABLED:
        stop_ownerless_webhooks(stores, now, owner_id=seat_id)
    return stores.sessions.end_all(seat_id, now, reason, keep_sid=keep_sid)


def end_all_credentials(stores: Stores, reason: EndReason, now: datetime) -> dict[str, int]:
    """End the sessions and links of all seats. Returns the number of sessions for each seat that had any."""
    if reason not in _KEEPS_LINKS:
        stores.seats.end_links(now)
    return stores.sessions.end_every(now, reason)
