"""Runs that operators request, and publications since an instant."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date, datetime, timedelta

import pytest

from daybreak.domain.audit import AuditQuery
from daybreak.domain.errors import OperatorError
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.run_requests import REQUEST_LIFETIME, request_run, take_request
from daybreak.state.database import Database
from daybreak.state.run_requests import RunRequest, RunRequestStore
from tests.integration.state.values import DAY, LEASE_SECONDS, MINUTE, NOW, uuid
from tests.parts.postgresql import is_blocked
from tests.parts.waiting import wait_until


def begin(state: Database, number: int, day: date | None) -> Snapshot:
    snapshot = Snapshot(uuid(number), SnapshotState.BUILDING, NOW, started_at=NOW, day=day, builder="north")
    if day is None:
        return state.write(lambda stores: stores.snapshots.begin_manual(snapshot, NOW, LEASE_SECONDS))
    begun = state.write(lambda stores: stores.snapshots.claim_day(snapshot, NOW, LEASE_SECONDS))
    assert begun is not None
    return begun


def finish(state: Database, run: Snapshot, outcome: SnapshotState) -> None:
    state.write(lambda stores: stores.snapshots.finish(run.snapshot_id, run.fence, outcome, NOW, report=RunReport()))


def test_request_is_taken_once(state: Database) -> None:
    request_run(state, NOW, request_id=uuid(1), actor="op@example.org")
    taken = take_request(state, NOW + MINUTE)
    assert taken is not None
    assert (taken.request_id, taken.requested_by, taken.day) == (uuid(1), "op@example.org", None)
    assert take_request(state, NOW + MINUTE) is None
    assert not state.write(lambda stores: stores.run_requests.take(uuid(1), NOW))
    (event,) = state.read(lambda stores: stores.audit.read(AuditQuery(action="run.requested")))
    assert (event.actor, event.subject) == ("op@example.org", uuid(1))


def test_old_request_has_no_effect(state: Database) -> None:
    request_run(state, NOW, request_id=uuid(1), actor="op")
    later = NOW + REQUEST_LIFETIME + MINUTE
    assert take_request(state, later) is None
    request_run(state, later, request_id=uuid(2), actor="op")
    assert state.write(lambda stores: stores.run_requests.delete_before(later)) == 1


def test_second_request_is_refused(state: Database) -> None:
    request_run(state, NOW, request_id=uuid(1), actor="op")
    with pytest.raises(OperatorError, match="already requested"):
        request_run(state, NOW, request_id=uuid(2), actor="op")


def test_second_request_at_the_same_time_is_refused(
    migrated_postgresql_url: str, open_database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite allows only one writer."""
    state, url = open_database(migrated_postgresql_url), migrated_postgresql_url
    waiting, numbers, others = RunRequestStore.waiting, [2], list[Future[RunRequest]]()

    def waiting_during_another(store: RunRequestStore, since: datetime) -> list[RunRequest]:
        found = waiting(store, since)
        if numbers:
            others.append(executor.submit(request_run, state, NOW, request_id=uuid(numbers.pop()), actor="other"))
            wait_until(lambda: others[0].done() or is_blocked(url), what="the other request, or its wait for a lock")
        return found

    monkeypatch.setattr(RunRequestStore, "waiting", waiting_during_another)
    with ThreadPoolExecutor(1) as executor:
        request_run(state, NOW, request_id=uuid(1), actor="op")
        with pytest.raises(OperatorError, match="already requested"):
            others[0].result()


def test_request_during_a_run_is_refused(state: Database) -> None:
    run = begin(state, 1, None)
    with pytest.raises(OperatorError, match="already under way"):
        request_run(state, NOW, request_id=uuid(2), actor="op")
    finish(state, run, SnapshotState.COMPLETE)
    request_run(state, NOW, request_id=uuid(2), actor="op")


def test_only_a_failed_day_is_repeated(state: Database) -> None:
    with pytest.raises(OperatorError, match="has not failed"):
        request_run(state, NOW, request_id=uuid(9), actor="op", day=DAY)
    finish(state, begin(state, 1, DAY), SnapshotState.FAILED)
    assert request_run(state, NOW, request_id=uuid(9), actor="op", day=DAY).day == DAY
    taken = take_request(state, NOW)
    assert taken is not None
    assert taken.day == DAY


def test_publications_since_an_instant_are_newest_first(state: Database) -> None:
    for number in range(3):
        run = begin(state, number, None)
        finish(state, run, SnapshotState.COMPLETE)
        at = NOW + number * timedelta(days=1)
        state.write(lambda stores, run=run, at=at: stores.snapshots.publish(run.snapshot_id, run.fence, at))  # type: ignore[misc]
    found = state.read(lambda stores: stores.snapshots.published_since(NOW + timedelta(days=1)))
    assert [each.snapshot_id for each in found] == [uuid(2), uuid(1)]
