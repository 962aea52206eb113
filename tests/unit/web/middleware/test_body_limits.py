"""Limits of request bodies."""

import asyncio
from collections.abc import Iterable

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from daybreak.domain.errors import RequestError
from daybreak.web.middleware.body_limits import BodyLimitsMiddleware
from tests.unit.web.asgi import acall, http_scope


async def read(pieces: Iterable[bytes], *, length: str = "", deadline_seconds: float = 60.0) -> int:
    """Return the number of bytes that an endpoint reads."""
    received = 0

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal received
        while True:
            message = await receive()
            received += len(message["body"])
            if not message["more_body"]:
                return

    app = BodyLimitsMiddleware(endpoint, limit_bytes=10, deadline_seconds=deadline_seconds)
    headers = [("content-length", length)] if length else []
    await acall(app, http_scope(headers=headers), pieces)
    return received


async def test_body_up_to_the_limit_is_read() -> None:
    assert await read([b"12345", b"67890"]) == 10


@pytest.mark.parametrize(("pieces", "length"), [([b"12345", b"678901"], ""), ([b"1"], "11")])
async def test_larger_body_is_refused(pieces: list[bytes], length: str) -> None:
    with pytest.raises(RequestError) as caught:
        await read(pieces, length=length)
    assert caught.value.code == "body_too_large"


@pytest.mark.parametrize(
    ("header", "reads", "closes"),
    [
        (("content-length", "4"), False, True),
        (("content-length", "4"), True, False),
        (("transfer-encoding", "chunked"), False, True),
        (("content-length", "0"), False, False),
        (("accept", "*/*"), False, False),
    ],
)
async def test_connection_with_an_unread_body_is_closed(header: tuple[str, str], reads: bool, closes: bool) -> None:
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        if reads:
            await receive()
        await Response(status_code=403)(scope, receive, send)

    app = BodyLimitsMiddleware(endpoint, limit_bytes=10, deadline_seconds=60)
    answer = await acall(app, http_scope(headers=[header]), [b"1234"])
    assert answer.headers.get("connection") == ("close" if closes else None)


async def test_slow_body_is_refused_at_the_deadline() -> None:
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            await receive()

    async def receive() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def send(message: Message) -> None: ...

    app = BodyLimitsMiddleware(endpoint, limit_bytes=10, deadline_seconds=0.05)
    with pytest.raises(RequestError) as caught:
        await app(http_scope(), receive, send)
    assert caught.value.code == "request_timeout"


async def test_waiting_for_a_disconnect_has_no_deadline() -> None:
    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.05)

    await acall(BodyLimitsMiddleware(endpoint, limit_bytes=10, deadline_seconds=0.01), http_scope())
