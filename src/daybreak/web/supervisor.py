"""The service process: web workers, the processes that hash for them, and one builder, each its own process, each
replaced when it dies.

The supervisor does little on purpose: it forks, waits, and passes one signal on. It loads what the
workers need before it forks, so that a worker is ready in a moment, and holds the listening
sockets, so that no connection is lost while one is replaced.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import structlog

_log = structlog.get_logger("daybreak.supervisor")
_TICK_SECONDS = 0.5
_LIVED_LONG_SECONDS = 20.0
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 15.0
_HUNG_AFTER_SECONDS = 60.0
# What running transfers get at the end.
_GRACE_SECONDS = 25.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

# Of prctl(2).
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Duty:
    """What one process has to do: `run(beat)`, until SIGTERM or until its sockets tell the end.

    `sockets` are held by the supervisor, and besides in those processes whose they are. A process that `beats` calls
    `beat` when it is ready and every second or so, and is replaced when it is silent for too long; the service is ready
    when all of these are.
    """

    name: str
    run: Callable[[Callable[[], None]], None]
    sockets: tuple[socket.socket, ...] = ()
    beats: bool = True


@dataclass(slots=True)
class _Child:
    """One process that should run."""

    duty: Duty
    pid: int = 0
    started: float = 0.0
    pipe: int = -1
    beat: float | None = None
    failures: int = 0
    start_at: float = 0.0


class Supervisor:
    """Runs the children until SIGTERM or SIGINT. One use, in the main thread."""

    def __init__(
        self,
        duties: Sequence[Duty],
        *,
        preload: Callable[[], object] | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """A process for each duty. `preload` imports what the processes need, once for all of them; it must start no
        thread. `on_ready` is called when all are ready.
        """
        self._preload = preload
        self._on_ready = on_ready
        self._children = [_Child(duty) for duty in duties]
        self._selector = selectors.DefaultSelector()
        self._stop = False
        self._ready = False

    def run(self) -> int:
        """The exit status: 0 after a stop that was asked for, 1 when the service never got ready."""
        with _metrics_folder():
            if self._preload is not None:
                self._preload()
            wake, waker = socket.socketpair()
            wake.setblocking(False)
            waker.setblocking(False)
            with wake, waker, self._selector:
                self._selector.register(wake, selectors.EVENT_READ)
                previous = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
                signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
                try:
                    status = self._watch(wake)
                    self._end_children()
                finally:
                    signal.set_wakeup_fd(-1)
                    for number, handler in previous.items():
                        signal.signal(number, handler)
        return status

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in {signal.SIGTERM, signal.SIGINT}:
            self._stop = True

    def _watch(self, wake: socket.socket) -> int:
        while not self._stop:
            now = time.monotonic()
            for child in self._children:
                if not child.pid and child.start_at <= now:
                    self._start(child)
            due = min((child.start_at for child in self._children if not child.pid), default=now + _TICK_SECONDS)
            for key, _ in self._selector.select(min(_TICK_SECONDS, max(0.0, due - now))):
                if key.data is None:
                    with suppress(BlockingIOError):
                        wake.recv(4096)
                else:
                    self._hear(key.data)
            self._reap()
            self._replace_hung()
            if not self._ready and any(
                child.duty.beats and child.failures and child.beat is None for child in self._children
            ):
                _log.error("start_failed", hint="the lines above say why")
                return 1
        return 0

    def _start(self, child: _Child) -> None:
        """Starts a process; later when the machine is short of what one takes, as what runs must go on."""
        try:
            self._fork(child)
        except OSError as shortage:
            child.failures += 1
            child.start_at = time.monotonic() + _wait_seconds(child.failures)
            _log.error("not_started", process=child.duty.name, reason=shortage.strerror)

    def _fork(self, child: _Child) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        supervisor = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if pid == 0:
            self._be(child, writing, supervisor)
        os.close(writing)
        child.pid, child.pipe, child.beat = pid, reading, None
        child.started = time.monotonic()
        self._selector.register(reading, selectors.EVENT_READ, child)
        _log.info("started", process=child.duty.name, pid=pid)

    def _be(self, child: _Child, pipe: int, supervisor: int) -> None:
        """The child's life. Never returns."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            # Ctrl-C goes to the supervisor alone, which passes one signal on.
            os.setpgid(0, 0)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            self._selector.close()
            for other in self._children:
                for held in other.duty.sockets:
                    if held not in child.duty.sockets:
                        held.close()
                if other.pipe >= 0 and other is not child:
                    with suppress(OSError):
                        os.close(other.pipe)
            _end_with(supervisor)

            def beat() -> None:
                with suppress(BlockingIOError, BrokenPipeError):
                    os.write(pipe, b".")

            child.duty.run(beat)
            status = 0
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException as fault:  # noqa: BLE001 - a process ends here; the cause must be in the log
            _log.error("crashed", process=child.duty.name, trace="".join(traceback.format_exception(fault)))
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _hear(self, child: _Child) -> None:
        with suppress(BlockingIOError):
            if os.read(child.pipe, 4096):
                first = child.beat is None
                child.beat = time.monotonic()
                if first:
                    self._announce()
            else:
                self._forget_pipe(child)

    def _announce(self) -> None:
        if not self._ready and all(child.beat is not None for child in self._children if child.duty.beats):
            self._ready = True
            _log.info("ready")
            if self._on_ready is not None:
                self._on_ready()

    def _forget_pipe(self, child: _Child) -> None:
        if child.pipe >= 0:
            self._selector.unregister(child.pipe)
            os.close(child.pipe)
            child.pipe = -1

    def _reap(self) -> None:
        for child in self._children:
            if not child.pid:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if not pid:
                continue
            now = time.monotonic()
            if child.pipe >= 0:
                self._hear(child)
            self._forget_pipe(child)
            lived = now - child.started
            child.failures = 1 if lived > _LIVED_LONG_SECONDS else child.failures + 1
            wait = 0.0 if lived > _LIVED_LONG_SECONDS else _wait_seconds(child.failures)
            _forget_metrics(child.pid)
            child.pid, child.start_at = 0, now + wait
            if not self._stop:
                _log.warning(
                    "ended",
                    process=child.duty.name,
                    pid=pid,
                    status=os.waitstatus_to_exitcode(status),
                    starts_again_in_seconds=round(wait, 1),
                )

    def _replace_hung(self) -> None:
        limit = time.monotonic() - _HUNG_AFTER_SECONDS
        for child in self._children:
            heard = child.beat if child.beat is not None else child.started
            if child.pid and child.duty.beats and heard < limit:
                _log.error("hung", process=child.duty.name, pid=child.pid)
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
                child.beat = time.monotonic()

    def _end_children(self) -> None:
        """One signal to each, then patience, then the end."""
        _log.info("stopping", grace_seconds=_GRACE_SECONDS)
        self._stop = True
        for child in self._children:
            for held in child.duty.sockets:
                held.close()
            if child.pid:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        while any(child.pid for child in self._children) and time.monotonic() < deadline:
            for key, _ in self._selector.select(0.05):
                if isinstance(key.data, _Child):
                    self._hear(key.data)
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    with suppress(BlockingIOError):
                        key.fileobj.recv(4096)
            self._reap()
        for child in self._children:
            if child.pid:
                _log.warning("cut", process=child.duty.name, pid=child.pid)
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
        for child in self._children:
            if child.pid:
                os.waitpid(child.pid, 0)
                child.pid = 0
            self._forget_pipe(child)
        _log.info("stopped")


def _wait_seconds(failures: int) -> float:
    """How long a process that failed so often in a row has to wait for its next start."""
    # Bounded before it is a power: one that fails for hours would go beyond all numbers.
    return min(_FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 10), _LONGEST_WAIT_SECONDS)


@contextmanager
def _metrics_folder() -> Iterator[None]:
    """Where workers keep their counters, in memory where the system has a place for that."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it, for this user alone
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="daybreak-metrics-", dir=place, ignore_cleanup_errors=True) as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


def _end_with(supervisor: int) -> None:
    """The kernel ends this process in good order when its supervisor dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        os.kill(os.getpid(), signal.SIGTERM)


def _forget_metrics(pid: int) -> None:
    """A dead worker has no open requests; its counters still count."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid)  # type: ignore[no-untyped-call]
