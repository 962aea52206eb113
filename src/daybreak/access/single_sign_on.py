"""Single sign-on: the authorization request, the checks of its response, and the sign-in of the verified user.

A request is bound to the browser by a sealed cookie, and expires after ten minutes. The provider accepts its code once.
The first sign-in by email binds the user to the seat. From then on the user's subject decides, and the email does not:
a changed address at the provider neither moves access nor lets another user take the seat.
"""

import base64
import hmac
import string
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import structlog

from daybreak.access import throttle
from daybreak.access.end_credentials import EndReason, end_credentials
from daybreak.access.login import SecondFactorPending, SessionStart, SessionStarted, find_device
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession, mark_reauthenticated
from daybreak.credentials import sealed_text
from daybreak.credentials.id_token import CLOCK_SKEW_SECONDS, IdToken
from daybreak.domain.audit import EventOrigin
from daybreak.domain.email_address import is_email_address
from daybreak.domain.errors import Forbidden, NotFound, ProviderUnavailable, RequestError
from daybreak.domain.identity import Caller, Seat, SeatIdentity, Session
from daybreak.oidc.provider import AuthorizationRequest, Provider, TokenRefused
from daybreak.settings import OidcSettings
from daybreak.state.stores import Stores

_log = structlog.get_logger("daybreak.oidc")
# How long the user may take at the provider.
REQUEST_LIFETIME = timedelta(minutes=10)
_MAXIMUM_CODE_LENGTH = 4096
# A reason may repeat what the provider sent.
_MAXIMUM_REASON_LENGTH = 300
_RANDOM_BYTES = 32
# Encrypted and in base64, it fits into the 4096 bytes that browsers accept with the name of a cookie.
_MAXIMUM_COOKIE_CONTENT = 2900
_EXPIRED = "This sign-in has expired or was started in another browser. Sign in again."
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class SignInRefused(Forbidden):
    """The sign-in cannot be completed. `reason` is a short stable word for the audit trail."""

    code = "sign_in_refused"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnknownResponse(SignInRefused):
    """No pending request of this browser has the state of the response, such as after the back button."""


class PendingRequest(AuthorizationRequest, frozen=True):
    """An authorization request as the browser's sealed cookie contains it.

    `sid` is the session that reauthenticates on the account `client_id`, None for a sign-in. `started_at` is in epoch
    seconds.
    """

    next_path: str
    started_at: int
    sid: str | None = None
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class Redirection:
    """The URL to send the browser to, and the text of its cookie."""

    url: str
    cookie: str


@dataclass(frozen=True, slots=True)
class VerifiedResponse:
    """A response of the provider to this browser's request, with the validated ID token."""

    request: PendingRequest
    id_token: IdToken


async def begin(services: Services, *, next_path: str, active: ActiveSession | None = None) -> Redirection:
    """Start an authorization request: of a sign-in, or of the session `active` that reauthenticates.

    Raises NotFound if single sign-on is not configured, ProviderUnavailable.
    """
    provider = provider_of(services)
    state, nonce, code_verifier = (_random_text(services) for _ in range(3))
    started_at = int(services.clock().timestamp())
    sid, client_id = (active.session.sid, active.client_id) if active is not None else (None, "")
    pending = PendingRequest(state, nonce, code_verifier, next_path, started_at, sid, client_id)
    if len(msgspec.json.encode(pending)) > _MAXIMUM_COOKIE_CONTENT:
        pending = msgspec.structs.replace(pending, next_path="")
    with _outages_logged():
        url = await provider.authorization_url(pending, reauthenticate=sid is not None)
    cookie = sealed_text.seal(
        msgspec.json.encode(pending), purpose="oidc-request", keyring=services.keyring.current(), random=services.random
    )
    return Redirection(url, cookie)


async def verify_response(
    services: Services, cookie: str | None, parameters: Mapping[str, str], caller: Caller
) -> VerifiedResponse:
    """Check an authorization response and exchange its code. Refusals are recorded in the audit trail.

    Raises NotFound, RateLimited, SignInRefused, ProviderUnavailable.
    """
    provider, now = provider_of(services), services.clock()
    # The provider limits attempts on a user.
    rules = throttle.origin_rules(services.settings.access, "oidc", caller.address)
    await throttle.count_attempt(services.state, rules, now)
    try:
        pending = _pending_request(services, cookie, parameters.get("state"), now)
        with _outages_logged():
            code = await _authorization_code(provider, services.settings.oidc, parameters)
            id_token = await _redeem(services, provider, code, pending)
    except (SignInRefused, ProviderUnavailable) as error:
        reason = error.reason if isinstance(error, SignInRefused) else error.code
        await services.record(EventOrigin(now, caller).event("login", reason, login_details(services.settings.oidc)))
        raise
    return VerifiedResponse(pending, id_token)


