"""Asking for a hash: how many wait, how long, and what becomes of a question whose process dies."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.access.hashing import PasswordHashing
from daybreak.access.hashing_process import Question, open_channel
from daybreak.credentials import passwords
from daybreak.domain.errors import Unavailable


class Listener:
    """Stands in for the hashing processes: takes questions, and answers as it is told to."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel

    async def take(self) -> tuple[Question, socket.socket]:
        """The next question, and where to answer."""
        _, (handle,), _, _ = await asyncio.to_thread(socket.recv_fds, self.channel, 1, 1)
        asker = socket.socket(fileno=handle)
        return msgspec.msgpack.decode(asker.recv(1 << 17), type=Question), asker

    async def answer(self, answer: bool | str) -> Question:
        """Answers the next question."""
        question, asker = await self.take()
        with asker:
            asker.send(msgspec.msgpack.encode(answer))
        return question


@pytest.fixture
def asking_end() -> Iterator[tuple[socket.socket, Listener]]:
    asking, answering = open_channel()
    with asking, answering:
        answering.settimeout(60)
        yield asking, Listener(answering)


@pytest.fixture
def asking(asking_end: tuple[socket.socket, Listener]) -> socket.socket:
    return asking_end[0]


@pytest.fixture
def listener(asking_end: tuple[socket.socket, Listener]) -> Listener:
    return asking_end[1]


def test_no_hash_at_all_is_never_right_and_costs_a_verification(asking: socket.socket, listener: Listener) -> None:
    hashing = PasswordHashing(asking)

    async def story() -> None:
        unknown = asyncio.create_task(hashing.verify(None, "whatever"))
        assert await listener.answer(True) == Question(b"whatever", passwords.DUMMY_HASH)
        assert await unknown is False
        known = asyncio.create_task(hashing.verify("some hash", "whatever"))
        assert await listener.answer(True) == Question(b"whatever", "some hash")
        assert await known is True

    asyncio.run(story())
    assert not passwords.needs_rehash(passwords.DUMMY_HASH), "it costs what a hash of today costs"


def test_an_empty_hash_is_verified_and_no_new_one_made(asking: socket.socket, listener: Listener) -> None:
    hashing = PasswordHashing(asking)

    async def story() -> None:
        empty = asyncio.create_task(hashing.verify("", "p"))
        assert (await listener.answer(False)).known == ""
        assert await empty is False
        new = asyncio.create_task(hashing.hash("p"))
        assert (await listener.answer("$hash")).known is None
        assert await new == "$hash"

    asyncio.run(story())


@given(st.text(st.characters(exclude_categories=())), st.none() | st.text())
def test_questions_arrive_as_they_were_asked(password: str, known: str | None) -> None:
    asked = Question.about(password, known)
    arrived = msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=Question)
    assert arrived == asked
    assert arrived.password.decode("utf-8", "surrogatepass") == password


def test_a_full_queue_says_so_at_once_and_whoever_leaves_makes_place(asking: socket.socket, listener: Listener) -> None:
    hashing = PasswordHashing(asking, places=5)

    async def story() -> None:
        waiting = [asyncio.create_task(hashing.verify("h", str(number))) for number in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as told:
            await hashing.verify("h", "p")
        assert (told.value.code, told.value.retry_after_seconds) == ("busy", 3)
        waiting[4].cancel()
        await asyncio.wait([waiting[4]])
        waiting[4] = asyncio.create_task(hashing.verify("h", "5"))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await hashing.verify("h", "p")
        questions = [await listener.take() for _ in range(6)]
        assert [question.password for question, _ in questions] == [b"0", b"1", b"2", b"3", b"4", b"5"]
        for question, asker in questions:
            with asker:
                if question.password == b"4":
                    assert asker.recv(1) == b"", "gone, for the process to see"
                else:
                    asker.send(msgspec.msgpack.encode(True))
        assert await asyncio.gather(*waiting) == [True] * 5

    asyncio.run(story())


def test_a_question_whose_process_dies_is_asked_once_more(asking: socket.socket, listener: Listener) -> None:
    hashing = PasswordHashing(asking)

    async def story() -> None:
        once = asyncio.create_task(hashing.verify("h", "p"))
        first, asker = await listener.take()
        asker.close()
        assert await listener.answer(True) == first
        assert await once is True
        twice = asyncio.create_task(hashing.verify("h", "p"))
        (await listener.take())[1].close()
        # Before it has read the question.
        _, (handle,), _, _ = await asyncio.to_thread(socket.recv_fds, listener.channel, 1, 1)
        os.close(handle)
        with pytest.raises(Unavailable, match="Try again"):
            await twice

    asyncio.run(story())


def test_nobody_waits_for_ever(asking: socket.socket, listener: Listener) -> None:
    hashing = PasswordHashing(asking, places=1, wait_seconds=0.05)

    async def story() -> None:
        for _ in range(2):
            with pytest.raises(Unavailable) as told:
                await asyncio.wait_for(hashing.verify("h", "p"), 60)
            assert told.value.code == "busy"

    asyncio.run(story())


def test_more_questions_than_the_kernel_keeps_are_told_to_come_back(asking: socket.socket, listener: Listener) -> None:
    hashing = PasswordHashing(asking, places=1000)

    async def story() -> list[bool | BaseException]:
        asked = asyncio.gather(*(hashing.verify("h", "p") for _ in range(400)), return_exceptions=True)
        for _ in range(2):
            await asyncio.sleep(0)
        taken = 0
        listener.channel.setblocking(False)
        while True:
            try:
                _, (handle,), _, _ = socket.recv_fds(listener.channel, 1, 1)
            except BlockingIOError:
                break
            with socket.socket(fileno=handle) as asker:
                asker.recv(1 << 17)
                asker.send(msgspec.msgpack.encode(True))
            taken += 1
        answers = await asked
        assert answers.count(True) == taken > 100
        return answers

    assert {type(answer) for answer in asyncio.run(story())} == {bool, Unavailable}
