"""API tokens: made once, shown once, judged on each request by one statement."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.access.authorization import require, token_fault
from daybreak.access.services import AccessServices, new_id
from daybreak.access.trail import event_of
from daybreak.credentials import api_token
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import (
    Conflict,
    FieldFault,
    InvalidRequest,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from daybreak.domain.identity import ApiToken, Caller, Principal, Seat, is_id
from daybreak.ports.state import Stores

MAXIMUM_NAME_LENGTH = 80
MAXIMUM_LIVE_TOKENS = 20
_LAST_USED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Minted:
    """A new token. `secret` is what its owner gets to see, once; it is stored nowhere."""

    secret: str
    token: ApiToken


async def authenticate(services: AccessServices, secret: str) -> Principal:
    """Whoever an API token stands for. A bad checksum is refused without asking the database.

    Raises Unauthenticated, or Forbidden when account or permissions are gone.
    """
    if not api_token.well_formed(secret):
        raise Unauthenticated("This token is not good.", code="invalid_token")
    now = services.clock()
    digest = api_token.digest(secret)
    standing = await services.state.aread(lambda stores: stores.api_tokens.standing(digest))
    fault = token_fault(standing, now)
    if fault is not None:
        raise fault
    assert standing is not None
    assert standing.account is not None
    assert standing.grant is not None
    token = standing.token
    if token.last_used_at is None or token.last_used_at + _LAST_USED_EVERY <= now:
        await _touch(services, token.token_id, now)
    return Principal(
        kind="api_token",
        subject=f"token:{token.token_id}",
        seat=standing.seat,
        account=standing.account,
        grant=standing.grant,
        token=token,
    )


async def create(
    services: AccessServices,
    principal: Principal,
    *,
    name: str,
    expires_at: datetime | None,
    caller: Caller,
) -> Minted:
    """A token of the principal's seat on its account. The caller has asked for the password again.

    Raises Forbidden when account or seat may not have any, InvalidRequest, Conflict when the seat
    has too many on this account.
    """
    require(principal, "manage_api_tokens", principal.account.client_id)
    now = services.clock()
    minted = mint(
        principal.seat,
        principal.account.client_id,
        now=now,
        random=services.random,
        name=name,
        expires_at=expires_at,
    )

    def work(stores: Stores) -> bool:
        if not _add(stores, minted.token, now):
            return False
        stores.audit.append(
            event_of(principal, "token.created", "ok", at=now, caller=caller, details=_described(minted.token))
        )
        return True

    if not await services.state.awrite(work):
        raise _too_many()
    return minted


async def list_of_account(services: AccessServices, principal: Principal) -> list[ApiToken]:
    """The tokens on the principal's account: the seat's own, everybody's for owners and admins."""
    require(principal, "manage_api_tokens", principal.account.client_id)
    seat_id = None if _sees_all(principal) else principal.seat.seat_id
    return await services.state.aread(
        lambda stores: stores.api_tokens.list_for(client_id=principal.account.client_id, seat_id=seat_id)
    )


async def revoke(services: AccessServices, principal: Principal, token_id: str, caller: Caller) -> None:
    """Ends a token that `list_of_account` shows, and every link that came from it.

    Raises NotFound when it is not one of them; a revoked one stays revoked.
    """
    require(principal, "manage_api_tokens", principal.account.client_id)
    now = services.clock()

    def work(stores: Stores) -> bool:
        standing = stores.api_tokens.standing_by_id(token_id) if is_id(token_id) else None
        if standing is None or standing.token.client_id != principal.account.client_id:
            return False
        if standing.token.seat_id != principal.seat.seat_id and not _sees_all(principal):
            return False
        if stores.api_tokens.revoke(token_id, now, "revoked in the dashboard"):
            stores.audit.append(
                event_of(principal, "token.revoked", "ok", at=now, caller=caller, details=_described(standing.token))
            )
        return True

    if not await services.state.awrite(work):
        raise NotFound("There is no such token on this account.")


