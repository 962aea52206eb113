"""Transactions are atomic, in blocking and in asynchronous calls."""

import asyncio
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing, suppress

import pytest

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.errors import Conflict, Unavailable
from daybreak.domain.identity import Seat
from daybreak.state.database import Database, sqlite_path
from daybreak.state.sqlite_file import sqlite_engine
from daybreak.state.sqlite_state import SqliteState
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule
from daybreak.state.write_queue import WriteQueue
from tests.integration.state.values import NOW, SEAT, seat, two_accounts


def event(number: int) -> AuditEvent:
    return AuditEvent(NOW, "login", "ok", "someone@example.org", request_id=str(number))


def trail(state: Database) -> set[str]:
    return {one.request_id for one in state.read(lambda stores: stores.audit.read(AuditQuery()))}


def test_failed_write_leaves_no_rows(state: Database) -> None:
    def work(stores: Stores) -> None:
        two_accounts(stores)
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        state.write(work)
    assert state.read(lambda stores: stores.directory.load()).seats == ()


async def test_error_of_a_statement_does_not_contain_its_values(state: Database) -> None:
    """Emails, digests and encrypted seeds must not reach the log with the traceback of an error."""
    twin = seat(2, email=SEAT.email, password_hash="the hash")

    def add_twice(stores: Stores) -> None:
        stores.directory.put_seats(SEAT)
        stores.directory.put_seats(twin)

    with pytest.raises(Conflict) as blocking:
        state.write(add_twice)
    with pytest.raises(Conflict) as awaited:
        await state.awrite(add_twice)
    for caught in (blocking, awaited):
        report = "".join(traceback.format_exception(caught.value))
        assert "INSERT INTO seats" in report
        assert "the hash" not in report


