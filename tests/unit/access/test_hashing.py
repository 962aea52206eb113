"""Password hashing: results, priority, and the bounds of the queue."""

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from daybreak.credentials import passwords
from daybreak.credentials.passwords import PasswordHashing
from daybreak.domain.errors import Unavailable

PASSWORD = "lantern 41 harbour"
HASH = passwords.hash_password(PASSWORD)


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> Iterator[PasswordHashing]:
    monkeypatch.setattr(passwords, "TIMEOUT_SECONDS", 60)
    opened = PasswordHashing()
    yield opened
    opened.close()


class Blocked:
    """Makes every verification wait until `release`, and records the passwords that were verified."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.verified: list[str] = []
        self.started, self._released = threading.Event(), threading.Event()
        monkeypatch.setattr(passwords, "verify", self._verify)

    def _verify(self, _hash: str, password: str) -> bool:
        self.verified.append(password)
        self.started.set()
        self._released.wait(60)
        return True

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocked]:
    found = Blocked(monkeypatch)
    yield found
    found.release()


async def test_unknown_seat_takes_one_current_hash(hashing: PasswordHashing, monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[str] = []

    def verify(password_hash: str, _password: str) -> bool:
        verified.append(password_hash)
        return True

    monkeypatch.setattr(passwords, "verify", verify)
    assert not await hashing.verify(None, PASSWORD)
    assert len(verified) == 1
    assert verified[0].rpartition("$")[0].rpartition("$")[0] == HASH.rpartition("$")[0].rpartition("$")[0]


async def test_verify_accepts_only_the_hashed_password(hashing: PasswordHashing) -> None:
    assert await hashing.verify(HASH, PASSWORD)
    for wrong in ("lantern 41 harbou", "", "\ud800", "\0", "x" * 16_000):
        assert not await hashing.verify(HASH, wrong)
    for malformed in ("", "malformed", "$argon2id$", "\0"):
        assert not await hashing.verify(malformed, PASSWORD)
    for password in ("café \U0001f3ad", "\udcff", ""):
        hashed = await hashing.hash(password)
        assert hashed != await hashing.hash(password), "each hash has a new salt"
        assert await hashing.verify(hashed, password)
    assert await hashing.verify(await hashing.hash("café"), "cafe\u0301")


async def test_thread_has_lower_priority_than_requests(
    hashing: PasswordHashing, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    def verify(_hash: str, _password: str) -> bool:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return True

    monkeypatch.setattr(passwords, "verify", verify)
    await hashing.verify(HASH, PASSWORD)
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert found == [min(own + 5, 19)]


async def test_full_queue_is_busy_until_a_request_is_canceled(
    blocked: Blocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "QUEUE_LENGTH", 3)
    monkeypatch.setattr(passwords, "TIMEOUT_SECONDS", 60)
    lengths: list[int] = []
    hashing = PasswordHashing(observe=lengths.append)
    waiting = [asyncio.create_task(hashing.verify("h", str(number))) for number in range(3)]
    await asyncio.to_thread(blocked.started.wait, 60)
    with pytest.raises(Unavailable) as caught:
        await hashing.verify("h", "refused")
    assert (caught.value.code, caught.value.retry_after_seconds) == ("busy", 3)
    waiting[2].cancel()
    await asyncio.wait([waiting[2]])
    waiting[2] = asyncio.create_task(hashing.verify("h", "3"))
    await asyncio.sleep(0)
    blocked.release()
    assert await asyncio.gather(*waiting) == [True] * 3
    hashing.close()
    assert blocked.verified == ["0", "1", "3"], "a canceled request is not hashed"
    assert (max(lengths), lengths[-1]) == (3, 0)


async def test_slow_verification_times_out_as_busy(blocked: Blocked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "TIMEOUT_SECONDS", 0.05)
    hashing = PasswordHashing()
    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            await asyncio.wait_for(hashing.verify("h", "p"), 60)
        assert caught.value.code == "busy"
    hashing.close()


async def test_lack_of_memory_is_reported_as_busy(hashing: PasswordHashing, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(_hash: str, _password: str) -> bool:
        raise MemoryError

    monkeypatch.setattr(passwords, "verify", verify)
    with pytest.raises(Unavailable) as caught:
        await hashing.verify(HASH, PASSWORD)
    assert caught.value.code == "busy"
