"""Rate limit on links: its bound for several workers, its events and its writes."""

import asyncio
from datetime import timedelta

import pytest

from daybreak.access.link_usage import LinkRate
from daybreak.domain.audit import AuditEvent, EventOrigin
from daybreak.domain.errors import RateLimited
from daybreak.settings import Rate
from tests.unit.access.instance import ALPHA, CALLER, ROSA, Instance

MINUTE = timedelta(minutes=1)


def worker(instance: Instance, attempts: int = 1200) -> LinkRate:
    return LinkRate(instance.state, Rate(attempts, MINUTE), instance.services.clock)


async def request(
    instance: Instance, link_rate: LinkRate, subject: str = "token:one", amount: int = 1
) -> RateLimited | None:
    """Request a link and return the refusal."""

    def refusal() -> AuditEvent:
        origin = EventOrigin(instance.now[0], CALLER, instance.seat(ROSA), ALPHA)
        return origin.event("link.issued", "rate_limited")

    try:
        await link_rate.count("link", subject, refusal, amount=amount)
    except RateLimited as error:
        return error
    return None


async def issued(instance: Instance, *workers: LinkRate) -> int:
    """Request links from all workers in turn until all refuse, and return how many were issued."""
    total = 0
    refusing: set[int] = set()
    while len(refusing) < len(workers):
        for number, each in enumerate(workers):
            if await request(instance, each) is None:
                total += 1
            else:
                refusing.add(number)
    return total


async def test_one_worker_issues_exactly_the_limit(instance: Instance) -> None:
    link_rate = worker(instance)
    assert await issued(instance, link_rate) == 1200
    refused = await request(instance, link_rate)
    assert refused is not None
    assert 1 <= refused.retry_after_seconds <= 62
    assert (refused.limit, refused.window_seconds) == (1200, 60)
    instance.advance(seconds=refused.retry_after_seconds)
    assert await request(instance, link_rate) is None


@pytest.mark.parametrize("attempts", [3, 100, 1200])
async def test_four_workers_share_the_limit(instance: Instance, attempts: int) -> None:
    workers = [worker(instance, attempts) for _ in range(4)]
    block = max(1, attempts // 40)
    assert attempts - 4 * block <= await issued(instance, *workers) <= attempts + 4 * block


@pytest.mark.release
async def test_limit_holds_in_any_window(instance: Instance) -> None:
    workers = [worker(instance, 120) for _ in range(3)]
    times: list[int] = []
    for second in range(150):
        times += [second for number in range(12) if await request(instance, workers[number % 3]) is None]
        instance.advance(seconds=1)
    for start in range(90):
        assert sum(start <= at < start + 60 for at in times) <= 120 + 3 * 6
    assert sum(60 <= at < 120 for at in times) > 100, "the rate is not much lower than the limit"


async def test_credentials_are_limited_separately(instance: Instance) -> None:
    link_rate = worker(instance, 5)
    assert await issued(instance, link_rate) == 5
    assert await request(instance, link_rate, "token:two") is None
    await link_rate.count("download", "token:one", pytest.fail)


async def test_low_limit_is_exact(instance: Instance) -> None:
    workers = [worker(instance, 79) for _ in range(4)]
    assert await issued(instance, *workers) == 79


async def test_amounts_share_the_limit(instance: Instance) -> None:
    byte_rate = worker(instance, 1000)
    assert [await request(instance, byte_rate, amount=amount) for amount in (10, 300, 650)] == [None, None, None]
    assert await request(instance, byte_rate, amount=41)
    instance.advance(seconds=62)
    # A file that is larger than the limit is sent, and uses all of it.
    assert await request(instance, byte_rate, amount=5000) is None
    assert await request(instance, byte_rate)


async def test_refusals_are_recorded_once_per_window(instance: Instance) -> None:
    workers = [worker(instance, 100) for _ in range(3)]
    for _ in range(40):
        await issued(instance, *workers)
        instance.advance(seconds=1)
    (event,) = instance.audit("link.issued")
    assert (event.result, event.actor, event.client_id) == ("rate_limited", "rosa@example.org", ALPHA)
    instance.advance(seconds=60)
    await issued(instance, *workers)
    assert len(instance.audit("link.issued")) == 2


async def test_few_links_cause_no_write(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = count_writes(instance, monkeypatch)
    link_rate = worker(instance)
    for _ in range(3):
        assert [await request(instance, link_rate) for _ in range(30)] == [None] * 30
        instance.advance(seconds=60)
    assert writes == []
    assert await issued(instance, link_rate) == 1200
    assert len(writes) == 40, "one per block, and the refusal"
    for _ in range(1000):
        assert await request(instance, link_rate) is not None
    assert len(writes) == 40


async def test_parallel_requests_take_one_block(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = count_writes(instance, monkeypatch)
    link_rate = worker(instance)
    await asyncio.gather(*(link_rate.count("link", "token:one", pytest.fail) for _ in range(60)))
    assert len(writes) == 1


async def test_clock_that_is_set_back_does_not_extend_a_delay(instance: Instance) -> None:
    link_rate = worker(instance, 10)
    instance.advance(hours=1)
    assert await issued(instance, link_rate) == 10
    instance.advance(hours=-1)
    assert await request(instance, link_rate) is None


async def test_permits_of_earlier_windows_are_forgotten(instance: Instance) -> None:
    link_rate = worker(instance)
    for number in range(100):
        await link_rate.count("link", f"token:{number}", pytest.fail)
    instance.advance(seconds=60)
    assert await request(instance, link_rate) is None
    assert len(link_rate._permits) == 1


def count_writes(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    writes: list[object] = []
    write = instance.state.awrite

    async def awrite(work: object) -> object:
        writes.append(work)
        return await write(work)  # type: ignore[arg-type]

    monkeypatch.setattr(instance.state, "awrite", awrite)
    return writes
