"""Calls ASGI applications without a server."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.web.request_state import Client

LOOPBACK = Client("127.0.0.1", secure=False, loopback=True, proxied=False)
REMOTE = Client("192.0.2.1", secure=False, loopback=False, proxied=False)


@dataclass
class Answer:
    """Response that an application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    starts: int = 0

    def json(self) -> Any:
        return json.loads(self.body)


def http_scope(
    path: str = "/x", headers: Iterable[tuple[str, str]] = (("host", "a.example"),), **changes: Any
) -> Scope:
    """Return the scope of a GET request, with the state that the outer middleware sets."""
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "client": ("192.0.2.1", 1234),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "state": {"client": REMOTE, "request_id": "0123456789abcdef"},
        **changes,
    }


def call(app: ASGIApp, scope: Scope, body: Iterable[bytes] = (b"",)) -> Answer:
    """Send one request. `body` are its pieces. After them the client stays connected and sends nothing."""
    return asyncio.run(acall(app, scope, body))


async def acall(app: ASGIApp, scope: Scope, body: Iterable[bytes] = (b"",)) -> Answer:
    """Same as `call`, inside a running event loop."""
    answer, pieces = Answer(), list(body)

    async def receive() -> Message:
        if not pieces:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.starts += 1
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with the path."""
    body = str(scope["path"]).encode()
    headers = [(b"content-length", b"%d" % len(body)), (b"cache-control", b"public")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
