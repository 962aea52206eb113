"""The path part of `base_url`."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class BasePathMiddleware:
    """Remove the path part of `base_url` from request paths. A proxy may send paths with or without it."""

    def __init__(self, app: ASGIApp, base_path: str) -> None:
        self._app = app
        self._base_path = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        base = self._base_path
        if scope["path"] == base or scope["path"].startswith(base + "/"):
            scope["path"] = scope["path"][len(base) :] or "/"
            scope["raw_path"] = scope.get("raw_path", b"")[len(base) :] or b"/"
        await self._app(scope, receive, send)
