"""API tokens: creation, authentication by one statement per request, and revocation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.access.audit_trail import EventOrigin
from daybreak.access.authorization import require, token_fault
from daybreak.access.names import normalize_name
from daybreak.access.revocations import apply_counted
from daybreak.access.security_events import token_leaked
from daybreak.access.services import AccessServices, new_id
from daybreak.access.sessions import require_recent_password
from daybreak.access.throttle import address_group
from daybreak.credentials import api_token
from daybreak.credentials.redaction import redact
from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Conflict, FieldFault, InvalidRequest, NotFound, Unauthenticated, Unavailable
from daybreak.domain.identity import ApiToken, Caller, Principal, ResolvedToken, Seat, ServeGzipAs, is_id
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule

MAX_LIVE_TOKENS = 20
_LAST_USED_INTERVAL = timedelta(minutes=1)
_REFUSAL_INTERVAL_SECONDS = 60
_NAME_SUBJECT = "A token name"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. `secret` is shown to its owner once and never stored."""

    secret: str
    token: ApiToken


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """Properties of a new token that have a default. See `ApiToken`."""

    serve_gzip_as: ServeGzipAs | None = None
    allowed_networks: tuple[str, ...] = ()


_DEFAULT_OPTIONS = TokenOptions()


async def authenticate(services: AccessServices, secret: str, caller: Caller) -> Principal:
    """Return the principal of an API token. A wrong checksum is refused without a database query.

    Raises Unauthenticated, or Forbidden when the account is inactive, a permission is missing, or the token excludes
    the address of the client. The last one is recorded in the audit trail.
    """
    if not api_token.is_well_formed(secret):
        raise Unauthenticated("Invalid token.", code="invalid_token")
    digest = api_token.digest(secret)
    return await _authenticate(services, lambda stores: stores.api_tokens.resolve(digest), caller)


async def authenticate_by_id(services: AccessServices, token_id: str, caller: Caller) -> Principal:
    """Return the principal of an API token for which the caller verified a signature. Raises as `authenticate`."""
    return await _authenticate(services, lambda stores: stores.api_tokens.resolve_by_id(token_id), caller)


async def _authenticate(
    services: AccessServices, resolve: Callable[[Stores], ResolvedToken | None], caller: Caller
) -> Principal:
    now = services.clock()
    resolved = await services.state.aread(resolve)
    if resolved is not None:
        # The response may contain a link, which needs a key that is valid.
        await apply_counted(services.keyring, services.state, resolved.revoked_keys)
    fault = token_fault(resolved, now, caller.address)
    if fault is not None:
        if resolved is not None and fault.code == "address_not_allowed":
            await _record_refusal(services, resolved, now, caller, fault.code)
        raise fault
    assert resolved is not None
    assert resolved.account is not None
    assert resolved.grant is not None
    token = resolved.token
    if token.last_used_at is None or token.last_used_at + _LAST_USED_INTERVAL <= now:
        await _record_use(services, token.token_id, now)
    return Principal(
        kind="api_token",
        subject=token.subject,
        seat=resolved.seat,
        account=resolved.account,
        grant=resolved.grant,
        token=token,
    )


async def create(
    services: AccessServices,
    principal: Principal,
    *,
    name: str,
    expires_at: datetime | None,
    caller: Caller,
    options: TokenOptions = _DEFAULT_OPTIONS,
) -> NewToken:
    """Create a token of the principal's seat on its account. The caller must have verified the password recently.

    Raises Forbidden when account or seat may not have tokens, InvalidRequest, Conflict when the seat has too many on
    this account.
    """
    require(principal, "manage_api_tokens", principal.account.client_id)
    now = services.clock()
    created = new_token(
        principal.seat,
        principal.account.client_id,
        now=now,
        random=services.random,
        name=name,
        expires_at=expires_at,
        options=options,
    )

    def write(stores: Stores) -> bool:
        if not _add(stores, created.token, now):
            return False
        origin = EventOrigin.of(principal, now, caller)
        stores.audit.append(origin.event("token.created", "ok", _details(created.token)))
        return True

    if not await services.state.awrite(write):
        raise _too_many()
    return created


async def list_of_account(services: AccessServices, principal: Principal) -> list[ApiToken]:
    """Return the tokens on the principal's account: the seat's own, or those of all seats for owners and admins."""
    require(principal, "manage_api_tokens", principal.account.client_id)
    seat_id = None if principal.grant.manages_account else principal.seat.seat_id
    return await services.state.aread(
        lambda stores: stores.api_tokens.list_for(client_id=principal.account.client_id, seat_id=seat_id)
    )


