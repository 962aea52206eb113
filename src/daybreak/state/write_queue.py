"""Group commit for SQLite: one thread writes for the event loop.

A commit waits for the disk, and SQLite has one writer at a time. Jobs that arrive during a commit share the next one.
Each runs under a savepoint and completes after the shared commit is durable.
"""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa

from daybreak.domain.errors import DaybreakError
from daybreak.state.errors import busy, unavailable
from daybreak.state.sqlite_file import in_transaction
from daybreak.state.stores import Stores

T = TypeVar("T")

_MAX_WAITING = 2_000
_MAX_BATCH = 64
# In addition to the wait for the lock of the file.
_EXTRA_QUEUE_SECONDS = 3.0


@dataclass(slots=True)
class _Job:
    work: Callable[[Stores], Any]
    done: Future[Any] = field(default_factory=Future)
    queued_at: float = field(default_factory=time.monotonic)


class WriteQueue:
    """Queue of write jobs from any thread. The first job starts the writer thread."""

    def __init__(self, engine: sa.Engine, wait_seconds: float) -> None:
        self._engine = engine
        self._max_queued_seconds = wait_seconds + _EXTRA_QUEUE_SECONDS
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, work: Callable[[Stores], T]) -> Future[T]:
        """Queue `work` and return the future of its result, which is set after the commit is durable.

        Raises Unavailable if too many jobs are waiting.
        """
        job = _Job(work)
        # Under the lock, so that no job follows the end of the queue: its future would never have a result.
        with self._lock:
            if self._closed or self._jobs.qsize() >= _MAX_WAITING:
                raise busy()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="state-writer", daemon=True)
                self._thread.start()
            self._jobs.put(job)
        return job.done

    def close(self) -> None:
        """Complete the queued jobs and stop the thread."""
        with self._lock:
            is_first, self._closed = not self._closed, True
            if is_first and self._thread is not None:
                self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout=30)
            self._thread = None

    def _serve(self) -> None:
        while (first := self._jobs.get()) is not None:
            self._write(self._batch(first))

    def _batch(self, first: _Job) -> list[_Job]:
        """Return the batch of `first` and the jobs queued after it."""
        jobs = [first]
        with suppress(queue.Empty):
            while len(jobs) < _MAX_BATCH:
                job = self._jobs.get_nowait()
                if job is None:
                    # The end of the queue, which nothing follows. It ends `_serve` after this batch.
                    self._jobs.put(None)
                    break
                jobs.append(job)
        return jobs

    def _write(self, jobs: list[_Job]) -> None:
        ready = [job for job in jobs if job.done.set_running_or_notify_cancel() and not self._expired(job)]
        if len(ready) > 1 and self._write_batch(ready):
            return
        for job in ready:
            if not self._expired(job):
                self._write_alone(job)

    def _expired(self, job: _Job) -> bool:
        """Fail a job that has waited too long. Return whether it has."""
        if time.monotonic() - job.queued_at <= self._max_queued_seconds:
            return False
        job.done.set_exception(unavailable())
        return True

    def _write_alone(self, job: _Job) -> None:
        try:
            with self._engine.connect() as connection:
                result = in_transaction(connection, "BEGIN IMMEDIATE", lambda: job.work(Stores(connection)))
        except BaseException as error:  # noqa: BLE001 - passed to the caller through the future
            job.done.set_exception(error)
        else:
            job.done.set_result(result)

    def _write_batch(self, jobs: list[_Job]) -> bool:
        """Run all jobs in one transaction. Return False, with nothing written, if a job aborted it."""
        outcomes: list[tuple[Any, DaybreakError | None]] = []
        begun = False

        def all_jobs(connection: sa.Connection) -> None:
            nonlocal begun
            begun = True
            stores = Stores(connection)
            driver: Any = connection.connection.driver_connection
            outcomes.extend(_under_savepoint(driver, stores, job) for job in jobs)

        try:
            with self._engine.connect() as connection:
                in_transaction(connection, "BEGIN IMMEDIATE", lambda: all_jobs(connection))
        except BaseException as error:  # noqa: BLE001 - passed to the callers through their futures
            if begun:
                return False
            # The file is locked or missing. Separate transactions would fail too, each after its own wait.
            for job in jobs:
                job.done.set_exception(error)
            return True
        for job, (result, rejection) in zip(jobs, outcomes, strict=True):
            if rejection is None:
                job.done.set_result(result)
            else:
                job.done.set_exception(rejection)
        return True


def _under_savepoint(driver: Any, stores: Stores, job: _Job) -> tuple[Any, DaybreakError | None]:
    """Return the result of the job, or its error after undoing its writes."""
    driver.execute("SAVEPOINT job")
    try:
        result = job.work(stores)
    except DaybreakError as rejection:
        driver.execute("ROLLBACK TO job")
        driver.execute("RELEASE job")
        return None, rejection
    driver.execute("RELEASE job")
    return result, None
