"""The bearer token of a request, and the principal that it identifies (RFC 6750 §2.1)."""

from __future__ import annotations

from starlette.requests import Request

from daybreak.access import api_tokens, sessions
from daybreak.access.sessions import ActiveSession, PendingLogin
from daybreak.credentials.api_token import PREFIX
from daybreak.domain.errors import Forbidden, Unauthenticated
from daybreak.domain.identity import Principal
from daybreak.web.api.operation import Credential
from daybreak.web.request_state import caller_of, record_subject
from daybreak.web.services import Services

_MAX_CREDENTIAL_CHARACTERS = 4096
_SESSION_PROBLEMS = ("missing_token", "invalid_token", "token_expired", "session_ended", "state_unavailable", "busy")
# The codes that the functions of this module raise, and those of the account in the path.
PENDING_LOGIN = Credential(("pending_login",), _SESSION_PROBLEMS)
SESSION = Credential(("session",), (*_SESSION_PROBLEMS, "session_required", "second_factor_required"))
SESSION_OR_API_TOKEN = Credential(
    ("session", "api_token"),
    (
        *_SESSION_PROBLEMS,
        "token_revoked",
        "second_factor_required",
        "not_your_account",
        "wrong_context",
        "account_inactive",
        "data_export_required",
        "async_rest_api_required",
        "api_tokens_disabled",
        "address_not_allowed",
    ),
)

API_TOKEN = Credential(
    ("api_token",),
    tuple(
        problem
        for problem in SESSION_OR_API_TOKEN.problems
        if problem not in {"session_ended", "second_factor_required", "not_your_account", "wrong_context"}
    ),
)


def bearer(request: Request) -> str:
    """Return the token of a request.

    Raises:
        Unauthenticated: the request does not have exactly one valid bearer token.
    """
    values: list[bytes] = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if not values:
        raise Unauthenticated("Send a token: `Authorization: Bearer <token>`.", code="missing_token")
    scheme, _, credential = values[0].decode("latin-1").strip().partition(" ")
    credential = credential.strip()
    if len(values) > 1 or scheme.lower() != "bearer" or not credential:
        raise Unauthenticated("Send exactly one token: `Authorization: Bearer <token>`.", code="missing_token")
    if len(credential) > _MAX_CREDENTIAL_CHARACTERS:
        raise Unauthenticated("Invalid token.", code="invalid_token")
    return credential


async def principal_of(request: Request, services: Services) -> Principal:
    """Authenticate a session token or an API token.

    Raises:
        Unauthenticated, Forbidden, Unavailable: see `SESSION_OR_API_TOKEN`.
    """
    credential = bearer(request)
    if credential.startswith(PREFIX):
        principal = await api_tokens.authenticate(services.access, credential, caller_of(request))
    else:
        principal = await sessions.authenticate(services.access, credential)
    record_subject(request, principal.subject, principal.account.client_id)
    return principal


async def token_principal(request: Request, services: Services) -> Principal:
    """Authenticate an API token. Session tokens are refused without being checked.

    Raises:
        Unauthenticated, Forbidden: see `api_tokens.authenticate`.
    """
    credential = bearer(request)
    if not credential.startswith(PREFIX):
        raise Unauthenticated("Send an API token of Daybreak. Session tokens are not accepted here.")
    principal = await api_tokens.authenticate(services.access, credential, caller_of(request))
    record_subject(request, principal.subject, principal.account.client_id)
    return principal


async def session_of(request: Request, services: Services) -> ActiveSession:
    """Authenticate a session token. The session may have no access to the account of the token.

    Raises:
        Unauthenticated, Forbidden, Unavailable: see `SESSION`.
    """
    credential = bearer(request)
    if credential.startswith(PREFIX):
        raise Forbidden(
            "API tokens cannot be used here. Sign in with email and password, and send the session token.",
            code="session_required",
        )
    session = await sessions.active_session(services.access, credential)
    record_subject(request, session.subject, session.client_id)
    return session


async def pending_login_of(request: Request, services: Services) -> PendingLogin:
    """Authenticate the token of a login that waits for its second factor.

    Raises:
        Unauthenticated, Unavailable: see `PENDING_LOGIN`.
    """
    pending = await sessions.pending_login(services.access, bearer(request))
    record_subject(request, f"session:{pending.session.sid}")
    return pending
