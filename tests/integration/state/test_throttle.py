"""Counted attempts in sliding windows."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.state.database import Database
from daybreak.state.stores import Stores
from daybreak.state.throttle import Refusal, ThrottleRule
from tests.integration.state.values import NOW

SEAT_RULE = ThrottleRule("factor:seat", 5, 300)
SECOND = timedelta(seconds=1)


def count(state: Database, now: datetime, *rules: ThrottleRule) -> ThrottleRule | None:
    refusal = state.write(lambda stores: stores.throttle.count(rules, now))
    return None if refusal is None else refusal.rule


def test_limit_holds_in_every_window_and_wait_is_exact(state: Database) -> None:
    for second in range(5):
        assert count(state, NOW + 10 * second * SECOND, SEAT_RULE) is None
    refusal = state.write(lambda stores: stores.throttle.count([SEAT_RULE], NOW + 60 * SECOND))
    assert refusal == Refusal(SEAT_RULE, wait_seconds=240)
    assert count(state, NOW + 299 * SECOND, SEAT_RULE) == SEAT_RULE
    assert count(state, NOW + 300 * SECOND, SEAT_RULE) is None
    assert count(state, NOW + 301 * SECOND, SEAT_RULE) == SEAT_RULE, "the second attempt was at 10 s"


def test_attempt_counts_for_all_rules_or_none(state: Database) -> None:
    narrow, wide = ThrottleRule("a", 1, 60), ThrottleRule("b", 3, 60)
    assert count(state, NOW, narrow, wide) is None
    assert count(state, NOW, wide, narrow) == narrow
    assert count(state, NOW, narrow, wide) == narrow
    assert count(state, NOW, wide) is None, "refused attempts were not counted"
    assert count(state, NOW, wide) is None
    assert count(state, NOW, wide) == wide


def test_refused_attempt_leaves_no_row(state: Database) -> None:
    overall = ThrottleRule("all", 1, 300)
    assert count(state, NOW, overall) is None
    for number in range(3):
        assert count(state, NOW, ThrottleRule(f"invented {number}", 10, 300), overall) == overall
    assert state.write(lambda stores: stores.throttle.delete_expired(NOW + timedelta(days=1))) == 1


def test_windows_of_one_key_are_counted_separately(state: Database) -> None:
    rules = [ThrottleRule("seat", 2, 60), ThrottleRule("seat", 3, 3600)]
    assert [count(state, NOW, *rules), count(state, NOW, *rules)] == [None, None]
    assert count(state, NOW + 60 * SECOND, *rules) is None
    assert count(state, NOW + 120 * SECOND, *rules) == rules[1]
    state.write(lambda stores: stores.throttle.clear("seat"))
    assert count(state, NOW + 120 * SECOND, *rules) is None


def test_longest_wait_of_several_exceeded_rules_is_returned(state: Database) -> None:
    short, long = ThrottleRule("x", 1, 10), ThrottleRule("y", 1, 1000)
    count(state, NOW, short, long)
    assert count(state, NOW, short, long) == long


@pytest.mark.parametrize("limit", [64, 65, 200])
def test_large_limits_are_exact_in_a_burst_and_expire(state: Database, limit: int) -> None:
    rule = ThrottleRule("global", limit, 640)

    def burst(stores: object) -> int:
        return sum(stores.throttle.count([rule], NOW) is None for _ in range(limit + 20))  # type: ignore[attr-defined]

    assert state.write(burst) == limit
    assert count(state, NOW + 639 * SECOND, rule) == rule
    assert count(state, NOW + 650 * SECOND, rule) is None, "attempts expire up to 1/64 of the window late"


def test_attempts_in_the_future_are_ignored(state: Database) -> None:
    for _ in range(5):
        count(state, NOW + timedelta(days=2), SEAT_RULE)
    assert [count(state, NOW, SEAT_RULE) for _ in range(5)] == [None] * 5


def test_rule_with_limit_zero_refuses_attempts(state: Database) -> None:
    assert count(state, NOW, ThrottleRule("closed", 0, 60)) is not None


def test_expired_attempts_are_deleted(state: Database) -> None:
    count(state, NOW, SEAT_RULE)
    assert state.write(lambda stores: stores.throttle.delete_expired(NOW + 300 * SECOND)) == 0
    assert state.write(lambda stores: stores.throttle.delete_expired(NOW + 301 * SECOND)) == 1


@given(
    limit=st.integers(1, 6),
    steps=st.lists(st.integers(0, 70), min_size=1, max_size=40),
)
def test_no_window_exceeds_the_limit_and_waits_are_exact(
    limit: int, steps: list[int], sqlite_url: str, open_database: Callable[[str], Database]
) -> None:
    state = open_database(sqlite_url)
    rule = ThrottleRule(f"{limit} {steps}", limit, 100)
    allowed: list[int] = []

    def attempt_all(stores: Stores) -> None:
        at = 0
        for step in steps:
            at += step
            now = NOW + at * SECOND
            in_window = sum(other > at - 100 for other in allowed)
            refusal = stores.throttle.count([rule], now)
            if refusal is None:
                assert in_window < limit, "more than the limit in a window"
                allowed.append(at)
            else:
                assert in_window == limit, "refused below the limit"
                assert refusal.wait_seconds == allowed[-limit] + 100 - at

    state.write(attempt_all)
