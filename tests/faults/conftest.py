"""Folders for fault tests, a fork server for processes under test, and strace for failing system calls."""

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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from tests.faults.fork_server import CHANGING_CALLS
from tests.parts.presence import absent
from tests.small_platform import create_state, platform_of, write_platform

ROOT = Path(__file__).parents[2]
# strace injects the fault at this call of a process. A run makes far fewer calls of each kind.
FAULT_AT_CALL = 150
CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A migrated state database and a small platform."""
    create_state(tmp_path)
    write_platform(tmp_path / "platform.json", platform_of())
    return tmp_path


@dataclass
class ForkServer:
    """Client of `fork_server.py`: forks processes that have already imported all modules."""

    server: subprocess.Popen[str]
    answers: IO[str]

    def start(self, action: str, folder: Path, **options: Any) -> int:
        """Start a process and return its id."""
        return int(self._request({"start": action, "folder": str(folder), **options})["pid"])

    def wait(self, pid: int) -> int:
        """Wait for a process and return its exit status, or minus the signal that ended it."""
        return int(self._request({"wait": pid})["status"])

    def _request(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(command) + "\n")
        self.server.stdin.flush()
        answer = self.answers.readline()
        assert answer, "the fork server ended"
        return dict(json.loads(answer))


@contextlib.contextmanager
def fork_server_under(prefix: Sequence[str]) -> Iterator[ForkServer]:
    """Run the fork server, with `prefix` before its command line, such as the command of a tracer."""
    client_end, server_end = socket.socketpair()
    server = subprocess.Popen(
        [*prefix, sys.executable, str(Path(__file__).with_name("fork_server.py"))],
        stdin=subprocess.PIPE,
        stdout=server_end.fileno(),
        text=True,
        # Writing byte code would add system calls to the trace.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        start_new_session=True,
    )
    try:
        server_end.close()
        with server, client_end, client_end.makefile() as answers:
            yield ForkServer(server, answers)
            assert server.stdin is not None
            server.stdin.close()
            server.wait(60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with fork_server_under([]) as server:
        yield server


@functools.cache
def tracer() -> str:
    """Return the path of `strace` after a check that it can trace processes."""
    path = shutil.which("strace")
    if path is None:
        absent("strace", "apt-get install strace")
    check = subprocess.run([path, "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False)
    if check.returncode != 0:
        absent("a working strace", "this machine does not permit tracing")
    return path


@contextlib.contextmanager
def traced_fork_server(log: Path, options: Sequence[str]) -> Iterator[ForkServer]:
    """Run a fork server whose processes write their system calls to `log`, one line each: thread, call, arguments
    with paths.
    """
    with fork_server_under([tracer(), "-f", "-qq", "-y", "-s", "16", "-o", str(log), *options]) as server:
        yield server


def calls_of(log: Path, pid: int) -> list[tuple[str, str]]:
    """Return the system calls of a process's main thread as (call, rest of the line), in order."""
    matches = (CALL.match(line) for line in log.read_text(errors="replace").splitlines())
    return [(match[2], match[3]) for match in matches if match and int(match[1]) == pid]


def chosen_calls(counts: Mapping[str, int], kills_per_call: int) -> list[tuple[str, int]]:
    """Return which calls to test as (call, number): of each kind one in the middle, or with more kills also the first,
    the last, and some between.
    """
    if kills_per_call == 1:
        return [(call, (count + 1) // 2) for call, count in counts.items()]
    return [
        (call, number)
        for call, count in counts.items()
        for number in sorted({1, count, *range(1, count + 1, max(1, count // kills_per_call))})
    ]


def copy_folder(folder: Path, target: Path) -> Path:
    """Copy a folder for one test."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("child.log", "trace"))
    return target


def check_kills(
    killing_server: tuple[ForkServer, Path],
    start: Callable[..., int],
    folder: Path,
    check: Callable[[Path], None],
    *,
    expected_calls: Counter[str],
    kills_per_call: int,
) -> None:
    """Start a process on copies of a folder, once to its end, and then killed before calls that change files. `check`
    each copy afterwards. `start` takes the copy and the options of `ForkServer.start`.
    """
    server, log = killing_server
    complete = copy_folder(folder, folder / "complete")
    pid = start(complete)
    assert server.wait(pid) == 0, (complete / "child.log").read_text()
    counts = Counter(call for call, _ in calls_of(log, pid))
    assert max(counts.values()) <= FAULT_AT_CALL
    assert counts >= expected_calls, "the process makes the calls that this test covers"
    check(complete)
    shutil.rmtree(complete)
    killed = 0
    chosen = chosen_calls(counts, kills_per_call)
    for call, number in chosen:
        copy = copy_folder(folder, folder / f"{call}-{number}")
        status = server.wait(start(copy, initial_calls={call: FAULT_AT_CALL - number}))
        # Random ids change the number of database pages written, so a process may end before its last calls.
        assert status in {-signal.SIGKILL, 0}, (call, number, (copy / "child.log").read_text())
        killed += status == -signal.SIGKILL
        try:
            check(copy)
        except Exception as fault:
            fault.add_note(f"The process was killed before {call} number {number}.")
            raise
        shutil.rmtree(copy)
    assert killed > len(chosen) * 0.7


@pytest.fixture(scope="module")
def killing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ForkServer, Path]]:
    """A fork server whose processes are killed at call number FAULT_AT_CALL of any kind, and its trace file."""
    log = tmp_path_factory.mktemp("trace") / "trace"
    options = ["-e", f"trace={','.join(CHANGING_CALLS)}"]
    options += [word for call in CHANGING_CALLS for word in ("-e", f"inject={call}:signal=KILL:when={FAULT_AT_CALL}")]
    with traced_fork_server(log, options) as found:
        yield found, log
