"""Fair shares of work that runs at the same time."""

import asyncio
import threading
from contextlib import ExitStack

import pytest

from daybreak.access.fair_share import BoundedThreads, FairShare
from daybreak.domain.errors import Unavailable


def test_work_is_limited() -> None:
    limit = FairShare(2)
    with limit.slot("A"):
        with limit.slot("B"), pytest.raises(Unavailable) as caught, limit.slot("C"):
            pass
        assert caught.value.code == "busy"
        assert limit.running == 1
        with limit.slot("C"):
            pass


def test_each_account_leaves_room_for_the_next() -> None:
    limit = FairShare(100)
    with ExitStack() as running:
        for account, share in (("A", 50), ("B", 25), ("C", 13), ("D", 6)):
            for _ in range(share):
                running.enter_context(limit.slot(account))
            with pytest.raises(Unavailable):
                running.enter_context(limit.slot(account))
    with limit.slot("A"):
        pass


async def test_threads_refuse_the_backlog_of_one_account() -> None:
    """Tasks of clients that left count until they end."""
    end, threads = threading.Event(), BoundedThreads()
    tasks = [asyncio.create_task(threads.run("A", lambda: end.wait(60))) for _ in range(40)]
    _, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert len(waiting) == 32
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    with pytest.raises(Unavailable) as refused:
        await threads.run("A", int)
    assert refused.value.retry_after_seconds
    other = asyncio.create_task(threads.run("B", int))
    end.set()
    assert await other == 0