async def revoke(services: AccessServices, principal: Principal, token_id: str, caller: Caller) -> None:
    """Revoke a token that `list_of_account` returns, and every link issued with it.

    Raises NotFound for other tokens. Revoking a revoked token changes nothing.
    """
    require(principal, "manage_api_tokens", principal.account.client_id)
    now = services.clock()

    def write(stores: Stores) -> bool:
        token = _managed_token(stores, principal, token_id)
        if token is None:
            return False
        if stores.api_tokens.revoke(token_id, now, "revoked in the dashboard"):
            origin = EventOrigin.of(principal, now, caller)
            stores.audit.append(origin.event("token.revoked", "ok", _details(token)))
        return True

    if not await services.state.awrite(write):
        raise _unknown_token()


async def change(
    services: AccessServices,
    principal: Principal,
    token_id: str,
    *,
    name: str,
    allowed_networks: tuple[str, ...],
    caller: Caller,
) -> None:
    """Set the name and the allowed networks of a token that `list_of_account` returns.

    Raises InvalidRequest, NotFound for other tokens, and Forbidden(reauthentication_required) when the networks change
    and the password was not entered recently.
    """
    require(principal, "manage_api_tokens", principal.account.client_id)
    assert principal.session is not None
    session = principal.session
    now, normalized_name = services.clock(), normalize_name(name, subject=_NAME_SUBJECT)

    def write(stores: Stores) -> bool:
        token = _managed_token(stores, principal, token_id)
        if token is None:
            return False
        if allowed_networks != token.allowed_networks:
            require_recent_password(services, session)
        events = _changed(stores, token, normalized_name, allowed_networks)
        origin = EventOrigin.of(principal, now, caller)
        for action, details in events:
            stores.audit.append(origin.event(action, "ok", details))
        return True

    if not await services.state.awrite(write):
        raise _unknown_token()


def new_token(
    seat: Seat,
    client_id: str,
    *,
    now: datetime,
    random: Callable[[int], bytes],
    name: str,
    expires_at: datetime | None,
    options: TokenOptions = _DEFAULT_OPTIONS,
) -> NewToken:
    """Create a secret and its row, without storing it. Raises InvalidRequest."""
    normalized_name = normalize_name(name, subject=_NAME_SUBJECT)
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest(
            "The expiry is in the past.", faults=(FieldFault("/expires_at", "Use a time in the future."),)
        )
    secret = api_token.generate(random)
    token = ApiToken(
        token_id=new_id(random),
        digest=api_token.digest(secret),
        seat_id=seat.seat_id,
        client_id=client_id,
        name=normalized_name,
        last_four=secret[-4:],
        created_at=now,
        expires_at=expires_at,
        created_by_email=seat.email,
        serve_gzip_as=options.serve_gzip_as,
        allowed_networks=options.allowed_networks,
    )
    return NewToken(secret, token)


def revoke_leaked(stores: Stores, report: str, now: datetime, *, actor: str) -> list[ApiToken]:
    """Revoke every token whose secret is in a text such as a secret scanner's report.

    Returns the tokens that were live. Their owners are notified. Unknown and revoked tokens are ignored.
    """
    revoked = []
    for secret in api_token.find_all(report):
        resolved = stores.api_tokens.resolve(api_token.digest(secret))
        if resolved is not None and stores.api_tokens.revoke(resolved.token.token_id, now, "found in public"):
            stores.audit.append(
                _operator_event(resolved.token, "token.revoked", now, actor, details={"reason": "found in public"})
            )
            stores.outbox.add(token_leaked(resolved.token, now))
            revoked.append(resolved.token)
    return revoked


def add_by_operator(stores: Stores, token: ApiToken, now: datetime, *, actor: str) -> None:
    """Store a token that an operator created for a seat. Raises Conflict when the seat has too many."""
    if not _add(stores, token, now):
        raise _too_many()
    stores.audit.append(_operator_event(token, "token.created", now, actor))


