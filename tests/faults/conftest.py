"""Folders for fault tests, processes to torment, and the tracer that makes system calls fail."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from daybreak.state.migrate import migrate
from tests.parts.presence import absent
from tests.small_platform import platform_of, state_url, write_platform

ROOT = Path(__file__).parents[2]
CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")


@pytest.fixture(scope="session")
def empty_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite state database to copy."""
    folder = tmp_path_factory.mktemp("state")
    migrate(state_url(folder))
    return folder / "state.db"


@pytest.fixture
def folder(tmp_path: Path, empty_state: Path) -> Path:
    """A migrated state database and a small platform."""
    shutil.copy(empty_state, tmp_path / "state.db")
    write_platform(tmp_path / "platform.json", platform_of())
    return tmp_path


@dataclass
class Victims:
    """Processes forked from one that has everything loaded."""

    server: subprocess.Popen[str]
    answers: IO[str]

    def start(self, what: str, folder: Path, **order: Any) -> int:
        """Starts a process; its id."""
        return int(self._ask({"start": what, "folder": str(folder), **order})["pid"])

    def wait(self, pid: int) -> int:
        """Waits for a process: its exit status, or minus the signal that ended it."""
        return int(self._ask({"wait": pid})["status"])

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        answer = self.answers.readline()
        assert answer, "the fork server ended"
        return dict(json.loads(answer))


@contextlib.contextmanager
def victims_under(words: Sequence[str]) -> Iterator[Victims]:
    ours, theirs = socket.socketpair()
    server = subprocess.Popen(
        [*words, sys.executable, str(Path(__file__).with_name("fork_server.py"))],
        stdin=subprocess.PIPE,
        stdout=theirs.fileno(),
        text=True,
        # Byte code that is written on the way would be system calls of no interest here.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        start_new_session=True,
    )
    try:
        theirs.close()
        with server, ours, ours.makefile() as answers:
            yield Victims(server, answers)
            assert server.stdin is not None
            server.stdin.close()
            server.wait(60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    with victims_under([]) as found:
        yield found


@functools.cache
def tracer() -> str:
    """`strace`, once it is known to work here."""
    path = shutil.which("strace")
    if path is None:
        absent("strace", "apt-get install strace")
    tried = subprocess.run([path, "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        absent("a working strace", "this machine lets nobody trace processes")
    return path


@contextlib.contextmanager
def traced_victims(log: Path, options: Sequence[str]) -> Iterator[Victims]:
    """Victims whose system calls are in `log`, one line each: thread, call, arguments with paths."""
    with victims_under([tracer(), "-f", "-qq", "-y", "-s", "16", "-o", str(log), *options]) as found:
        yield found


def calls_of(log: Path, pid: int) -> list[tuple[str, str]]:
    """A process's own system calls (not its other threads') as (call, the rest of its line), in order."""
    found = (CALL.match(line) for line in log.read_text(errors="replace").splitlines())
    return [(match[2], match[3]) for match in found if match and int(match[1]) == pid]
