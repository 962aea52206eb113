"""Time with the interpreter's lock, and the speed that is computed from it."""

import ctypes
import sys

import pytest

from benchmarks.cores import computed_speed_ups, computed_table
from benchmarks.lock_time import LockSamples, lock_address, measure_lock


def test_time_with_the_lock_bounds_the_speed() -> None:
    assert computed_speed_ups(32.0, 4.0, 16) == pytest.approx((32 / 5.75, 8.0))
    assert computed_speed_ups(32.0, 1.0, 16) == pytest.approx((32 / 2.9375, 16.0))
    assert "| 16 (computed) | 5.6 | 8.0 |" in computed_table(32.0, 4.0)


def test_lock_is_held_by_the_thread_that_reads_it() -> None:
    interval = sys.getswitchinterval()
    try:
        assert ctypes.c_int.from_address(lock_address()).value == 1
    finally:
        sys.setswitchinterval(interval)


def test_lock_of_another_process_is_sampled() -> None:
    lock = measure_lock("timeit", ["-n", "1", "-r", "1", "sum(range(5_000_000))"])
    assert any(held for _, held in lock.samples)
    assert 0 < lock.held_seconds <= lock.wall_seconds


def test_time_with_the_lock_is_divided_by_phase() -> None:
    lock = LockSamples([(1.0, True), (2.0, True), (3.0, False), (4.0, True)], 8.0, 8.0)
    assert lock.held_seconds == 6.0
    assert lock.by_phase({"second": 3.5, "first": 2.0}) == {"start": 2.0, "first": 2.0, "second": 2.0}