def mint(
    seat: Seat,
    client_id: str,
    *,
    now: datetime,
    random: Callable[[int], bytes],
    name: str,
    expires_at: datetime | None,
) -> Minted:
    """A new secret and the row for it, not stored yet. Raises InvalidRequest."""
    shown_name = _checked_name(name)
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest(
            "The expiry is in the past.",
            faults=(FieldFault("/expires_at", "Choose a time that is still to come."),),
        )
    secret = api_token.mint(random)
    token = ApiToken(
        token_id=new_id(random),
        digest=api_token.digest(secret),
        seat_id=seat.seat_id,
        client_id=client_id,
        name=shown_name,
        last_four=secret[-4:],
        created_at=now,
        expires_at=expires_at,
        created_by_email=seat.email,
    )
    return Minted(secret, token)


def revoke_leaked(stores: Stores, report: str, now: datetime, *, actor: str) -> list[ApiToken]:
    """Revokes every token whose secret stands in a text such as a secret scanner's report.

    Those that were live, for telling their owners; unknown and revoked ones are passed over.
    """
    revoked = []
    for secret in api_token.find_all(report):
        standing = stores.api_tokens.standing(api_token.digest(secret))
        if standing is not None and stores.api_tokens.revoke(standing.token.token_id, now, "found in public"):
            stores.audit.append(_operator_event(standing.token, "token.revoked", now, actor, reason="found in public"))
            revoked.append(standing.token)
    return revoked


def add_by_operator(stores: Stores, token: ApiToken, now: datetime, *, actor: str) -> None:
    """Stores a token that an operator made for a seat. Raises Conflict when there are too many."""
    if not _add(stores, token, now):
        raise _too_many()
    stores.audit.append(_operator_event(token, "token.created", now, actor))


def revoke_by_operator(stores: Stores, token: ApiToken, now: datetime, *, actor: str, reason: str) -> bool:
    """False when it was revoked already."""
    revoked = stores.api_tokens.revoke(token.token_id, now, reason)
    if revoked:
        stores.audit.append(_operator_event(token, "token.revoked", now, actor, reason=reason))
    return revoked


async def _touch(services: AccessServices, token_id: str, now: datetime) -> None:
    def work(stores: Stores) -> None:
        stores.api_tokens.touch(token_id, now, not_after=now - _LAST_USED_EVERY)

    try:
        await services.state.awrite(work)
    except Unavailable:
        # The answer does not depend on it; the next request tries again.
        return


def _add(stores: Stores, token: ApiToken, now: datetime) -> bool:
    # Two at once are counted one after the other.
    stores.seats.held(token.seat_id)
    mine = stores.api_tokens.list_for(client_id=token.client_id, seat_id=token.seat_id)
    live = [
        other for other in mine if other.revoked_at is None and (other.expires_at is None or other.expires_at > now)
    ]
    if len(live) >= MAXIMUM_LIVE_TOKENS:
        return False
    stores.api_tokens.add(token)
    return True


def _operator_event(token: ApiToken, action: str, now: datetime, actor: str, *, reason: str = "") -> AuditEvent:
    """What an operator did to a token, on the trail of its account."""
    details = _described(token) | ({"reason": reason} if reason else {})
    return AuditEvent(
        at=now,
        action=action,
        result="ok",
        actor=actor,
        seat_id=token.seat_id,
        client_id=token.client_id,
        subject=f"token:{token.token_id}",
        details=details,
    )


def _checked_name(name: str) -> str:
    # Cut first: normalising takes time by the square of a run of combining marks.
    shown = unicodedata.normalize("NFC", name[: 4 * MAXIMUM_NAME_LENGTH + 1]).strip()
    if not 1 <= len(shown) <= MAXIMUM_NAME_LENGTH or any(
        unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"} for letter in shown
    ):
        raise InvalidRequest(
            "The name of a token has 1 to 80 characters and no line breaks.",
            faults=(FieldFault("/name", "Send 1 to 80 characters without line breaks."),),
        )
    return shown


def _sees_all(principal: Principal) -> bool:
    return bool({"owner", "admin"} & set(principal.grant.roles))


def _described(token: ApiToken) -> dict[str, object]:
    return {"name": token.name, "last_four": token.last_four}


def _too_many() -> Conflict:
    return Conflict(
        f"This seat has {MAXIMUM_LIVE_TOKENS} live tokens on this account. Revoke one first.",
        code="too_many_tokens",
    )
