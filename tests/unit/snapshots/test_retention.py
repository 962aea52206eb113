"""Which snapshots may lose their files: never one that a live link can reach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.retention import may_go

FOUR = datetime(2026, 11, 20, 4, tzinfo=UTC)


def chain(*published: datetime) -> list[Snapshot]:
    """Snapshots by publication, newest first; the newest is the served one."""
    ordered = sorted(published, reverse=True)
    return [
        Snapshot(
            snapshot_id=f"00000000-0000-4000-8000-{place:012d}",
            state=SnapshotState.RETIRED if place else SnapshotState.PUBLISHED,
            as_of=instant,
            started_at=instant,
            published_at=instant,
        )
        for place, instant in enumerate(ordered)
    ]


def test_the_last_ones_are_kept() -> None:
    snapshots = chain(*(FOUR - timedelta(days=back) for back in range(5)))
    going = may_go(snapshots, RunPlan(keep=3), FOUR + timedelta(hours=1))
    assert [s.snapshot_id for s in going] == [s.snapshot_id for s in snapshots[3:]]


def test_a_snapshot_goes_when_no_link_to_it_can_live_and_not_a_moment_earlier() -> None:
    plan = RunPlan(keep=1, link_lifetime=timedelta(minutes=15), link_margin=timedelta(minutes=10))
    snapshots = chain(FOUR, FOUR - timedelta(days=1))
    reach = timedelta(minutes=25)
    assert may_go(snapshots, plan, FOUR + reach - timedelta(microseconds=1)) == []
    assert may_go(snapshots, plan, FOUR + reach) == snapshots[1:]


def test_the_served_snapshot_never_goes() -> None:
    assert may_go(chain(FOUR), RunPlan(keep=0), FOUR + timedelta(days=900)) == []


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=12, unique=True),
    st.integers(0, 5),
    st.integers(1, 2000),
    st.integers(-100, 20_000),
)
def test_no_link_that_was_given_while_a_snapshot_was_served_loses_its_files(
    minutes: list[int], keep: int, lifetime: int, now_minute: int
) -> None:
    snapshots = chain(*(FOUR + timedelta(minutes=minute) for minute in minutes))
    plan = RunPlan(keep=keep, link_lifetime=timedelta(minutes=lifetime))
    now = FOUR + timedelta(minutes=now_minute)
    going = may_go(snapshots, plan, now)
    for snapshot in going:
        follower = snapshots[snapshots.index(snapshot) - 1]
        last_link_given = follower.published_at
        assert last_link_given is not None
        assert last_link_given + plan.link_lifetime < now
