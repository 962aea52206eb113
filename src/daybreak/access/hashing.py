"""Argon2 off the event loop: asked of the hashing processes, with a bound on how many wait and how long."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import msgspec

from daybreak.access.hashing_process import Question
from daybreak.credentials import passwords
from daybreak.domain.errors import Unavailable

_ANSWER_BYTES = 1024
_ANSWERS: msgspec.msgpack.Decoder[bool | str] = msgspec.msgpack.Decoder(bool | str)
# A hashing process that dies leaves its question to the next; whoever outlives two of them is not asked a third time.
_TRIES = 2


class PasswordHashing:
    """Hashes and verifies passwords, without a thread of this process."""

    def __init__(self, channel: socket.socket, *, places: int = 18, wait_seconds: float = 10.0) -> None:
        """`channel` is the asking end of `hashing_process.open_channel`. `places`: how many of this process's questions
        may be open at once."""
        self._channel = channel
        self._places = places
        self._wait_seconds = wait_seconds
        self._pending = 0

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether the password is the hash's; None costs the same and is never true. Raises
        Unavailable(busy) when too many wait already, or for too long."""
        known = password_hash if password_hash is not None else passwords.DUMMY_HASH
        good = await self._answer(Question.about(password, known))
        return good is True and password_hash is not None

    async def hash(self, password: str) -> str:
        """A new hash. Raises Unavailable(busy)."""
        made = await self._answer(Question.about(password, None))
        assert isinstance(made, str)
        return made

    async def _answer(self, asked: Question) -> bool | str:
        question = msgspec.msgpack.encode(asked)
        if self._pending >= self._places:
            raise _busy()
        self._pending += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                for _ in range(_TRIES):
                    answer = await self._ask(question)
                    if answer:
                        return _ANSWERS.decode(answer)
        except TimeoutError:
            # From None: nobody's fault that a log need tell.
            raise _busy() from None
        finally:
            self._pending -= 1
        raise _busy()

    async def _ask(self, question: bytes) -> bytes:
        """The answer; nothing when the process that had the question is gone."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Whoever leaves before the answer closes: the question is then dropped unhashed.
        with ours:
            ours.setblocking(False)
            with theirs:
                ours.send(question)
                try:
                    socket.send_fds(self._channel, [b"?"], [theirs.fileno()])
                except BlockingIOError:
                    # All processes together have as many open as the kernel keeps.
                    raise _busy() from None
            with suppress(ConnectionResetError):
                return await asyncio.get_running_loop().sock_recv(ours, _ANSWER_BYTES)
        return b""


def _busy() -> Unavailable:
    return Unavailable(
        "Too many people are signing in at this moment. Try again in a few seconds.",
        code="busy",
        retry_after_seconds=3,
    )
