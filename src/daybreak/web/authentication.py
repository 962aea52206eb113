"""The Authorization header: one bearer credential, and whom it stands for (RFC 6750 §2.1)."""

from __future__ import annotations

from starlette.requests import Request

from daybreak.access import api_tokens, sessions
from daybreak.access.sessions import SignedIn, Waiting
from daybreak.credentials.api_token import PREFIX
from daybreak.domain.errors import Forbidden, Unauthenticated
from daybreak.domain.identity import Principal
from daybreak.web.request_facts import facts_of
from daybreak.web.services import Services

_LONGEST_CREDENTIAL = 4096


def bearer(request: Request) -> str:
    """The credential as sent. Raises Unauthenticated when there is not exactly one."""
    given: list[bytes] = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if not given:
        raise Unauthenticated("Send a token: `Authorization: Bearer <token>`.", code="missing_token")
    scheme, _, credential = given[0].decode("latin-1").strip().partition(" ")
    credential = credential.strip()
    if len(given) > 1 or scheme.lower() != "bearer" or not credential:
        raise Unauthenticated("Send exactly one token: `Authorization: Bearer <token>`.", code="missing_token")
    if len(credential) > _LONGEST_CREDENTIAL:
        raise Unauthenticated("This token is not good.", code="invalid_token")
    return credential


async def principal_of(request: Request, services: Services) -> Principal:
    """Whoever a download's credential stands for: an API token by its prefix, else a session token.

    Raises Unauthenticated, Forbidden, Unavailable.
    """
    credential = bearer(request)
    if credential.startswith(PREFIX):
        principal = await api_tokens.authenticate(services.access, credential)
    else:
        principal = await sessions.authenticate(services.access, credential)
    facts = facts_of(request)
    facts.subject, facts.client_id = principal.subject, principal.account.client_id
    return principal


async def session_of(request: Request, services: Services) -> SignedIn:
    """The session of a session token; its account may be closed to it. Raises as `principal_of`."""
    credential = bearer(request)
    if credential.startswith(PREFIX):
        raise Forbidden(
            "Sign in with email and password for this; an API token is bound to one account.",
            code="session_required",
        )
    who = await sessions.signed_in(services.access, credential)
    facts = facts_of(request)
    facts.subject, facts.client_id = who.subject, who.client_id
    return who


async def waiting_of(request: Request, services: Services) -> Waiting:
    """The login that waits for its second factor. Raises Unauthenticated."""
    found = await sessions.waiting(services.access, bearer(request))
    facts_of(request).subject = f"session:{found.session.sid}"
    return found
