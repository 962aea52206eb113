"""Programs that tests start: each in its own process group, its output kept, ended by its id and never by a name."""

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
from typing import Any

from tests.parts.waiting import wait_until


@dataclass(frozen=True)
class Running:
    """A started program."""

    process: "subprocess.Popen[bytes]"
    log_file: Path

    @property
    def pid(self) -> int:
        """The id of the program, which leads its own process group."""
        return self.process.pid

    def log(self) -> str:
        """Everything the program has written so far, to either output."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        """Say whether the program still runs."""
        return self.process.poll() is None

    def wait_for_log(self, text: str, seconds: float = 60) -> str:
        """Wait until ``text`` is in the log, and return the log. ``AssertionError`` when the program ends before."""

        def seen() -> str:
            ended = not self.alive()
            log = self.log()
            if text in log:
                return log
            assert not ended, f"{self.process.args!r} ended with {self.process.returncode}:\n{log[-4000:]}"
            return ""

        return wait_until(seen, seconds, what=f"{text!r} in the log of {self.process.args!r}")

    def stop(self, sign: signal.Signals = signal.SIGTERM, seconds: float = 30) -> int:
        """Send ``sign`` to the program, wait, end its whole group if it does not obey, and return its exit status."""
        if self.alive():
            self.process.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        # Children that outlived their parent (or the program itself, if it did not obey) go with the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait(60)


def end_with_this_run(command: Sequence[str | Path], sign: str = "TERM") -> list[str]:
    """Return the command so that the kernel ends it when the test run dies without cleaning up.

    The kernel watches the thread that started the program, so only the main thread's are marked.
    """
    words = [str(word) for word in command]
    setpriv = shutil.which("setpriv")
    if setpriv is None or threading.current_thread() is not threading.main_thread():
        return words
    return [setpriv, "--pdeathsig", sign, "--", *words]


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
    """Start ``command``, hand it out while it runs, and end it and its children on the way out.

    ``environment`` is added to the one of the test run; ``options`` go to ``subprocess.Popen``. Output goes to
    ``log_file``, or to a temporary file that goes when the block is left.
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
