"""Retention: snapshots whose files may be deleted have no valid link."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.retention import expired_snapshots
from tests.configured import configured

FOUR = datetime(2026, 11, 20, 4, tzinfo=UTC)


def chain(*published: datetime) -> list[Snapshot]:
    """Return snapshots by publication, newest first. The newest is published, the others are retired."""
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


def test_recent_snapshots_are_kept() -> None:
    snapshots = chain(*(FOUR - timedelta(days=back) for back in range(5)))
    expired = expired_snapshots(snapshots, configured(snapshot={"keep": 3}), FOUR + timedelta(hours=1))
    assert [s.snapshot_id for s in expired] == [s.snapshot_id for s in snapshots[3:]]


def test_snapshot_expires_with_its_last_link() -> None:
    link_validity = timedelta(minutes=25)
    for keep in (1, 3):
        settings = configured(snapshot={"keep": keep}, access={"link_lifetime": timedelta(minutes=15)})
        snapshots = chain(*(FOUR - timedelta(days=back) for back in range(keep + 1)))
        assert expired_snapshots(snapshots, settings, FOUR + link_validity - timedelta(microseconds=1)) == []
        assert expired_snapshots(snapshots, settings, FOUR + link_validity) == snapshots[keep:]


def test_published_snapshot_never_expires() -> None:
    assert expired_snapshots(chain(FOUR), configured(snapshot={"keep": 0}), FOUR + timedelta(days=900)) == []


@given(
    st.lists(st.integers(0, 10_000), min_size=1, max_size=12, unique=True),
    st.integers(0, 5),
    st.integers(1, 2000),
    st.integers(-100, 20_000),
)
def test_valid_links_keep_their_files(minutes: list[int], keep: int, lifetime: int, now_minute: int) -> None:
    snapshots = chain(*(FOUR + timedelta(minutes=minute) for minute in minutes))
    settings = configured(snapshot={"keep": keep}, access={"link_lifetime": timedelta(minutes=lifetime)})
    now = FOUR + timedelta(minutes=now_minute)
    expired = expired_snapshots(snapshots, settings, now)
    for snapshot in expired:
        follower = snapshots[snapshots.index(snapshot) - max(keep, 1)]
        last_link_issued = follower.published_at
        assert last_link_issued is not None
        assert last_link_issued + settings.access.link_lifetime < now
