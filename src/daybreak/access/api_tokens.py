"""API tokens: their text, creation, authentication by one statement per request, and revocation.

A token is `service_api_`, 32 random base62 characters (190 bits) and 6 of checksum. The checksum rejects a mistyped
token without a database query and helps secret scanners avoid false positives. The database stores the SHA-256 of a
token.
"""

import hashlib
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.access.authorization import require, token_fault
from daybreak.access.names import normalize_name
from daybreak.access.services import Services, new_id
from daybreak.access.sessions import require_recent_password
from daybreak.access.throttle import address_group
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Conflict, FieldFault, InvalidRequest, NotFound, Unauthenticated, Unavailable
from daybreak.domain.identity import ApiToken, Caller, Principal, ResolvedToken, Seat, ServeGzipAs, is_id
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule

PREFIX = "service_api_"
# Published for secret scanners.
PATTERN = r"service_api_[0-9A-Za-z]{38}"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(PATTERN, re.ASCII)
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6

MAX_LIVE_TOKENS = 20
_LAST_USED_INTERVAL = timedelta(minutes=1)
_REFUSAL_INTERVAL_SECONDS = 60
NAME_SUBJECT = "A token name"


def generate(random: Callable[[int], bytes]) -> str:
    """Return a new token. `random(n)` returns n random bytes."""
    characters: list[str] = []
    while len(characters) < _RANDOM_LENGTH:
        # 248 = 4 * 62. Using larger bytes would make the first eight characters more frequent.
        characters += [_ALPHABET[byte % 62] for byte in random(64) if byte < 248]
    body = PREFIX + "".join(characters[:_RANDOM_LENGTH])
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Return whether prefix, length, alphabet and checksum are valid."""
    if not _TOKEN.fullmatch(token):
        return False
    return token[-_CHECKSUM_LENGTH:] == _checksum(token[:-_CHECKSUM_LENGTH])


def digest(token: str) -> str:
    """Return the stored form: SHA-256 as lower-case hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def find_all(text: str) -> list[str]:
    """Return each token with a valid checksum in a text, such as a secret scanner's report, once."""
    return [token for token in dict.fromkeys(_TOKEN.findall(text)) if is_well_formed(token)]


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode("ascii"))
    characters = ""
    for _ in range(_CHECKSUM_LENGTH):
        number, remainder = divmod(number, 62)
        characters = _ALPHABET[remainder] + characters
    return characters


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. `secret` is shown to its owner once and never stored."""

    secret: str
    token: ApiToken


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """Properties of a new token. See `ApiToken`."""

    name: str
    expires_at: datetime | None = None
    serve_gzip_as: ServeGzipAs | None = None
    allowed_networks: tuple[str, ...] = ()


async def authenticate(services: Services, secret: str, caller: Caller) -> Principal:
    """Return the principal of an API token. A wrong checksum is refused without a database query.

    Raises Unauthenticated, or Forbidden when the account is inactive, a permission is missing, or the token excludes
    the address of the client. The last one is recorded in the audit trail.
    """
    if not is_well_formed(secret):
        raise Unauthenticated("Invalid token.", code="invalid_token")
    token_digest = digest(secret)
    return await _authenticate(services, lambda stores: stores.api_tokens.resolve(token_digest), caller)


async def authenticate_by_id(services: Services, token_id: str, caller: Caller) -> Principal:
    """Return the principal of an API token for which the caller verified a signature. Raises as `authenticate`."""
    return await _authenticate(services, lambda stores: stores.api_tokens.resolve_by_id(token_id), caller)


async def _authenticate(
    services: Services, resolve: Callable[[Stores], ResolvedToken | None], caller: Caller
) -> Principal:
    now = services.clock()
    resolved = await services.state.aread(resolve)
    if resolved is not None:
        # The response may contain a link, which needs a key that is valid.
        await services.apply_revocations(resolved.revoked_keys)
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
        not_after = now - _LAST_USED_INTERVAL
        # The response does not depend on this write, and the next request tries it again.
        with suppress(Unavailable):
            await services.state.awrite(
                lambda stores: stores.api_tokens.record_use(token.token_id, now, not_after=not_after)
            )
    return Principal(
        kind="api_token",
        subject=token.subject,
        seat=resolved.seat,
        account=resolved.account,
        grant=resolved.grant,
        token=token,
    )


async def create(services: Services, principal: Principal, options: TokenOptions, caller: Caller) -> NewToken:
    """Create a token of the principal's seat on its account. The caller must have verified the password recently.

    Raises Forbidden when account or seat may not have tokens, InvalidRequest, Conflict when the seat has too many on
    this account.
    """
    require(principal, "manage_api_tokens", principal.account.client_id)
    now = services.clock()
    created = new_token(principal.seat, principal.account.client_id, options, now=now, random=services.random)

    def write(stores: Stores) -> None:
        add(stores, created.token, now)
        origin = EventOrigin.of(principal, now, caller)
        stores.audit.append(origin.event("token.created", "ok", details_of(created.token)))

    await services.state.awrite(write)
    return created


async def list_of_account(services: Services, principal: Principal) -> list[ApiToken]:
    """Return the tokens on the principal's account: the seat's own, or those of all seats for owners and admins."""
    require(principal, "manage_api_tokens", principal.account.client_id)
    seat_id = None if principal.grant.manages_account else principal.seat.seat_id
    return await services.state.aread(
        lambda stores: stores.api_tokens.list_for(client_id=principal.account.client_id, seat_id=seat_id)
    )


async def revoke(services: Services, principal: Principal, token_id: str, caller: Caller) -> None:
    """Revoke a token that `list_of_account` returns, and every link issued with it.

    Raises NotFound for other tokens. Revoking a revoked token changes nothing.
    """
    require(principal, "manage_api_tokens", principal.account.client_id)
    now = services.clock()

    def write(stores: Stores) -> None:
        token = _managed_token(stores, principal, token_id)
        if stores.api_tokens.revoke(token_id, now, "revoked in the dashboard"):
            origin = EventOrigin.of(principal, now, caller)
            stores.audit.append(origin.event("token.revoked", "ok", details_of(token)))

    await services.state.awrite(write)


async def change(
    services: Services,
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
    now, normalized_name = services.clock(), normalize_name(name, subject=NAME_SUBJECT)

    def write(stores: Stores) -> None:
        token = _managed_token(stores, principal, token_id)
        if allowed_networks != token.allowed_networks:
            require_recent_password(services, session)
        events = apply_changes(stores, token, normalized_name, allowed_networks)
        origin = EventOrigin.of(principal, now, caller)
        for action, details in events:
            stores.audit.append(origin.event(action, "ok", details))

    await services.state.awrite(write)


def new_token(
    seat: Seat, client_id: str, options: TokenOptions, *, now: datetime, random: Callable[[int], bytes]
) -> NewToken:
    """Create a secret and its row, without storing it. Raises InvalidRequest."""
    name = normalize_name(options.name, subject=NAME_SUBJECT)
    if options.expires_at is not None and options.expires_at <= now:
        raise InvalidRequest(
            "The expiry is in the past.", faults=(FieldFault("/expires_at", "Use a time in the future."),)
        )
    secret = generate(random)
    token = ApiToken(
        token_id=new_id(random),
        digest=digest(secret),
        seat_id=seat.seat_id,
        client_id=client_id,
        name=name,
        last_four=secret[-4:],
        created_at=now,
        expires_at=options.expires_at,
        created_by_email=seat.email,
        serve_gzip_as=options.serve_gzip_as,
        allowed_networks=options.allowed_networks,
    )
    return NewToken(secret, token)


def apply_changes(
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


def _managed_token(stores: Stores, principal: Principal, token_id: str) -> ApiToken:
    """Return a token that the principal manages: its own on its account, or any on it for owners and admins.

    Raises NotFound.
    """
    resolved = stores.api_tokens.resolve_by_id(token_id) if is_id(token_id) else None
    if resolved is not None and resolved.token.client_id == principal.account.client_id:
        token = resolved.token
        if principal.grant.manages_account or token.seat_id == principal.seat.seat_id:
            return token
    raise NotFound("This account has no such token.")


async def _record_refusal(
    services: Services, resolved: ResolvedToken, now: datetime, caller: Caller, code: str
) -> None:
    """Record a refused request in the audit trail, once a minute for each token and address."""
    token = resolved.token
    subject = token.subject
    rule = ThrottleRule(f"refused:{subject}:{address_group(caller.address)}", 1, _REFUSAL_INTERVAL_SECONDS)
    origin = EventOrigin(now, caller, resolved.seat, token.client_id, subject)

    def write(stores: Stores) -> None:
        if stores.throttle.count([rule], now) is None:
            stores.audit.append(origin.event("token.refused", code, details_of(token)))

    # The request is refused anyway.
    with suppress(Unavailable):
        await services.state.awrite(write)


def add(stores: Stores, token: ApiToken, now: datetime) -> None:
    """Store a token. Raises Conflict when its seat has too many on its account."""
    # The lock serializes parallel requests, so that each counts the tokens of the others.
    stores.seats.get_for_update(token.seat_id)
    tokens = stores.api_tokens.list_for(client_id=token.client_id, seat_id=token.seat_id)
    if sum(other.state_at(now) == "live" for other in tokens) >= MAX_LIVE_TOKENS:
        raise Conflict(
            f"You have {MAX_LIVE_TOKENS} live tokens on this account. Revoke one first.", code="too_many_tokens"
        )
    stores.api_tokens.add(token)


def details_of(token: ApiToken) -> dict[str, object]:
    """Return the details of audit events of a token."""
    return {"name": token.name, "last_four": token.last_four}
