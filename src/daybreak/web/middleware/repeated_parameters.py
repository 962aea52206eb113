"""Refusal of query parameters that are repeated: programs on the way, and this service, could read different values."""

from urllib.parse import unquote_plus

from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.credentials.strict_json import RepeatedMember, unique_members
from daybreak.domain.errors import InvalidRequest

# A link with anything that was not signed is invalid, which its own route says.
_SKIPPED = "/download/v1/links/"


class RepeatedParametersMiddleware:
    """Raise InvalidRequest for a query with two parameters of one name. It must be inside of the exception handlers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["query_string"] and not scope["path"].startswith(_SKIPPED):
            _require_unique(scope["query_string"].decode("latin-1"))
        await self._app(scope, receive, send)


def _require_unique(query: str) -> None:
    try:
        unique_members([(unquote_plus(field.partition("=")[0]), None) for field in query.split("&") if field])
    except RepeatedMember as repeated:
        raise InvalidRequest(f"Send the parameter {repeated.name} once.") from None
