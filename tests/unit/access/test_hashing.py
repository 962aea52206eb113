"""Hashing: two at once on a machine whatever the number of processes, and a short queue."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import threading
from pathlib import Path

import pytest

from daybreak.access.hashing import PasswordHashing
from daybreak.credentials import passwords
from daybreak.domain.errors import Unavailable


class Gauge:
    """Stands in for Argon2: counts how many run at once, each until it is let go."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = self.calls = 0
        self.go = threading.Event()
        self.arrived = threading.Semaphore(0)

    def verify(self, password_hash: str, password: str) -> bool:
        with self.lock:
            self.calls += 1
            self.now += 1
            self.most = max(self.most, self.now)
        self.arrived.release()
        self.go.wait(60)
        with self.lock:
            self.now -= 1
        return True


@pytest.fixture
def gauge(monkeypatch: pytest.MonkeyPatch) -> Gauge:
    gauge = Gauge()
    monkeypatch.setattr(passwords, "verify", gauge.verify)
    return gauge


def test_no_hash_at_all_is_never_right_and_costs_a_verification(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def right(password_hash: str, password: str) -> bool:
        asked.append(password_hash)
        return True

    monkeypatch.setattr(passwords, "verify", right)
    hashing = PasswordHashing()
    assert not asyncio.run(hashing.verify(None, "whatever"))
    assert asyncio.run(hashing.verify("some hash", "whatever"))
    assert asked == [passwords.DUMMY_HASH, "some hash"]
    hashing.close()


def test_two_at_once_over_several_pools_and_all_are_answered(gauge: Gauge, tmp_path: Path) -> None:
    # Two pools share the slots as two processes do: the locks belong to open files.
    pools = [PasswordHashing(slots_folder=tmp_path / "slots", wait_seconds=60) for _ in range(2)]

    async def story() -> list[bool]:
        tasks = [asyncio.ensure_future(pool.verify("h", "p")) for pool in pools for _ in range(5)]
        for _ in range(2):
            assert await asyncio.to_thread(gauge.arrived.acquire, timeout=60)
        await asyncio.sleep(0.1)
        gauge.go.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(story()) == [True] * 10
    assert gauge.most == 2
    for pool in pools:
        pool.close()


def test_a_full_queue_says_so_at_once_and_empties_again(gauge: Gauge) -> None:
    hashing = PasswordHashing(queue_length=3)

    async def story() -> None:
        held = [asyncio.ensure_future(hashing.verify("h", "p")) for _ in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as told:
            await hashing.verify("h", "p")
        assert (told.value.code, told.value.retry_after_seconds) == ("busy", 3)
        # Whoever hangs up gives the place back when the work is over, not before.
        held[4].cancel()
        await asyncio.sleep(0)
        gauge.go.set()
        assert await asyncio.gather(*held[:4]) == [True] * 4
        await asyncio.sleep(0)
        for _ in range(3):
            assert await hashing.verify("h", "p")

    asyncio.run(story())
    hashing.close()


def test_the_event_loop_goes_on_while_hashes_are_made(gauge: Gauge) -> None:
    hashing = PasswordHashing()

    async def story() -> None:
        task = asyncio.ensure_future(hashing.verify("h", "p"))
        assert await asyncio.to_thread(gauge.arrived.acquire, timeout=60)
        assert not task.done()
        gauge.go.set()
        assert await task

    asyncio.run(story())
    hashing.close()


def test_a_stopped_process_that_holds_the_slots_does_not_hang_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "slots"
    hashing = PasswordHashing(slots_folder=folder, wait_seconds=0.05)
    handles = [os.open(folder / f"slot-{n}", os.O_RDWR | os.O_CREAT, 0o600) for n in range(2)]
    for handle in handles:
        fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(Unavailable):
        asyncio.run(hashing.verify("h", "p"))
    for handle in handles:
        os.close(handle)
    assert not asyncio.run(hashing.verify(passwords.DUMMY_HASH, "p"))
    hashing.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux has a thread a priority of its own")
@pytest.mark.parametrize("more", [0, 7, 19])
def test_the_event_loop_goes_before_its_hashing(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """However late the service itself comes: who started it may have made it nicer."""
    seen = []
    own = []

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def verify(password_hash: str, password: str) -> bool:
        seen.append(niceness())
        return True

    def story() -> None:
        # Of this thread alone, which ends with the story: nobody but root could go back.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(niceness() + more, 19))
        own.append(niceness())
        hashing = PasswordHashing()
        try:
            asyncio.run(hashing.verify("hash", "password"))
        finally:
            hashing.close()

    monkeypatch.setattr(passwords, "verify", verify)
    thread = threading.Thread(target=story)
    thread.start()
    thread.join(60)
    assert seen == [min(own[0] + 5, 19)]