@contextmanager
def _outages_logged() -> Iterator[None]:
    """Log why the provider cannot be used. Users only learn that it cannot."""
    try:
        yield
    except ProviderUnavailable as error:
        _log.warning("oidc.unavailable", reason=error.detail[:_MAXIMUM_REASON_LENGTH])
        raise


def login_details(settings: OidcSettings) -> dict[str, object]:
    """Return the details of audit events of single sign-on."""
    return {"kind": "dashboard", "method": "oidc", "provider": settings.issuer}


def provider_of(services: Services) -> Provider:
    """Return the provider. Raises NotFound if single sign-on is not configured."""
    if services.provider is None:
        raise NotFound("Single sign-on is not configured.")
    return services.provider


def _pending_request(services: Services, cookie: str | None, state: str | None, now: datetime) -> PendingRequest:
    """Return the request that this browser started with that state."""
    content = sealed_text.unseal(cookie or "", purpose="oidc-request", keyring=services.keyring.current())
    if content is None or state is None:
        raise UnknownResponse("no_request", _EXPIRED)
    pending = msgspec.json.decode(content, type=PendingRequest)
    if not hmac.compare_digest(pending.state.encode(), state.encode("utf-8", "surrogatepass")):
        raise UnknownResponse("state_mismatch", _EXPIRED)
    if pending.started_at + REQUEST_LIFETIME.total_seconds() <= now.timestamp():
        raise SignInRefused("request_expired", _EXPIRED)
    return pending


async def _authorization_code(provider: Provider, settings: OidcSettings, parameters: Mapping[str, str]) -> str:
    """Return the code of a response that this provider sent (RFC 9207 prevents mix-up with another one)."""
    issuer = parameters.get("iss")
    expects_issuer = (await provider.metadata()).sends_issuer
    if (issuer is None and expects_issuer) or (issuer is not None and issuer != provider.issuer):
        raise _invalid_response("response_issuer", settings)
    if "error" in parameters:
        raise SignInRefused(
            "denied_by_provider", f"{settings.name} did not confirm the sign-in. Sign in again, or ask your operator."
        )
    code = parameters.get("code", "")
    if not code or len(code) > _MAXIMUM_CODE_LENGTH or not code.isascii() or not code.isprintable():
        raise _invalid_response("no_code", settings)
    return code


async def _redeem(services: Services, provider: Provider, code: str, pending: PendingRequest) -> IdToken:
    settings = services.settings.oidc
    try:
        return await provider.redeem(code, pending, wants_email=settings.match == "email" and pending.sid is None)
    except TokenRefused as refused:
        raise _invalid_response(refused.reason, settings) from None


def _random_text(services: Services) -> str:
    """Return 256 random bits as 43 characters, the minimum length of a code verifier (RFC 7636 §4.1)."""
    return base64.urlsafe_b64encode(services.random(_RANDOM_BYTES)).decode().rstrip("=")


def _invalid_response(reason: str, settings: OidcSettings) -> SignInRefused:
    return SignInRefused(
        reason, f"The response of {settings.name} is invalid. Sign in again. If this happens again, ask your operator."
    )


async def sign_in(
    services: Services,
    response: VerifiedResponse,
    caller: Caller,
    *,
    device_id: str | None,
    held_sid: str | None = None,
) -> SessionStarted | SecondFactorPending:
    """Start a dashboard session for the seat of a verified user. The session that the browser held before ends.

    Raises SignInRefused, Forbidden(no_active_account). Refusals are recorded in the audit trail.
    """
    now, settings, id_token = services.clock(), services.settings.oidc, response.id_token
    start: SessionStart | None = None

    def write(stores: Stores) -> Session | RequestError:
        nonlocal start
        seat = _seat_of(stores, id_token, settings, now, caller)
        if isinstance(seat, SignInRefused):
            details = {**login_details(settings), "identity": id_token.subject}
            stores.audit.append(EventOrigin(now, caller).event("login", seat.reason, details))
            return seat
        trusted = settings.trust_second_factor and id_token.second_factor
        start = SessionStart(
            services,
            seat,
            caller,
            find_device(stores, device_id, seat),
            "dashboard",
            now,
            ("sso", "mfa") if trusted else ("sso",),
            proved_at=_proved_at(id_token, now),
            held_sid=held_sid,
            details=login_details(settings),
        )
        return start.write(stores, seat)

    session = await services.commit(write)
    assert start is not None
    return start.result(session)


