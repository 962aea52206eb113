"""Responses that are generated while they are sent."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.types import Message

from daybreak.web.http.streaming import streamed


@pytest.mark.parametrize(("method", "content", "expected"), [("GET", b"onetwo", ["one", "two"]), ("HEAD", b"", [])])
def test_pieces_are_generated_for_get_only(method: str, content: bytes, expected: list[str]) -> None:
    generated: list[str] = []
    sent: list[Message] = []

    def pieces() -> Iterator[bytes]:
        for piece in ("one", "two"):
            generated.append(piece)
            yield piece.encode()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("the client sends nothing")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": "/", "headers": []}
    answer = streamed(Request(scope), pieces(), media_type="text/csv; charset=utf-8", headers={"X-A": "b"})
    asyncio.run(answer(scope, receive, send))
    assert (b"".join(message.get("body", b"") for message in sent), generated) == (content, expected)
    assert dict(sent[0]["headers"]) == {b"x-a": b"b", b"content-type": b"text/csv; charset=utf-8"}
