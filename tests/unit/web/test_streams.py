"""Responses that are generated while they are sent."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.requests import Request
from starlette.types import Message

from daybreak.domain.errors import Unavailable
from daybreak.web.fair_queue import in_thread
from daybreak.web.streams import MAX_STREAMS, Streams, thread_pieces
from tests.unit.web.asgi import acall, http_scope

HEADERS = {"Content-Type": "text/csv; charset=utf-8", "X-A": "b"}


@pytest.mark.parametrize(("method", "content"), [("GET", b"onetwo"), ("HEAD", b"")])
async def test_pieces_are_generated_for_get_only(method: str, content: bytes) -> None:
    generated: list[str] = []

    def pieces() -> Iterator[bytes]:
        for piece in ("one", "two"):
            generated.append(piece)
            yield piece.encode()

    async def record() -> None:
        generated.append("recorded")

    scope = http_scope(method=method)
    response = await Streams().respond(Request(scope), "A", thread_pieces(pieces()), HEADERS, record=record)
    answer = await acall(response, scope)
    assert (answer.body, answer.headers) == (content, {name.lower(): value for name, value in HEADERS.items()})
    assert generated == (["one", "recorded", "two"] if method == "GET" else [])


async def test_many_streams_of_one_account_leave_room_for_others() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    streams, request = Streams(), Request(http_scope())
    started = [await streams.respond(request, "A", pieces(), HEADERS) for _ in range(MAX_STREAMS // 2)]
    with pytest.raises(Unavailable) as caught:
        await streams.respond(request, "A", pieces(), HEADERS)
    assert caught.value.code == "busy"
    # The readers of A read nothing.
    other = await streams.respond(request, "B", pieces(), HEADERS)
    assert (await acall(other, http_scope())).body == b"onetwo"
    for response in started:
        await acall(response, http_scope())
    assert await streams.collect("A", pieces()) == b"onetwo"


async def test_generation_ends_when_the_client_leaves() -> None:
    generated = 0

    def endless() -> Iterator[bytes]:
        nonlocal generated
        while True:
            generated += 1
            yield b"x"

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None: ...

    streams = Streams()
    response = await streams.respond(Request(http_scope()), "A", thread_pieces(endless()), HEADERS)
    await response(http_scope(), receive, send)
    async with asyncio.timeout(60):
        assert await streams.collect("B", thread_pieces(iter([b"x"]))) == b"x"
    assert generated < 100


async def test_canceled_thread_is_awaited() -> None:
    begins, ends = threading.Event(), threading.Event()

    def wait() -> None:
        begins.set()
        ends.wait(60)

    task = asyncio.create_task(in_thread(wait))
    await asyncio.to_thread(begins.wait, 60)
    task.cancel()
    await asyncio.wait((task,), timeout=0.01)
    assert not task.done()
    ends.set()
    with pytest.raises(asyncio.CancelledError):
        await task