def change_by_operator(
    stores: Stores, token: ApiToken, now: datetime, *, name: str, allowed_networks: tuple[str, ...], actor: str
) -> None:
    """Set the name and the allowed networks of a token. Raises InvalidRequest."""
    normalized_name = normalize_name(name, subject=_NAME_SUBJECT)
    for action, details in _changed(stores, token, normalized_name, allowed_networks):
        stores.audit.append(_operator_event(token, action, now, actor, details=details))


def revoke_by_operator(stores: Stores, token: ApiToken, now: datetime, *, actor: str, reason: str) -> bool:
    """Revoke a token. Returns False when it was revoked already."""
    reason = redact(reason)
    revoked = stores.api_tokens.revoke(token.token_id, now, reason)
    if revoked:
        stores.audit.append(_operator_event(token, "token.revoked", now, actor, details={"reason": reason}))
    return revoked


def _changed(
    stores: Stores, token: ApiToken, name: str, allowed_networks: tuple[str, ...]
) -> list[tuple[str, dict[str, object]]]:
    """Change a token, and return action and details of an audit event for each change."""
    events: list[tuple[str, dict[str, object]]] = []
    if token.name != name:
        stores.api_tokens.rename(token.token_id, name)
        events.append(("token.renamed", {"previous_name": token.name}))
    if token.allowed_networks != allowed_networks:
        stores.api_tokens.set_allowed_networks(token.token_id, allowed_networks)
        before, after = list(token.allowed_networks), list(allowed_networks)
        events.append(("token.networks_changed", {"before": before, "after": after}))
    return [(action, {"name": name, "last_four": token.last_four, **details}) for action, details in events]


def _managed_token(stores: Stores, principal: Principal, token_id: str) -> ApiToken | None:
    """Return a token that the principal manages: its own on its account, or any on it for owners and admins."""
    resolved = stores.api_tokens.resolve_by_id(token_id) if is_id(token_id) else None
    if resolved is None or resolved.token.client_id != principal.account.client_id:
        return None
    managed = resolved.token.seat_id == principal.seat.seat_id or principal.grant.manages_account
    return resolved.token if managed else None


async def _record_refusal(
    services: AccessServices, resolved: ResolvedToken, now: datetime, caller: Caller, code: str
) -> None:
    """Record a refused request in the audit trail, once a minute for each token and address."""
    token = resolved.token
    subject = token.subject
    rule = ThrottleRule(f"refused:{subject}:{address_group(caller.address)}", 1, _REFUSAL_INTERVAL_SECONDS)
    origin = EventOrigin(now, caller, resolved.seat, token.client_id, subject)

    def write(stores: Stores) -> None:
        if stores.throttle.count([rule], now) is None:
            stores.audit.append(origin.event("token.refused", code, _details(token)))

    try:
        await services.state.awrite(write)
    except Unavailable:
        # The request is refused anyway.
        return


async def _record_use(services: AccessServices, token_id: str, now: datetime) -> None:
    def write(stores: Stores) -> None:
        stores.api_tokens.record_use(token_id, now, not_after=now - _LAST_USED_INTERVAL)

    try:
        await services.state.awrite(write)
    except Unavailable:
        # The response does not depend on this write, and the next request tries it again.
        return


def _add(stores: Stores, token: ApiToken, now: datetime) -> bool:
    # The lock serializes parallel requests, so that each counts the tokens of the others.
    stores.seats.get_for_update(token.seat_id)
    tokens = stores.api_tokens.list_for(client_id=token.client_id, seat_id=token.seat_id)
    live = [
        other for other in tokens if other.revoked_at is None and (other.expires_at is None or other.expires_at > now)
    ]
    if len(live) >= MAX_LIVE_TOKENS:
        return False
    stores.api_tokens.add(token)
    return True


def _operator_event(
    token: ApiToken, action: str, now: datetime, actor: str, *, details: Mapping[str, object] | None = None
) -> AuditEvent:
    """Create the event of an operator's action on a token, in the audit trail of its account."""
    return AuditEvent(
        at=now,
        action=action,
        result="ok",
        actor=actor,
        seat_id=token.seat_id,
        client_id=token.client_id,
        subject=token.subject,
        details={**_details(token), **(details or {})},
    )


def _details(token: ApiToken) -> dict[str, object]:
    return {"name": token.name, "last_four": token.last_four}


def _unknown_token() -> NotFound:
    return NotFound("This account has no such token.")


def _too_many() -> Conflict:
    return Conflict(
        f"You have {MAX_LIVE_TOKENS} live tokens on this account. Revoke one first.", code="too_many_tokens"
    )
