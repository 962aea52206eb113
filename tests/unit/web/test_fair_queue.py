"""The bounded queue of work that takes long."""

import asyncio
from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY
from starlette.requests import ClientDisconnect, Request

from daybreak.domain.errors import Unavailable
from daybreak.web.fair_queue import FairQueue, while_connected


async def test_accounts_take_turns() -> None:
    order: list[str] = []

    async def work(queue: FairQueue, account: str) -> None:
        async with queue.slot(account):
            order.append(account)
            await asyncio.sleep(0)

    queue = FairQueue("test", 1, max_waiting=100, max_waiting_per_account=100)
    await asyncio.gather(*(work(queue, account) for account in [*"AAAAAA", "B", "C"]))
    assert "".join(order) == "AABCAAAA"


async def test_full_queue_answers_busy() -> None:
    queue = FairQueue("test", 1, max_waiting=4, max_waiting_per_account=3)
    ends = asyncio.Event()

    async def work(account: str) -> str:
        try:
            async with queue.slot(account):
                await ends.wait()
        except Unavailable as error:
            return f"{account} {error.code} {error.retry_after_seconds}"
        return account

    tasks = []
    # One runs, and three of A wait. The fifth of A is too many. C takes the place of the newest of A.
    for account in ("A", "A", "A", "A", "A", "B", "C", "D"):
        tasks.append(asyncio.create_task(work(account)))
        await asyncio.sleep(0)
    # The work that gave way leaves the queue.
    await asyncio.sleep(0)
    assert REGISTRY.get_sample_value("daybreak_queue_length", {"queue": "test"}) == 4
    ends.set()
    found = await asyncio.gather(*tasks)
    assert REGISTRY.get_sample_value("daybreak_queue_length", {"queue": "test"}) == 0
    assert found == ["A", "A", *["A busy 5"] * 3, "B", "C", "D"]


async def test_canceled_work_leaves_the_queue() -> None:
    queue = FairQueue("test", 1, max_waiting=1, max_waiting_per_account=1)
    ends = asyncio.Event()

    async def work() -> None:
        async with queue.slot("A"):
            await ends.wait()

    running, waiting = asyncio.create_task(work()), asyncio.create_task(work())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    again = asyncio.create_task(work())
    await asyncio.sleep(0)
    # Its turn comes, and it is canceled before it runs: the slot is passed on.
    ends.set()
    await running
    again.cancel()
    await asyncio.wait((again,))
    async with asyncio.timeout(60), queue.slot("B"):
        pass


async def test_work_ends_when_its_client_leaves() -> None:
    ended: list[str] = []
    messages: Iterator[dict[str, object]] = iter([{"type": "http.request", "body": b""}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, object]:
        await asyncio.sleep(0)
        return next(messages)

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    with pytest.raises(ClientDisconnect):
        await while_connected(Request({"type": "http"}, receive), work())
    assert ended == ["work"]


async def test_result_and_error_of_the_work_are_passed_on() -> None:
    async def never() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async def fail() -> None:
        raise ValueError("damaged")

    request = Request({"type": "http"}, never)
    with pytest.raises(ValueError, match="damaged"):
        await while_connected(request, fail())
    assert await while_connected(request, asyncio.sleep(0, "done")) == "done"
