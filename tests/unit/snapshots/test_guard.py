"""What holds a snapshot back, and what does not."""

from __future__ import annotations

from daybreak.snapshots.guard import null_growth, row_drops
from daybreak.snapshots.plan import GuardRules

RULES = GuardRules(drop_share=0.3, drop_least_rows=10, null_share=0.2)


def report(rows: int, **nulls: int) -> dict[str, object]:
    return {"resources": {"members": {"rows": rows, "nulls": nulls}}}


def test_a_drop_beyond_the_share_is_found_and_one_at_the_share_is_not() -> None:
    assert list(row_drops(report(1000), report(700), RULES)) == []
    (found,) = row_drops(report(1000), report(699), RULES)
    assert (found.kind, found.resource, found.before, found.now) == ("rows", "members", 1000, 699)
    assert "699 rows where it had 1000" in found.detail


def test_a_resource_that_vanished_is_found() -> None:
    (found,) = row_drops(report(1000), {"resources": {}}, RULES)
    assert found.now == 0


def test_leaders_that_vanish_are_found_however_few_rows_they_had() -> None:
    before, now = ({**report(1000), "leaders": number} for number in (500, 40))
    (found,) = row_drops(before, now, RULES)
    assert (found.kind, found.resource, found.before, found.now) == ("rows", "leaders", 500, 40)
    assert list(row_drops(before, {**now, "leaders": 350}, RULES)) == []


def test_small_resources_and_growth_are_left_alone() -> None:
    assert list(row_drops(report(9), report(0), RULES)) == []
    assert list(row_drops(report(1000), report(5000), RULES)) == []


def test_a_column_that_turned_to_null_is_found() -> None:
    (found,) = null_growth(report(100, EMAIL=10), report(100, EMAIL=31), RULES)
    assert (found.kind, found.column, found.before, found.now) == ("nulls", "EMAIL", 0.1, 0.31)
    assert list(null_growth(report(100, EMAIL=10), report(100, EMAIL=30), RULES)) == []
    assert list(null_growth(report(100), report(100, NEW=100), RULES)) == [], "a new column has no history"
