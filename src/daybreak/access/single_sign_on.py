"""Single sign-on: the authorization request, and the checks of its response.

A request is bound to the browser by a sealed cookie, and expires after ten minutes. The provider accepts its code once.
`identity_login` continues with the verified user.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from daybreak.access import throttle
from daybreak.access.services import Services
from daybreak.access.sessions import ActiveSession
from daybreak.credentials import sealed_text
from daybreak.credentials.id_token import IdToken
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Forbidden, NotFound, ProviderUnavailable
from daybreak.domain.identity import Caller
from daybreak.oidc.provider import AuthorizationRequest, Provider, TokenRefused
from daybreak.settings import OidcSettings

# How long the user may take at the provider.
REQUEST_LIFETIME = timedelta(minutes=10)
_MAXIMUM_CODE_LENGTH = 4096
_RANDOM_BYTES = 32
# Encrypted and in base64, it fits into the 4096 bytes that browsers accept with the name of a cookie.
_MAXIMUM_COOKIE_CONTENT = 2900


class SignInRefused(Forbidden):
    """The sign-in cannot be completed. `reason` is a short stable word for the audit trail."""

    code = "sign_in_refused"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PendingRequest(msgspec.Struct, frozen=True):
    """An authorization request as the browser's sealed cookie contains it.

    `sid` is the session that reauthenticates on the account `client_id`, None for a sign-in. `started_at` is in epoch
    seconds.
    """

    state: str
    nonce: str
    code_verifier: str
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
    url = await provider.authorization_url(_authorization_request(pending))
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
        code = await _authorization_code(provider, services.settings.oidc, parameters)
        id_token = await _redeem(services, provider, code, pending)
    except SignInRefused as refused:
        await record_refusal(services, EventOrigin(now, caller), refused)
        raise
    except ProviderUnavailable as error:
        await record_refusal(services, EventOrigin(now, caller), SignInRefused(error.code, error.message))
        raise
    return VerifiedResponse(pending, id_token)


async def record_refusal(
    services: Services, origin: EventOrigin, refused: SignInRefused, subject: str | None = None
) -> None:
    """Record a refused sign-in. `subject` is the user at the provider, if known."""
    details = login_details(services.settings.oidc) | ({"identity": subject} if subject is not None else {})
    event = origin.event("login", refused.reason, details)
    await services.state.awrite(lambda stores: stores.audit.append(event))


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
        raise _expired("no_request")
    pending = msgspec.json.decode(content, type=PendingRequest)
    if not hmac.compare_digest(pending.state.encode(), state.encode("utf-8", "surrogatepass")):
        raise _expired("state_mismatch")
    if pending.started_at + REQUEST_LIFETIME.total_seconds() <= now.timestamp():
        raise _expired("request_expired")
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
        return await provider.redeem(
            code, _authorization_request(pending), wants_email=settings.match == "email" and pending.sid is None
        )
    except TokenRefused as refused:
        raise _invalid_response(refused.reason, settings) from None


def _authorization_request(pending: PendingRequest) -> AuthorizationRequest:
    return AuthorizationRequest(
        pending.state, pending.nonce, pending.code_verifier, reauthenticate=pending.sid is not None
    )


def _random_text(services: Services) -> str:
    """Return 256 random bits as 43 characters, the minimum length of a code verifier (RFC 7636 §4.1)."""
    return base64.urlsafe_b64encode(services.random(_RANDOM_BYTES)).decode().rstrip("=")


def _expired(reason: str) -> SignInRefused:
    return SignInRefused(reason, "This sign-in has expired or was started in another browser. Sign in again.")


def _invalid_response(reason: str, settings: OidcSettings) -> SignInRefused:
    return SignInRefused(
        reason, f"The response of {settings.name} is invalid. Sign in again. If this happens again, ask your operator."
    )