async def test_async_write_returns_its_result_and_is_visible(state: Database) -> None:
    def put_and_list(stores: Stores) -> list[Seat]:
        stores.directory.put_seats(SEAT)
        return stores.seats.list_all()

    assert await state.awrite(put_and_list) == [SEAT]
    assert await state.aread(lambda stores: stores.seats.by_id(SEAT.seat_id)) == SEAT
    with pytest.raises(Conflict):
        await state.awrite(lambda stores: stores.directory.put_seats(seat(2, email=SEAT.email)))
    with pytest.raises(ZeroDivisionError):
        await state.aread(lambda stores: 1 // len(stores.seats.list_all()[1:]))
    assert await state.aread(lambda stores: stores.seats.by_id(SEAT.seat_id)) == SEAT
    await state.aclose()


async def test_failed_concurrent_writes_do_not_affect_others(state: Database) -> None:
    def succeeding(number: int) -> Callable[[Stores], int]:
        def work(stores: Stores) -> int:
            stores.audit.append(event(number))
            return number

        return work

    def refused(number: int) -> Callable[[Stores], int]:
        def work(stores: Stores) -> int:
            stores.audit.append(event(number))
            raise Conflict(str(number))

        return work

    def clashing(number: int) -> Callable[[Stores], int]:
        def work(stores: Stores) -> int:
            stores.audit.append(event(number))
            stores.directory.put_seats(seat(number, email="same@example.org"))
            return number

        return work

    kinds = [succeeding, refused, succeeding, clashing, succeeding]
    work = [kinds[number % 5](number) for number in range(60)]
    answers = await asyncio.gather(*(state.awrite(one) for one in work), return_exceptions=True)
    await state.aclose()
    assert [answers[number] for number in range(60) if number % 5 in (0, 2, 4)] == [
        number for number in range(60) if number % 5 in (0, 2, 4)
    ]
    assert all(isinstance(answers[number], Conflict) for number in range(60) if number % 5 == 1)
    clashes = [answers[number] for number in range(60) if number % 5 == 3]
    assert sum(isinstance(one, int) for one in clashes) == 1, "one seat has the email"
    assert sum(isinstance(one, Conflict) for one in clashes) == len(clashes) - 1
    assert trail(state) == {str(number) for number, answer in enumerate(answers) if answer == number}


async def test_failed_job_in_a_batch_leaves_no_rows(state: Database) -> None:
    def work(number: int) -> Callable[[Stores], None]:
        def one(stores: Stores) -> None:
            stores.audit.append(event(number))
            if number % 3 == 1:
                raise Conflict(str(number))
            if number == 0:
                # The other jobs are queued during this sleep.
                time.sleep(0.2)

        return one

    answers = await asyncio.gather(*(state.awrite(work(number)) for number in range(31)), return_exceptions=True)
    await state.aclose()
    assert [isinstance(answer, Conflict) for answer in answers] == [number % 3 == 1 for number in range(31)]
    assert trail(state) == {str(number) for number in range(31) if number % 3 != 1}


async def test_parallel_attempts_do_not_exceed_the_limit(state: Database) -> None:
    rules = [ThrottleRule("b", 7, 300), ThrottleRule("a", 100, 300)]
    work = [rules, rules[::-1]]
    answers = await asyncio.gather(
        *(
            state.awrite(lambda stores, it=work[number % 2]: stores.throttle.count(it, NOW))  # type: ignore[misc]
            for number in range(40)
        )
    )
    await state.aclose()
    assert answers.count(None) == 7


async def test_code_sent_twenty_times_in_parallel_is_accepted_once(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.seats.begin_second_factor(SEAT.seat_id, "sealed", NOW))
    state.write(lambda stores: stores.seats.confirm_second_factor(SEAT.seat_id, 1, ["r1"], NOW))
    answers = await asyncio.gather(
        *(state.awrite(lambda stores: stores.seats.use_step(SEAT.seat_id, 2)) for _ in range(20))
    )
    codes = await asyncio.gather(
        *(state.awrite(lambda stores: stores.seats.use_recovery_code(SEAT.seat_id, "r1", NOW)) for _ in range(20))
    )
    await state.aclose()
    assert [answers.count(True) == 1, codes.count(True) == 1] == [True, True]


async def test_cancelled_callers_do_not_affect_others(state: Database) -> None:
    calls = [
        asyncio.ensure_future(state.awrite(lambda stores, n=number: stores.audit.append(event(n))))  # type: ignore[misc]
        for number in range(12)
    ]
    await asyncio.sleep(0.01)
    for one in calls[::2]:
        one.cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(answer is None for answer in answers[1::2])
    await state.awrite(lambda stores: stores.audit.append(event(99)))
    await state.aclose()
    assert {"1", "3", "5", "7", "9", "11", "99"} <= trail(state)


def test_job_that_waited_too_long_fails_and_is_not_run(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller of such a job has given up or is retrying."""
    path = sqlite_path(sqlite_url)
    assert path is not None
    started, resume = threading.Event(), threading.Event()
    engine = sqlite_engine(path)
    queue = WriteQueue(engine, wait_seconds=60)

    def block(_stores: Stores) -> None:
        started.set()
        resume.wait(60)

    try:
        first = queue.submit(block)
        assert started.wait(60)
        second = queue.submit(lambda stores: stores.audit.append(event(1)))
        monkeypatch.setattr(queue, "_max_queued_seconds", 0.0)
        resume.set()
        first.result()
        with pytest.raises(Unavailable):
            second.result()
    finally:
        resume.set()
        queue.close()
        engine.dispose()
    with closing(SqliteState(path)) as state:
        assert trail(state) == set()


def test_job_of_a_closing_queue_has_a_result(sqlite_url: str) -> None:
    path = sqlite_path(sqlite_url)
    assert path is not None
    engine = sqlite_engine(path)
    queue = WriteQueue(engine, wait_seconds=60)
    jobs: list[Future[int]] = []
    begun, closed = threading.Event(), threading.Event()

    def submit() -> None:
        while not closed.is_set():
            with suppress(Unavailable):
                jobs.append(queue.submit(lambda _stores: 7))
                begun.set()

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    queue.close()
    closed.set()
    for thread in threads:
        thread.join()
    engine.dispose()
    assert {job.result(60) for job in jobs} == {7}
