"""Runs: claims, leases, fences, and the pointer to the served snapshot."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from daybreak.domain.errors import Conflict, NotFound, RunFenced
from daybreak.domain.run_report import RunProgress, RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.state.database import Database
from daybreak.state.stores import Stores
from tests.integration.state.values import DAY, LEASE_SECONDS, MINUTE, NOW, complete_run, entry, run, uuid
from tests.parts.waiting import PATIENT_SECONDS


def claim(state: Database, number: int, now_minutes: float = 0) -> Snapshot | None:
    return state.write(
        lambda stores: stores.snapshots.claim_day(run(number), NOW + now_minutes * MINUTE, LEASE_SECONDS)
    )


def existing(snapshot: Snapshot | None) -> Snapshot:
    assert snapshot is not None
    return snapshot


def finish(state: Database, snapshot: Snapshot, end: SnapshotState) -> None:
    state.write(
        lambda stores: stores.snapshots.finish(
            snapshot.snapshot_id, snapshot.fence, end, NOW, report=RunReport(code="disk_short"), failure="disk"
        )
    )


def publish(state: Database, snapshot: Snapshot, *, fence: int | None = None, reason: str | None = None) -> None:
    state.write(
        lambda stores: stores.snapshots.publish(snapshot.snapshot_id, fence, NOW + MINUTE, accepted_reason=reason)
    )


def test_day_is_claimed_once_while_its_lease_is_valid(state: Database) -> None:
    first = existing(claim(state, 1))
    assert (first.state, first.builder, first.day) == (SnapshotState.BUILDING, "builder 1", DAY)
    assert first.lease_until == NOW + MINUTE
    assert first.heartbeat_at == NOW
    assert claim(state, 2, 0.9) is None
    assert state.read(lambda stores: stores.snapshots.of_day(DAY)) == first


def test_expired_lease_is_taken_over_and_old_builder_fenced(state: Database) -> None:
    old = existing(claim(state, 1))
    new = existing(claim(state, 2, 1.5))
    assert new.fence > old.fence
    lost = state.read(lambda stores: stores.snapshots.get(old.snapshot_id))
    assert lost is not None
    assert (lost.state, lost.failure is not None) == (SnapshotState.FAILED, True)
    assert not state.write(
        lambda stores: stores.snapshots.renew(old.snapshot_id, old.fence, NOW, LEASE_SECONDS, RunProgress())
    )

    def refused(work: object) -> None:
        with pytest.raises(RunFenced):
            state.write(work)  # type: ignore[arg-type]

    old_key = (old.snapshot_id, old.fence)
    refused(lambda stores: stores.snapshots.add_entries(*old_key, [entry(uuid(1), uuid(1), "members")]))
    refused(lambda stores: stores.snapshots.add_leaders(*old_key, [uuid(1)]))
    refused(lambda stores: stores.snapshots.finish(*old_key, SnapshotState.COMPLETE, NOW, report=RunReport()))
    refused(lambda stores: stores.snapshots.publish(*old_key, NOW))
    refused(lambda stores: stores.snapshots.add_leaders(new.snapshot_id, old.fence, [uuid(1)]))
    refused(lambda stores: stores.snapshots.publish(new.snapshot_id, old.fence, NOW))
    assert list(state.read(lambda stores: list(stores.snapshots.entries(old.snapshot_id)))) == []


def test_renewed_lease_stores_progress_and_blocks_claims(state: Database) -> None:
    first = existing(claim(state, 1))
    progress = RunProgress(resource="members", rows=12)
    assert state.write(
        lambda stores: stores.snapshots.renew(first.snapshot_id, first.fence, NOW + MINUTE, LEASE_SECONDS, progress)
    )
    assert claim(state, 2, 1.9) is None
    found = existing(state.read(lambda stores: stores.snapshots.get(first.snapshot_id)))
    assert (found.progress, found.heartbeat_at, found.lease_until) == (progress, NOW + MINUTE, NOW + 2 * MINUTE)


@pytest.mark.parametrize("end", [SnapshotState.COMPLETE, SnapshotState.HELD])
def test_completed_day_is_not_claimed_again(state: Database, end: SnapshotState) -> None:
    first = existing(claim(state, 1))
    finish(state, first, end)
    assert claim(state, 2, 100) is None
    publish(state, first, fence=first.fence, reason="checked the rows")
    assert claim(state, 3, 200) is None
    state.write(lambda stores: complete_run(stores, 9))
    publish(state, run(9))
    assert claim(state, 4, 300) is None, "the snapshot of the day is retired"


def test_discarded_day_is_not_claimed_again(state: Database) -> None:
    first = existing(claim(state, 1))
    finish(state, first, SnapshotState.HELD)
    state.write(lambda stores: stores.snapshots.discard(first.snapshot_id, NOW, "half of the rows are missing"))
    assert claim(state, 2, 1) is None
    found = existing(state.read(lambda stores: stores.snapshots.get(first.snapshot_id)))
    assert found.state is SnapshotState.DISCARDED
    assert "half of the rows are missing" in (found.failure or "")
    with pytest.raises(Conflict):
        publish(state, first, reason="after all")


def test_day_with_a_failed_run_is_claimed_again(state: Database) -> None:
    first = existing(claim(state, 1))
    finish(state, first, SnapshotState.FAILED)
    second = existing(claim(state, 2))
    assert second.fence > first.fence
    assert existing(state.read(lambda stores: stores.snapshots.of_day(DAY))).snapshot_id == second.snapshot_id
    failed = existing(state.read(lambda stores: stores.snapshots.get(first.snapshot_id)))
    assert (failed.failure, failed.report, failed.finished_at) == ("disk", RunReport(code="disk_short"), NOW)
    assert state.read(lambda stores: stores.snapshots.abandoned()) == [failed]


def test_manual_runs_do_not_claim_the_day(state: Database) -> None:
    state.write(lambda stores: complete_run(stores, 1))
    assert claim(state, 2) is not None
    assert [one.snapshot_id for one in state.read(lambda stores: stores.snapshots.recent())] == [uuid(2), uuid(1)]
    assert len(state.read(lambda stores: stores.snapshots.recent(1))) == 1


def test_runs_with_an_expired_lease_are_marked_failed(state: Database) -> None:
    first = existing(claim(state, 1))
    assert state.write(lambda stores: stores.snapshots.lapse(NOW + MINUTE - timedelta(microseconds=1))) == []
    lapsed = state.write(lambda stores: stores.snapshots.lapse(NOW + MINUTE))
    assert [(one.snapshot_id, one.state) for one in lapsed] == [(first.snapshot_id, SnapshotState.FAILED)]
    assert state.write(lambda stores: stores.snapshots.lapse(NOW + 2 * MINUTE)) == []


def test_lease_from_before_a_step_of_the_clock_has_lapsed(state: Database) -> None:
    """The builder died, and nothing renews the lease with the new time."""
    first = existing(claim(state, 1))
    # Clocks of two builders differ by less.
    assert first.is_running(NOW - 10 * MINUTE)
    assert claim(state, 2, -10) is None
    assert state.write(lambda stores: stores.snapshots.lapse(NOW - 10 * MINUTE)) == []
    assert not first.is_running(NOW - 11 * MINUTE)
    second = existing(claim(state, 2, -60))
    assert second.lease_until == NOW - 59 * MINUTE
    lapsed = state.write(lambda stores: stores.snapshots.lapse(NOW - 120 * MINUTE))
    assert [one.snapshot_id for one in lapsed] == [second.snapshot_id]


def test_publication_retires_the_previous_snapshot(state: Database) -> None:
    assert state.read(lambda stores: stores.snapshots.current()) is None
    for number in (1, 2):
        state.write(lambda stores, number=number: complete_run(stores, number))  # type: ignore[misc]
        publish(state, run(number))
    current = existing(state.read(lambda stores: stores.snapshots.current()))
    assert (current.snapshot_id, current.state, current.published_at) == (
        uuid(2), SnapshotState.PUBLISHED, NOW + MINUTE,
    )  # fmt: skip
    served = state.read(lambda stores: stores.snapshots.served())
    assert [(one.snapshot_id, one.state) for one in served] == [
        (uuid(2), SnapshotState.PUBLISHED),
        (uuid(1), SnapshotState.RETIRED),
    ]


def test_versions_grow_by_one_for_each_publication(state: Database) -> None:
    for number in (1, 2, 3, 4):
        state.write(lambda stores, number=number: complete_run(stores, number))  # type: ignore[misc]

    def publish_and_fail(stores: Stores) -> None:
        stores.snapshots.publish(uuid(1), None, NOW)
        raise Conflict("failed")

    with pytest.raises(Conflict, match="failed"):
        state.write(publish_and_fail)
    for number in (1, 3, 4):
        publish(state, run(number))
    versions = {one.snapshot_id: one.version for one in state.read(lambda stores: stores.snapshots.recent())}
    assert versions == {uuid(1): 1, uuid(2): None, uuid(3): 2, uuid(4): 3}
    file = state.read(lambda stores: stores.snapshots.file(uuid(3), uuid(1), "members", "csv"))
    assert file is not None
    assert file.version == 2


def test_only_newer_complete_snapshots_are_published(state: Database) -> None:
    state.write(lambda stores: complete_run(stores, 1))
    state.write(lambda stores: complete_run(stores, 2, as_of=NOW - timedelta(seconds=1)))
    state.write(lambda stores: complete_run(stores, 3))
    publish(state, run(1))
    building = existing(claim(state, 4))
    for number in (1, 2, 4):
        with pytest.raises(Conflict):
            publish(state, run(number))
    with pytest.raises(NotFound):
        publish(state, run(99))
    publish(state, run(3))
    with pytest.raises(Conflict):
        publish(state, run(1))
    with pytest.raises(Conflict):
        publish(state, building, fence=building.fence)
    assert existing(state.read(lambda stores: stores.snapshots.current())).snapshot_id == uuid(3)


def test_concurrent_publications_are_made_one_after_the_other(state: Database) -> None:
    """The second one compares itself with the first, and not with the snapshot that was published before both."""
    for number, minutes in ((1, 0), (2, 1), (3, 2)):
        state.write(lambda stores, n=number, m=minutes: complete_run(stores, n, as_of=NOW + m * MINUTE))  # type: ignore[misc]
    publish(state, run(1))
    written, second_began = threading.Event(), threading.Event()

    def publish_slowly(stores: Stores) -> None:
        stores.snapshots.publish(uuid(3), None, NOW + MINUTE)
        written.set()
        second_began.wait(PATIENT_SECONDS)
        # The second transaction reaches its lock meanwhile.
        time.sleep(0.5)

    def publish_older() -> None:
        written.wait(PATIENT_SECONDS)
        second_began.set()
        publish(state, run(2))

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(state.write, publish_slowly), pool.submit(publish_older)
        first.result()
        with pytest.raises(Conflict, match="older"):
            second.result()
    assert existing(state.read(lambda stores: stores.snapshots.current())).snapshot_id == uuid(3)


def test_held_run_is_published_only_with_a_reason(state: Database) -> None:
    first = existing(claim(state, 1))
    finish(state, first, SnapshotState.HELD)
    for reason in (None, "", "  "):
        with pytest.raises(Conflict):
            publish(state, first, reason=reason)
    publish(state, first, reason="a Leader left")
    assert existing(state.read(lambda stores: stores.snapshots.current())).accepted_reason == "a Leader left"


def test_only_a_completed_run_is_discarded(state: Database) -> None:
    first = existing(claim(state, 1))
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.snapshots.discard(first.snapshot_id, NOW, "no"))
    with pytest.raises(NotFound):
        state.write(lambda stores: stores.snapshots.discard(uuid(99), NOW, "no"))
    finish(state, first, SnapshotState.COMPLETE)
    with pytest.raises(RunFenced):
        finish(state, first, SnapshotState.COMPLETE)
