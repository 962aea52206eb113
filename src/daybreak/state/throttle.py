"""Repository of counted attempts, shared by all workers and nodes.

Sliding windows: a row contains the instants of the attempts, so no window of that length has more attempts than the
limit. Rules with a limit above 64 group attempts into 64 slots per window, so that rows stay small. An attempt then
counts from the end of its slot, up to 1/64 of the window longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import sqlalchemy as sa

from daybreak.state.columns import json_of
from daybreak.state.schema import throttle
from daybreak.state.statements import Store, insert_into


@dataclass(frozen=True, slots=True)
class ThrottleRule:
    """At most `limit` attempts in any `window_seconds` for one `key`."""

    key: str
    limit: int
    window_seconds: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """The rule that refuses attempts, and the time until it allows them."""

    rule: ThrottleRule
    wait_seconds: int


_EXACT_LIMIT = 64
_SLOTS = 64
_SECOND = 1_000_000
_CLOCK_DIFFERENCE = 60 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_Hits = list[list[int]]

# Built once: building these statements takes longer than running them.
_COUNT = (
    sa.update(throttle)
    .where(throttle.c.key == sa.bindparam("k"), throttle.c.window_seconds == sa.bindparam("w"))
    .values(hits=sa.bindparam("new_hits"), over_at=sa.bindparam("new_over_at"))
)
_DELETE = sa.delete(throttle).where(throttle.c.key == sa.bindparam("k"), throttle.c.window_seconds == sa.bindparam("w"))
_CLEAR = sa.delete(throttle).where(throttle.c.key == sa.bindparam("k"))


@cache
def _locking(dialect: str) -> sa.Executable:
    """Return the statement that inserts a row or locks an existing one unchanged, and returns its hits."""
    return (
        insert_into(throttle, dialect)
        .on_conflict_do_update(index_elements=["key", "window_seconds"], set_={"hits": throttle.c.hits})
        .returning(throttle.c.hits)
    )


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _slot(rule: ThrottleRule, now_us: int) -> int:
    """Return the instant to record for an attempt now: the exact time, or the end of its slot."""
    if rule.limit <= _EXACT_LIMIT:
        return now_us
    width = max(1, rule.window_seconds * _SECOND // _SLOTS)
    return -(-now_us // width) * width


def _in_window(rule: ThrottleRule, hits: _Hits, now_us: int) -> _Hits:
    """Return the attempts in the current window.

    Attempts in the future are ignored, so that a clock that was ahead does not extend a delay. The clocks of two
    nodes may differ by a minute.
    """
    window_us = rule.window_seconds * _SECOND
    latest = now_us + window_us // _SLOTS + _CLOCK_DIFFERENCE
    return [hit for hit in hits if now_us - window_us < hit[0] <= latest]


def _wait_seconds(rule: ThrottleRule, counted: _Hits, now_us: int, attempts: int) -> int:
    """Return the time until that many attempts are allowed, rounded up; 0 for now."""
    excess = sum(count for _, count in counted) + attempts - 1 - rule.limit
    wait_us = 0
    for at_us, count in counted:
        if excess < 0:
            break
        excess -= count
        wait_us = at_us + rule.window_seconds * _SECOND - now_us
    return max(-(-wait_us // _SECOND), 0) if excess < 0 else rule.window_seconds


class ThrottleStore(Store):
    """Attempt counters, shared by all workers and nodes."""

    def count(self, rules: Sequence[ThrottleRule], now: datetime, *, attempts: int = 1) -> Refusal | None:
        """Count attempts against every rule, atomically. Returns the refusal with the longest wait, None when all rules
        allow them. Refused attempts are not counted.
        """
        if not rules:
            return None
        # The same order in every transaction, so that two never deadlock.
        ordered = sorted(set(rules), key=lambda rule: (rule.key, rule.window_seconds))
        now_us = _microseconds(now)
        stored = self._lock(ordered, now)
        refusal: Refusal | None = None
        changes = []
        for rule in ordered:
            counted = _in_window(rule, stored[rule.key, rule.window_seconds], now_us)
            wait_seconds = _wait_seconds(rule, counted, now_us, attempts)
            if wait_seconds > (0 if refusal is None else refusal.wait_seconds):
                refusal = Refusal(rule, wait_seconds)
            slot = _slot(rule, now_us)
            if counted and counted[-1][0] == slot:
                counted[-1][1] += attempts
            else:
                counted.append([slot, attempts])
            over_at = _EPOCH + timedelta(microseconds=slot + rule.window_seconds * _SECOND)
            changes.append(
                {"k": rule.key, "w": rule.window_seconds, "new_hits": sorted(counted), "new_over_at": over_at}
            )
        if refusal is not None:
            # A refused attempt must not create rows: invented emails could fill the disk.
            created = [{"k": key, "w": window} for (key, window), hits in stored.items() if not hits]
            if created:
                self._execute(_DELETE, created)
        else:
            self._execute(_COUNT, changes)
        return refusal

    def clear(self, key: str) -> None:
        self._execute(_CLEAR, {"k": key})

    def delete_expired(self, before: datetime) -> int:
        return self._changes(sa.delete(throttle).where(throttle.c.over_at < before))

    def _lock(self, rules: Sequence[ThrottleRule], now: datetime) -> dict[tuple[str, int], _Hits]:
        """Lock the row of each rule until the transaction ends, and return the stored attempts."""
        lock = _locking(self._connection.dialect.name)
        stored: dict[tuple[str, int], _Hits] = {}
        for rule in rules:
            row = {"key": rule.key, "window_seconds": rule.window_seconds, "hits": [], "over_at": now}
            hits = self._execute(lock, row).scalar_one()
            stored[rule.key, rule.window_seconds] = json_of(hits)
        return stored
