"""Hashing processes as the service has them, for tests that have no service."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from daybreak.access.hashing_process import AT_ONCE, open_channel
from tests.parts.processes import Running, running

_PROGRAM = (
    "import socket, sys; from daybreak.access.hashing_process import answer_questions; "
    "answer_questions(socket.socket(fileno=int(sys.argv[1])), lambda: None)"
)


@contextmanager
def hashing_processes(count: int = AT_ONCE, **options: Any) -> Iterator[tuple[socket.socket, list[Running]]]:
    """The end at which to ask, and the processes. ``options`` go to ``subprocess.Popen``."""
    asking, answering = open_channel()
    with ExitStack() as started, asking:
        with answering:
            handle = answering.fileno()
            command = [sys.executable, "-c", _PROGRAM, str(handle)]
            processes = [
                # They end by themselves when nobody can ask; a test that failed does not wait for it.
                started.enter_context(running(command, stop_signal=signal.SIGKILL, pass_fds=[handle], **options))
                for _ in range(count)
            ]
        yield asking, processes


@pytest.fixture(scope="session")
def hashing_channel() -> Iterator[socket.socket]:
    """Where to ask the hashing processes of this run."""
    with hashing_processes() as (asking, _):
        yield asking


def child_of(pid: int) -> int:
    """The process id of the one that hashes for this one while there is time to spare, 0 when there is none."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(found[0]) if found else 0
