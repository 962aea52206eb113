"""The wait for a lock that another process holds."""

import fcntl
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from daybreak_client import Busy, LockWait
from daybreak_client.folder import locked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, which passes in sleeps alone."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("daybreak_client.folder.time", SimpleNamespace(sleep=sleep, monotonic=lambda: now[0]))
    return now


def test_long_wait_is_announced_once_and_ends(clock: list[float]) -> None:
    announced: list[tuple[float, str]] = []
    wait = LockWait(60, lambda text: announced.append((clock[0], text)))
    with pytest.raises(Busy, match=r"^Another sync runs\. Try again later, or wait longer with --lock-timeout\.$"):
        wait.acquire(lambda: None, "Another sync runs.")
    ((moment, text),) = announced
    assert 105 <= moment < 106
    assert text == "Another sync runs. Waiting up to 60 seconds."
    assert clock[0] == pytest.approx(160)


def test_short_wait_is_silent(clock: list[float]) -> None:
    attempts = iter([None, None, "lock"])
    announced: list[str] = []
    assert LockWait(60, announced.append).acquire(lambda: next(attempts), "x") == "lock"
    assert announced == []


def test_wait_of_zero_fails_immediately(clock: list[float]) -> None:
    with pytest.raises(Busy):
        LockWait(0).acquire(lambda: None, "x")
    assert clock[0] == 100


def test_folder_that_the_holder_deleted_is_locked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    holder = os.open(folder, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)

    def end(_seconds: float) -> None:
        folder.rmdir()
        os.close(holder)

    monkeypatch.setattr("daybreak_client.folder.time", SimpleNamespace(sleep=end, monotonic=lambda: 0.0))
    with locked(folder, LockWait(60)):
        other = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
