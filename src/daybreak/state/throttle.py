"""Counted attempts, shared by all workers and nodes.

A sliding window: each row keeps the instants of the attempts that count, so no window of the
rule's length ever holds more than its limit. Rules with a large limit count in slots of a 64th of
the window, rounded up, so a row stays small; an attempt may then count that much longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache

import sqlalchemy as sa

from daybreak.ports.access_stores import ThrottleRule
from daybreak.state.columns import json_of
from daybreak.state.schema import throttle
from daybreak.state.statements import insert_into

_EXACT_LIMIT = 64
_SLOTS = 64
_SECOND = 1_000_000
_CLOCK_DIFFERENCE = 60 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_Hits = list[list[int]]

# Made once: a login costs the writer's thread more to put its statements together than the database to do them.
_COUNT = (
    sa.update(throttle)
    .where(throttle.c.key == sa.bindparam("k"), throttle.c.window_seconds == sa.bindparam("w"))
    .values(hits=sa.bindparam("new_hits"), over_at=sa.bindparam("new_over_at"))
)
_TAKE_BACK = sa.delete(throttle).where(
    throttle.c.key == sa.bindparam("k"), throttle.c.window_seconds == sa.bindparam("w")
)
_CLEAR = sa.delete(throttle).where(throttle.c.key == sa.bindparam("k"))


@cache
def _locking(dialect: str) -> sa.Executable:
    """Inserts a row, or takes the lock of the one that is there and leaves it as it is; returns its hits."""
    return (
        insert_into(throttle, dialect)
        .on_conflict_do_update(index_elements=["key", "window_seconds"], set_={"hits": throttle.c.hits})
        .returning(throttle.c.hits)
    )


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _slot(rule: ThrottleRule, now_us: int) -> int:
    """When an attempt made now is said to have happened: at its own time, or at its slot's end."""
    if rule.limit <= _EXACT_LIMIT:
        return now_us
    width = max(1, rule.window_seconds * _SECOND // _SLOTS)
    return -(-now_us // width) * width


def _live(rule: ThrottleRule, hits: _Hits, now_us: int) -> _Hits:
    """The attempts that count now. Those of a clock that ran ahead and was set back do not: a
    delay must end by itself. The clocks of two nodes may differ by a minute."""
    window_us = rule.window_seconds * _SECOND
    latest = now_us + window_us // _SLOTS + _CLOCK_DIFFERENCE
    return [hit for hit in hits if now_us - window_us < hit[0] <= latest]


def _wait_us(rule: ThrottleRule, live: _Hits, now_us: int) -> int:
    """Microseconds until one more attempt is allowed; 0 = now."""
    left = sum(count for _, count in live) - rule.limit
    wait = 0
    for at_us, count in live:
        if left < 0:
            break
        left -= count
        wait = at_us + rule.window_seconds * _SECOND - now_us
    return max(wait, 0) if left < 0 else rule.window_seconds * _SECOND


class SqlThrottle:
    """The ThrottleStore on a connection with a write transaction open."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def count(self, rules: Sequence[ThrottleRule], now: datetime) -> ThrottleRule | None:
        if not rules:
            return None
        # In one order everywhere, so that two transactions never wait for each other.
        ordered = sorted(set(rules), key=lambda rule: (rule.key, rule.window_seconds))
        now_us = _microseconds(now)
        stored = self._lock(ordered, now)
        worst: tuple[int, ThrottleRule] | None = None
        changes = []
        for rule in ordered:
            live = _live(rule, stored[rule.key, rule.window_seconds], now_us)
            wait_us = _wait_us(rule, live, now_us)
            if wait_us > 0 and (worst is None or wait_us > worst[0]):
                worst = (wait_us, rule)
            slot = _slot(rule, now_us)
            if live and live[-1][0] == slot:
                live[-1][1] += 1
            else:
                live.append([slot, 1])
            over_at = _EPOCH + timedelta(microseconds=slot + rule.window_seconds * _SECOND)
            changes.append({"k": rule.key, "w": rule.window_seconds, "new_hits": sorted(live), "new_over_at": over_at})
        if worst is not None:
            # A refused attempt leaves no row behind: strangers could fill the disk with emails that they make up.
            made = [{"k": key, "w": window} for (key, window), hits in stored.items() if not hits]
            if made:
                self._connection.execute(_TAKE_BACK, made)
            return worst[1]
        self._connection.execute(_COUNT, changes)
        return None

    def retry_after_seconds(self, rule: ThrottleRule, now: datetime) -> int:
        hits = self._connection.execute(
            sa.select(throttle.c.hits).where(
                throttle.c.key == rule.key, throttle.c.window_seconds == rule.window_seconds
            )
        ).scalar()
        now_us = _microseconds(now)
        wait_us = _wait_us(rule, _live(rule, hits or [], now_us), now_us)
        return max(1, -(-wait_us // _SECOND)) if wait_us else 0

    def clear(self, key: str) -> None:
        self._connection.execute(_CLEAR, {"k": key})

    def forget(self, before: datetime) -> int:
        return self._connection.execute(sa.delete(throttle).where(throttle.c.over_at < before)).rowcount

    def _lock(self, rules: Sequence[ThrottleRule], now: datetime) -> dict[tuple[str, int], _Hits]:
        """The stored attempts of each rule, its row locked until the transaction ends: the insert
        of a row that is there already changes nothing, but waits for whoever holds it."""
        lock = _locking(self._connection.dialect.name)
        stored: dict[tuple[str, int], _Hits] = {}
        for rule in rules:
            row = {"key": rule.key, "window_seconds": rule.window_seconds, "hits": [], "over_at": now}
            hits = self._connection.execute(lock, row).scalar_one()
            stored[rule.key, rule.window_seconds] = json_of(hits)
        return stored
