"""A process that hashes what the web workers ask, one password at a time: as many of them as may hash at once.

More at once is slower in total on two cores and would take the processor from downloads. The processes take questions
from one channel, in turn. It is a pair of sockets without a name: who has not inherited it cannot ask, nor listen.

A hash is twenty milliseconds of a core, and a thread that wakes up waits up to a whole tick, four of them, for one that
has a share of its own, however nice. Only from the kernel's idle class it takes the core at once. So each of these
processes has a child in that class, which hashes while there is time to spare. A machine that is busy with
something else has none, and nobody gets out of the class again: then the process does the hash itself.

A thread that wakes up just after its last turn may still owe a little time, is passed over for that instant, and would
then wait for the tick as well. While its child hashes, a process therefore wakes up more often than the clock ticks:
each time the kernel chooses anew who runs.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
import structlog

from daybreak.credentials import passwords

AT_ONCE = 2
_log = structlog.get_logger("daybreak.hashing")
_QUESTION_BYTES = 1 << 17
_BEAT_SECONDS = 1.0
_WAKE_SECONDS = 0.0005
# Before the builder, which has hours.
_NICE = 5
# A child that needs that many times as long as a hash takes has no time to spare.
_PATIENCE = 6
# Before a child that came too late, or ended, is relied upon again: each trial costs a login that patience.
_PAUSE_SECONDS = 5.0


class Question(msgspec.Struct, frozen=True, array_like=True):
    """What is asked over the channel: whether the password is that of the hash `known`, or, when that is None, for a
    new hash. The password in UTF-8, lone surrogates as they are.
    """

    password: bytes
    known: str | None

    @classmethod
    def about(cls, password: str, known: str | None) -> Question:
        return cls(password.encode("utf-8", "surrogatepass"), known)

    def answer(self) -> bool | str:
        """Takes 20 to 30 ms of a core."""
        password = self.password.decode("utf-8", "surrogatepass")
        return passwords.hash_password(password) if self.known is None else passwords.verify(self.known, password)


def open_channel() -> tuple[socket.socket, socket.socket]:
    """The end at which to ask, for web workers, and the end at which to answer, for these processes. What goes over it
    is one end of a fresh pair of sockets for each question."""
    asking, answering = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking.setblocking(False)
    return asking, answering


def answer_questions(channel: socket.socket, beat: Callable[[], None]) -> None:
    """Answers until nobody can ask any more. `beat` is called every second or so, and around each hash."""
    # Whoever asks ends before: a login that is under way when the service stops gets its answer.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Nobody waits for a child that ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Added to what the service was started with: only root may ask for less.
    os.nice(_NICE)
    channel.settimeout(_BEAT_SECONDS)
    spare_time = _SpareTime(channel, _PATIENCE * _seconds_of_a_hash())
    while True:
        beat()
        spare_time.keep()
        try:
            said, handles, _, _ = socket.recv_fds(channel, 1, 1)
        except TimeoutError:
            continue
        if not said:
            return
        for handle in handles:
            with socket.socket(fileno=handle) as asker, suppress(ConnectionError):
                question = asker.recv(_QUESTION_BYTES)
                if not _hung_up(asker):
                    asker.send(spare_time.answer(question) or _answer(question))


class _SpareTime:
    """A child of this process in the idle class."""

    def __init__(self, channel: socket.socket, patience_seconds: float) -> None:
        self._channel = channel
        self._patience_seconds = patience_seconds
        self._child: socket.socket | None = None
        self._behind = False
        self._pause_until = 0.0

    def keep(self) -> None:
        """Sees to it that there is a child. To be called while no asker is connected: a child would hold its socket."""
        if self._child is not None:
            # What it says late, or that it is gone.
            self._said(0.0)
        elif time.monotonic() >= self._pause_until:
            self._child, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if os.fork() == 0:
                _hash_at_spare_time(its_end, self._channel, self._child)
            its_end.close()

    def answer(self, question: bytes) -> bytes | None:
        """The answer; None when there is no time to spare. A hash that comes too late for its asker is still
        finished, in what time nobody else wants; nothing is asked until then, nor soon after.
        """
        if self._child is None or self._behind or time.monotonic() < self._pause_until:
            return None
        try:
            self._child.send(question)
        except ConnectionError:
            self._lost()
            return None
        self._behind = True
        answer = self._said(self._patience_seconds)
        if answer is None:
            self._pause_until = time.monotonic() + _PAUSE_SECONDS
        return answer

    def _said(self, seconds: float) -> bytes | None:
        assert self._child is not None
        until = time.monotonic() + seconds
        while not select.select([self._child], [], [], min(seconds, _WAKE_SECONDS))[0]:
            if time.monotonic() >= until:
                return None
        try:
            answer = self._child.recv(_QUESTION_BYTES)
        except ConnectionError:
            answer = b""
        if not answer:
            self._lost()
            return None
        self._behind = False
        return answer

    def _lost(self) -> None:
        assert self._child is not None
        _log.warning("child_ended")
        self._child.close()
        self._child = None
        self._behind = False
        self._pause_until = time.monotonic() + _PAUSE_SECONDS


def _hash_at_spare_time(channel: socket.socket, *others: socket.socket) -> None:
    """The child's life. Never returns."""
    try:
        for other in others:
            other.close()
        if sys.platform == "linux":
            # Where it is refused, the child is as nice as its parent.
            with suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with suppress(ConnectionError):
            while question := channel.recv(_QUESTION_BYTES):
                channel.send(_answer(question))
    finally:
        os._exit(0)


def _answer(question: bytes) -> bytes:
    return msgspec.msgpack.encode(msgspec.msgpack.decode(question, type=Question).answer())


def _hung_up(asker: socket.socket) -> bool:
    try:
        return not asker.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _seconds_of_a_hash() -> float:
    """On this machine, without what others take of its time."""
    before = time.process_time()
    passwords.verify(passwords.DUMMY_HASH, "")
    return time.process_time() - before
