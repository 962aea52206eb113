"""One thread that writes to SQLite for the event loop, many transactions to one commit.

A commit waits for the disk, and SQLite takes one writer at a time. What queues up during a commit
is therefore done in the next one, together: each piece under a savepoint of its own, each answered
only when the common commit is on the disk.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa

from daybreak.domain.errors import DaybreakError
from daybreak.ports.state import Stores
from daybreak.state.failures import busy, unavailable
from daybreak.state.sqlite_file import in_transaction
from daybreak.state.stores import SqlStores

T = TypeVar("T")

_MOST_WAITING = 2_000
_MOST_TOGETHER = 64
# Beyond the wait for the file itself.
_SPARE_SECONDS = 3.0


@dataclass(slots=True)
class _Job:
    work: Callable[[Stores], Any]
    done: Future[Any] = field(default_factory=Future)
    queued_at: float = field(default_factory=time.monotonic)


class WriteQueue:
    """Takes work from any thread and runs it in its own; started by the first piece of work."""

    def __init__(self, engine: sa.Engine, wait_seconds: float) -> None:
        self._engine = engine
        self._most_seconds_queued = wait_seconds + _SPARE_SECONDS
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, work: Callable[[Stores], T]) -> Future[T]:
        """The future of what `work` returns, set once it is on the disk. Raises Unavailable when
        too much is waiting."""
        if self._closed or self._jobs.qsize() >= _MOST_WAITING:
            raise busy()
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="state-writer", daemon=True)
                    self._thread.start()
        job = _Job(work)
        self._jobs.put(job)
        return job.done

    def close(self) -> None:
        """Finishes what is queued and ends the thread."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(timeout=30)
            self._thread = None

    def _serve(self) -> None:
        while True:
            first = self._jobs.get()
            if first is None:
                return
            jobs, last = self._together(first)
            self._write(jobs)
            if last:
                return

    def _together(self, first: _Job) -> tuple[list[_Job], bool]:
        """The job and what waits behind it; whether the queue ends there."""
        jobs, last = [first], False
        while len(jobs) < _MOST_TOGETHER:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                last = True
                break
            jobs.append(job)
        return jobs, last

    def _write(self, jobs: list[_Job]) -> None:
        ready = [job for job in jobs if job.done.set_running_or_notify_cancel() and not self._expired(job)]
        if len(ready) > 1 and self._write_together(ready):
            return
        for job in ready:
            if not self._expired(job):
                self._write_alone(job)

    def _expired(self, job: _Job) -> bool:
        """Answers a job that has waited too long; whether it had."""
        if time.monotonic() - job.queued_at <= self._most_seconds_queued:
            return False
        job.done.set_exception(unavailable())
        return True

    def _write_alone(self, job: _Job) -> None:
        try:
            with self._engine.connect() as connection:
                result = in_transaction(connection, "BEGIN IMMEDIATE", lambda: job.work(SqlStores(connection)))
        except BaseException as error:  # noqa: BLE001 - handed to the one who waits, as any executor does
            job.done.set_exception(error)
        else:
            job.done.set_result(result)

    def _write_together(self, jobs: list[_Job]) -> bool:
        """Does all jobs in one transaction; False when one of them broke it and nothing was
        written, so that each is to be done alone."""
        outcomes: list[tuple[Any, DaybreakError | None]] = []
        begun = False

        def all_jobs(connection: sa.Connection) -> None:
            nonlocal begun
            begun = True
            stores = SqlStores(connection)
            driver: Any = connection.connection.driver_connection
            outcomes.extend(_under_savepoint(driver, stores, job) for job in jobs)

        try:
            with self._engine.connect() as connection:
                in_transaction(connection, "BEGIN IMMEDIATE", lambda: all_jobs(connection))
        except BaseException as error:  # noqa: BLE001 - handed to those who wait
            if begun:
                return False
            # The file is locked or away: it would be for each of them, one wait after the other.
            for job in jobs:
                job.done.set_exception(error)
            return True
        for job, (result, refusal) in zip(jobs, outcomes, strict=True):
            if refusal is None:
                job.done.set_result(result)
            else:
                job.done.set_exception(refusal)
        return True


def _under_savepoint(driver: Any, stores: SqlStores, job: _Job) -> tuple[Any, DaybreakError | None]:
    """What the job returns, or its refusal with its writes undone."""
    driver.execute("SAVEPOINT job")
    try:
        result = job.work(stores)
    except DaybreakError as refusal:
        driver.execute("ROLLBACK TO job")
        driver.execute("RELEASE job")
        return None, refusal
    driver.execute("RELEASE job")
    return result, None
