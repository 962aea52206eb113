"""Programs that tests start, each in a process group with its output in a file."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from tests.parts.waiting import wait_until


class Process(Protocol):
    """The methods of `subprocess.Popen` that tests use."""

    @property
    def pid(self) -> int: ...

    @property
    def args(self) -> object: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


@dataclass(frozen=True)
class Running:
    """Running program."""

    process: Process
    log_file: Path

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of its process group."""
        return self.process.pid

    def log(self) -> str:
        """Return what the program has written to standard output and standard error."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        """Return whether the program is running."""
        return self.process.poll() is None

    def wait_for_log(self, text: str, seconds: float = 60, *, count: int = 1) -> str:
        """Wait until `text` is in the log `count` times, and return the log.

        Raises AssertionError if the program exits first, and TimeoutError after `seconds`. Both show the log.
        """

        def seen() -> str:
            ended = not self.alive()
            log = self.log()
            if log.count(text) >= count:
                return log
            assert not ended, f"{self.process.args!r} ended with {self.process.returncode}:\n{log[-4000:]}"
            return ""

        try:
            return wait_until(seen, seconds, what=f"{text!r} in the log of {self.process.args!r}")
        except TimeoutError as error:
            error.add_note(self.log()[-4000:])
            raise

    def stop(self, signal_number: signal.Signals = signal.SIGTERM, seconds: float = 120) -> int:
        """Send a signal, wait, kill the process group, and return the exit status."""
        if self.alive():
            self.process.send_signal(signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        # The group still has children that outlived the program, or the program if it ignored the signal.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait(60)


def end_with_this_run(command: Sequence[str | Path], signal_name: str = "TERM") -> list[str]:
    """Return the command so that the kernel ends it if the test process dies without cleanup.

    PR_SET_PDEATHSIG applies to the thread that starts the program, so it is used only in the main thread.
    """
    words = [str(word) for word in command]
    setpriv = shutil.which("setpriv")
    if setpriv is None or threading.current_thread() is not threading.main_thread():
        return words
    return [setpriv, "--pdeathsig", signal_name, "--", *words]


def resident_megabytes(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 1e6


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def is_running(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
    **options: Any,
) -> Iterator[Running]:
    """Run `command`, and stop it and its children at the end of the block.

    Args:
        command: Program and arguments.
        log_file: File for the output; a temporary file if None.
        environment: Variables in addition to those of the test process.
        folder: Working directory.
        stop_signal: Signal at the end of the block.
        **options: Further arguments of `subprocess.Popen`.
    """
    with contextlib.ExitStack() as stack:
        if log_file is None:
            log_folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="daybreak-log-"))
            log_file = Path(log_folder) / "output.log"
        with log_file.open("ab") as output:
            process = subprocess.Popen(
                end_with_this_run(command, stop_signal.name.removeprefix("SIG")),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                **options,
            )
        program = Running(process, log_file)
        try:
            yield program
        finally:
            program.stop(stop_signal)
