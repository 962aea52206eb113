"""What holds a snapshot back, and what does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.snapshot import ManifestEntry
from daybreak.snapshots.guard import leader_drops, null_growth, row_drops
from daybreak.snapshots.plan import GuardRules

RULES = GuardRules(drop_share=0.3, drop_least_rows=10, leader_drop_share=0.5, leader_least_rows=100, null_share=0.2)


def report(rows: int, **nulls: int) -> dict[str, object]:
    return {"resources": {"members": {"rows": rows, "nulls": nulls}}}


def entry(client_id: str, rows: int) -> ManifestEntry:
    return ManifestEntry(client_id, "members", rows, "", {})


def test_a_drop_beyond_the_share_is_found_and_one_at_the_share_is_not() -> None:
    assert list(row_drops(report(1000), report(700), RULES)) == []
    (found,) = row_drops(report(1000), report(699), RULES)
    assert (found.kind, found.resource, found.before, found.now) == ("rows", "members", 1000, 699)
    assert "699 rows where it had 1000" in found.detail


def test_a_resource_that_vanished_is_found() -> None:
    (found,) = row_drops(report(1000), {"resources": {}}, RULES)
    assert found.now == 0


def test_small_resources_and_growth_are_left_alone() -> None:
    assert list(row_drops(report(9), report(0), RULES)) == []
    assert list(row_drops(report(1000), report(5000), RULES)) == []


def test_a_column_that_turned_to_null_is_found() -> None:
    (found,) = null_growth(report(100, EMAIL=10), report(100, EMAIL=31), RULES)
    assert (found.kind, found.column, found.before, found.now) == ("nulls", "EMAIL", 0.1, 0.31)
    assert list(null_growth(report(100, EMAIL=10), report(100, EMAIL=30), RULES)) == []
    assert list(null_growth(report(100), report(100, NEW=100), RULES)) == [], "a new column has no history"


def test_a_large_leader_that_lost_its_rows_is_found_and_small_ones_are_not() -> None:
    before = [entry("", 0), entry("a", 1000), entry("b", 99), entry("c", 1000), entry("d", 1000)]
    now = [entry("", 0), entry("a", 499), entry("bb", 5), entry("d", 500)]
    found = list(leader_drops("members", before, now, RULES))
    assert [(f.client_id, f.now) for f in found] == [("a", 499), ("c", 0)]


rows_by_leader = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 500), max_size=12)


@given(rows_by_leader, rows_by_leader)
def test_leaders_are_compared_as_two_tables_would_be(before: dict[str, int], now: dict[str, int]) -> None:
    expected = [
        name
        for name in sorted(before)
        if before[name] >= RULES.leader_least_rows
        and before[name] - now.get(name, 0) > RULES.leader_drop_share * before[name]
    ]
    found = leader_drops(
        "members",
        [entry(name, before[name]) for name in sorted(before)],
        [entry(name, now[name]) for name in sorted(now)],
        RULES,
    )
    assert [f.client_id for f in found] == expected
