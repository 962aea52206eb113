"""Commands of the service in processes forked from one that has imported it, for tests of anything but the start."""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.parts.processes import Running, end_with_this_run

_ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180


class WarmService:
    """Client of `warm_service.py`. `environment` has further variables that its programs read when they start."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._lock = threading.Lock()
        self._server = subprocess.Popen(
            end_with_this_run([sys.executable, "-m", "tests.parts.warm_service"]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip

    def request(self, command: Mapping[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with self._lock:
            self._server.stdin.write(json.dumps(command) + "\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
        assert answer, "the warm process ended"
        return dict(json.loads(answer))

    def close(self) -> None:
        self._server.communicate()


class ForkedProcess:
    """Process that `warm_service.py` forked, with the methods of `subprocess.Popen`."""

    def __init__(self, server: WarmService, pid: int, arguments: Sequence[str]) -> None:
        self.pid, self.args = pid, arguments
        self.returncode: int | None = None
        self._server = server
        self._ended = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._reap(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._reap(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _reap(self, seconds: float | None) -> int | None:
        """Return the exit status, or None if the process has not ended after `seconds`."""
        if self.returncode is None and select.select([self._ended], [], [], seconds)[0]:
            self.returncode = int(self._server.request({"wait": self.pid})["status"])
            os.close(self._ended)
        return self.returncode


@functools.cache
def _warm_service() -> WarmService:
    server = WarmService()
    atexit.register(server.close)
    return server


def _start(
    arguments: Sequence[str | Path],
    environment: Mapping[str, str] | None,
    folder: Path | None,
    streams: tuple[Path | str, Path, Path],
    module: str | None,
    server: WarmService | None = None,
) -> ForkedProcess:
    server, words = server or _warm_service(), [str(argument) for argument in arguments]
    command = {
        "start": words, "module": module, "environment": {**os.environ, **(environment or {})},
        "folder": str(folder or Path.cwd()),
        **{name: str(path) for name, path in zip(("stdin", "stdout", "stderr"), streams, strict=True)},
    }  # fmt: skip
    return ForkedProcess(server, server.request(command)["pid"], words)


def run_warm(
    arguments: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    module: str | None = None,
    typed: str = "",
    server: WarmService | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return its output.

    The arguments are those of `running_warm`, its input, and a server other than that of all tests.
    """
    with tempfile.TemporaryDirectory(prefix="daybreak-streams-") as stream_folder:
        stdin, stdout, stderr = (Path(stream_folder) / name for name in ("stdin", "stdout", "stderr"))
        stdin.write_text(typed, "utf-8")
        process = _start(arguments, environment, folder, (stdin, stdout, stderr), module, server)
        try:
            status = process.wait(PATIENCE_SECONDS)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        outputs = (path.read_text("utf-8") for path in (stdout, stderr))
        return subprocess.CompletedProcess(process.args, status, *outputs)


def daybreakd(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of `daybreakd` to its end, and return its output."""
    return run_warm(arguments, environment=environment, folder=folder)


def printed_by(folder: Path, *arguments: str) -> str:
    """Run a command of `daybreakd` with the configuration in a folder. Return what it prints."""
    done = daybreakd(*arguments, "--config", folder / "daybreak.toml")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextlib.contextmanager
def running_warm(
    arguments: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    module: str | None = None,
) -> Iterator[Running]:
    """Run `daybreakd` with the arguments, and stop it and its children at the end of the block.

    Args:
        arguments: Command and its options.
        environment: Variables in addition to those of the test process. Those that Python reads when it starts have
            no effect.
        folder: Working directory.
        module: Module with `main` to run instead of `daybreakd`.
    """
    with tempfile.TemporaryDirectory(prefix="daybreak-log-") as log_folder:
        log_file = Path(log_folder) / "output.log"
        log_file.touch()
        streams = (os.devnull, log_file, log_file)
        program = Running(_start(arguments, environment, folder, streams, module), log_file)
        try:
            yield program
        finally:
            program.stop(signal.SIGTERM)
