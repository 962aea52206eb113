"""Revoked keys, which are read before requests that could contain a signed value or receive one."""

from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.access.services import Services, apply_revocations

# Without signed values. Below /download/v1, the statement that resolves the credential counts revoked keys.
_SKIPPED = ("/download/v1/", "/dashboard/static/", "/healthz", "/readyz")


class RevokedKeysMiddleware:
    """Apply the revocations of all nodes. Raises Unavailable, so it must be inside of the exception handlers."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(_SKIPPED):
            await self._services.state.aread(partial(apply_revocations, self._services.keyring))
        await self._app(scope, receive, send)
