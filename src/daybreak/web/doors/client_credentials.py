"""Client credentials (RFC 6749 §4.4): the secret is an API token, which is also the access token."""

import base64
import binascii
from datetime import timedelta
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from daybreak.access import api_tokens
from daybreak.access.services import Services
from daybreak.credentials.strict_json import RepeatedMember, unique_members
from daybreak.domain.errors import InvalidRequest, Unauthenticated
from daybreak.web.http.bodies import read_body
from daybreak.web.request_state import caller_of

_GRANT = "client_credentials"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type, RFC 8693


async def answer_client_credentials(
    request: Request, services: Services, *, renewal: timedelta | None = None
) -> Response:
    """Return the access token of a client. A token without expiry is renewed after `renewal`, never if it is None.

    Raises:
        InvalidRequest: a parameter is repeated (RFC 6749 §3.2), or the grant is another.
        Unauthenticated, Forbidden: see `api_tokens.authenticate`.
    """
    try:
        fields = unique_members(parse_qsl((await read_body(request)).decode("utf-8", "replace")))
    except RepeatedMember as repeated:
        raise InvalidRequest(f"Send {repeated.name} once.") from None
    if fields.get("grant_type") != _GRANT:
        raise InvalidRequest(f"Send grant_type={_GRANT}.")
    secret = fields.get("client_secret") or _basic_password(request)
    principal = await api_tokens.authenticate(services, secret, caller_of(request))
    expires_at = None if principal.token is None else principal.token.expires_at
    lifetime = renewal if expires_at is None else expires_at - services.clock()
    body: dict[str, object] = {"access_token": secret, "token_type": "bearer", "issued_token_type": _ACCESS_TOKEN}
    if lifetime is not None:
        body["expires_in"] = int(lifetime.total_seconds())
    return Response(
        msgspec.json.encode(body), headers={"Content-Type": "application/json", "Cache-Control": "no-store"}
    )


def _basic_password(request: Request) -> str:
    """Return the secret of a client that authenticates with HTTP Basic (RFC 6749 §2.3.1). Raises Unauthenticated."""
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    try:
        _, separator, secret = base64.b64decode(credentials.encode(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeError):
        separator = ""
    if scheme.lower() != "basic" or not separator:
        raise Unauthenticated("Send an API token as client_secret.", code="missing_token")
    return unquote(secret)