async def reauthenticate(
    services: Services, active: ActiveSession, response: VerifiedResponse, caller: Caller
) -> Session:
    """Record that the user of a session has entered the credentials at the provider again. The session gets a new id.

    Returns the session. Raises SignInRefused, Unauthenticated(session_ended). Both are recorded in the audit trail.
    """
    now, details = services.clock(), login_details(services.settings.oidc)

    def write(stores: Stores) -> Session | RequestError:
        refused = _reauthentication_fault(stores, active, response)
        if refused is not None:
            stores.audit.append(active.origin(now, caller).event("reauthenticated", refused.reason, details))
            return refused
        return mark_reauthenticated(services, stores, active, caller, now, details=details)

    return await services.commit(write)


def _seat_of(
    stores: Stores, id_token: IdToken, settings: OidcSettings, now: datetime, caller: Caller
) -> Seat | SignInRefused:
    """Return the locked seat of a user, bound now if the email matches, or the refusal."""
    bound = stores.identities.find(id_token.issuer, id_token.subject)
    if bound is None and settings.match == "email":
        return _bind_by_email(stores, id_token, settings, now, caller)
    seat = stores.seats.get_for_update(bound.seat_id) if bound is not None else None
    # The lock waits for an operator who unbinds the seat, so the binding is read again.
    if seat is None or stores.identities.find(id_token.issuer, id_token.subject) is None:
        return _no_access("no_seat", settings)
    return seat if not seat.disabled else _no_access("seat_disabled", settings)


def _bind_by_email(
    stores: Stores, id_token: IdToken, settings: OidcSettings, now: datetime, caller: Caller
) -> Seat | SignInRefused:
    if id_token.email is None or not is_email_address(id_token.email):
        return SignInRefused(
            "no_email", f"{settings.name} did not send your email address. Ask your operator to check the scopes."
        )
    if not id_token.email_verified:
        return SignInRefused(
            "email_unverified",
            f"{settings.name} has not verified your email address. Verify it there and sign in again, or ask your "
            "operator.",
        )
    found = stores.seats.by_email(id_token.email)
    seat = stores.seats.get_for_update(found.seat_id) if found is not None else None
    # Seats are found by case-folded emails, which can be equal for different mailboxes, such as strasse and straße.
    if seat is None or seat.email.translate(_ASCII_LOWER) != id_token.email.translate(_ASCII_LOWER):
        return _no_access("no_seat", settings)
    if seat.disabled:
        return _no_access("seat_disabled", settings)
    subjects = [each.subject for each in stores.identities.list_for(seat.seat_id) if each.issuer == id_token.issuer]
    if subjects and id_token.subject not in subjects:
        return _no_access("bound_to_another_user", settings)
    if not subjects:
        stores.identities.add(SeatIdentity(id_token.issuer, id_token.subject, seat.seat_id, now))
        end_credentials(stores, seat.seat_id, EndReason.IDENTITY_BOUND, now)
        stores.audit.append(EventOrigin(now, caller, seat).event("identity.bound", "ok", login_details(settings)))
    return seat


def _reauthentication_fault(stores: Stores, active: ActiveSession, response: VerifiedResponse) -> SignInRefused | None:
    """Return why a response does not reauthenticate the session, None if it does."""
    request, id_token = response.request, response.id_token
    bound = stores.identities.find(id_token.issuer, id_token.subject)
    if request.sid != active.session.sid or bound is None or bound.seat_id != active.seat.seat_id:
        return SignInRefused("another_user", "You signed in as another user. Confirm as the user of this session.")
    # A provider that ignores max_age must not pass off an earlier sign-in as a new one (OpenID Connect Core §3.1.2.1).
    if id_token.auth_time is None or id_token.auth_time + CLOCK_SKEW_SECONDS < request.started_at:
        return SignInRefused("not_reauthenticated", "The provider did not ask for your credentials. Try again.")
    return None


def _proved_at(id_token: IdToken, now: datetime) -> datetime | None:
    """Return when the user entered the credentials at the provider, None if the provider does not state it."""
    if id_token.auth_time is None or id_token.auth_time < 0:
        return None
    return min(now, datetime.fromtimestamp(min(id_token.auth_time, now.timestamp()), UTC))


def _no_access(reason: str, settings: OidcSettings) -> SignInRefused:
    # One text for all reasons: it does not state which seats exist.
    return SignInRefused(reason, f"Your user at {settings.name} has no access to this service. Ask your operator.")
