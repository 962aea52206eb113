"""The builder as a child process of `daybreakd serve`."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import structlog

from daybreak.web.server import GRACE_SECONDS

_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 60.0
# A process that ran at least this long restarts without a pause.
_STABLE_SECONDS = 60.0
_log = structlog.get_logger("daybreak.serve")


class BuilderProcess:
    """Runs `daybreakd builder`, and restarts it with increasing pauses when it ends.

    It uses `posix_spawn`, because `subprocess` waits until the other end of a pipe is closed. Web workers that are
    forked at that moment would keep it open.
    """

    def __init__(self, config: Path | None) -> None:
        self._command = [sys.executable, "-m", "daybreak.cli.main", "builder", "--stop-with", str(os.getpid())]
        if config is not None:
            self._command += ["--config", str(config)]
        self._stopping = threading.Event()
        self._pid: int | None = None
        self._started = 0.0
        # Guards the process id. Signal handlers call `stop`, and may interrupt each other.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._supervise, name="builder", daemon=True)

    def supervise(self) -> None:
        """Start the thread that restarts the process. Call it once, after `start` and before `wait`."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the process to stop after its current file. Returns immediately."""
        self._signal(signal.SIGTERM)

    def wait(self) -> None:
        """Wait for the end of a process that was asked to stop, and kill it when it takes too long."""
        if not self._stopping.is_set():
            self.stop()
        self._thread.join(GRACE_SECONDS)
        if self._thread.is_alive():
            _log.warning("cut", process="builder", pid=self._pid)
            self._signal(signal.SIGKILL)
            self._thread.join()

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            self._stopping.set()
            if self._pid is not None:
                os.kill(self._pid, number)

    def _supervise(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            status = self._wait_for_exit()
            if self._stopping.is_set():
                return
            if time.monotonic() - self._started >= _STABLE_SECONDS:
                pause = 0.0
            _log.warning("ended", process="builder", status=status, starts_again_in_seconds=pause)
            if self._stopping.wait(pause):
                return
            pause = min(max(2 * pause, _FIRST_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
            self.start()

    def start(self) -> None:
        """Start the process, unless it was asked to stop."""
        with self._lock:
            if self._stopping.is_set():
                return
            try:
                # In a separate process group: Ctrl-C reaches only the main process, which forwards one signal.
                self._pid = os.posix_spawn(sys.executable, self._command, os.environ, setpgroup=0)
            except OSError as error:
                _log.error("not_started", process="builder", reason=error.strerror)
                return
        self._started = time.monotonic()
        _log.info("started", process="builder", pid=self._pid)

    def _wait_for_exit(self) -> int | None:
        """Return the exit status, None when the process did not start."""
        pid = self._pid
        if pid is None:
            return None
        # The process id stays reserved until the process is reaped, so `stop` cannot signal another process.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._pid = None
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
