"""Cache of insight figures."""

import asyncio
import threading
import time
from contextlib import closing

import duckdb
import pytest

from daybreak.insight.published_tables import Interruption
from daybreak.web.dashboard.insight.queries import FigureCache, ValueCache


async def test_value_is_computed_once_until_it_is_dropped() -> None:
    computed: list[int] = []
    cache: ValueCache[str] = ValueCache()

    async def get(key: int) -> str:
        async def compute() -> str:
            computed.append(key)
            return f"figures of {key}"

        return await cache.get(key, compute)

    for key in [*range(32), 0, 32, 1, 0]:
        assert await get(key) == f"figures of {key}"
    # The 33rd key drops the first one.
    assert computed == [*range(33), 0]


async def test_requests_at_the_same_time_wait_for_one_computation() -> None:
    computed: list[str] = []
    cache: ValueCache[str] = ValueCache()

    async def compute() -> str:
        computed.append("one")
        await asyncio.sleep(0)
        return "figures"

    first = asyncio.create_task(cache.get("key", compute))
    others = [asyncio.create_task(cache.get("key", compute)) for _ in range(2)]
    await asyncio.sleep(0)
    # A browser that goes away does not end the computation of the others.
    first.cancel()
    assert list(await asyncio.gather(*others)) == ["figures", "figures"]
    assert computed == ["one"]


async def test_files_are_read_one_after_another() -> None:
    cache = FigureCache()
    reading: list[int] = []

    def task(_interruption: Interruption) -> int:
        reading.append(1)
        time.sleep(0.01)
        found = len(reading)
        reading.pop()
        return found

    assert list(await asyncio.gather(*(cache.run("account", task) for _ in range(4)))) == [1, 1, 1, 1]


async def test_computation_continues_after_a_timeout() -> None:
    cache: ValueCache[str] = ValueCache()
    ready = asyncio.Event()

    async def compute() -> str:
        await ready.wait()
        return "figures"

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(cache.get("key", compute), 0.01)
    ready.set()
    assert await cache.get("key", _fail) == "figures"


async def _fail() -> str:
    raise ValueError("damaged")


async def test_failed_computation_is_repeated() -> None:
    cache: ValueCache[str] = ValueCache()

    async def succeed() -> str:
        return "figures"

    with pytest.raises(ValueError, match="damaged"):
        await cache.get("key", _fail)
    assert await cache.get("key", succeed) == "figures"


async def test_computation_that_no_request_wants_is_canceled() -> None:
    cache: ValueCache[str] = ValueCache(grace_seconds=0.0)
    ended = asyncio.Event()

    async def compute() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(cache.get("key", compute), 0.01)
    await ended.wait()
    assert await cache.get("key", _succeed) == "figures"


async def test_canceled_task_ends_its_query_and_frees_the_slot() -> None:
    figures = FigureCache()
    started = threading.Event()
    ended: list[str] = []

    def endless(interruption: Interruption) -> None:
        with closing(duckdb.connect()) as engine, interruption.of(engine):
            started.set()
            try:
                engine.execute("SELECT count(*) FROM range(9999999) a, range(9999999) b WHERE a.range % 7 < b.range")
            except duckdb.InterruptException:
                ended.append("interrupted")

    task = asyncio.create_task(figures.run("first", endless))
    await asyncio.to_thread(started.wait)
    task.cancel()
    assert await figures.run("second", lambda _interruption: "figures") == "figures"
    assert ended == ["interrupted"]


async def _succeed() -> str:
    return "figures"
