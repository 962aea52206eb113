"""Events that runs, publications and late files add to the outbox."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from daybreak.domain.errors import RunError, SourceError, SourceUnavailable
from daybreak.domain.events import Event, EventType
from daybreak.snapshots import guard
from daybreak.snapshots.lateness_log import record_lateness
from daybreak.snapshots.publish import accept
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import last_due, publication_of
from tests.configured import configured
from tests.small_platform import SmallSource, leader_ids, platform_of, write_platform


def _outbox(context: RunContext) -> list[Event]:
    return [entry.event for entry in context.state.read(lambda stores: stores.outbox.incomplete(100))]


def _fail(context: RunContext, error: Exception) -> None:
    def act(_resource: str) -> None:
        raise error

    cast("SmallSource", context.source).on_resource = [act]


def test_publication_adds_one_event(run_context: RunContext) -> None:
    done = run_manually(run_context)
    (event,) = _outbox(run_context)
    assert (event.type, event.at) == (EventType.SNAPSHOT_PUBLISHED, done.published_at)
    assert (event.data["snapshot_id"], event.data["version"]) == (done.snapshot_id, 1)


def test_held_snapshot_adds_an_event_and_its_acceptance_another(
    folder: Path, run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MIN_ROWS", 1)
    context = replace(run_context, settings=configured(guard={"leader_min_rows": 3, "max_leader_drop_share": 0.4}))
    run_manually(context)
    platform = platform_of()
    platform[leader_ids(3)[0]]["members"] = []
    write_platform(folder / "platform.json", platform)
    held = run_manually(context)
    event = _outbox(context)[-1]
    assert (event.type, event.data["snapshot_id"]) == (EventType.SNAPSHOT_HELD, held.snapshot_id)
    assert event.data["finding_count"] == 2
    accept(context.state, context.store, context.settings, held.snapshot_id, "a Leader left", context.clock())
    assert [each.type for each in _outbox(context)][-1] is EventType.SNAPSHOT_PUBLISHED


def test_terminal_failure_adds_an_event(run_context: RunContext) -> None:
    _fail(run_context, SourceError("The table members has no column email."))
    with pytest.raises(SourceError):
        run_manually(run_context)
    (event,) = _outbox(run_context)
    assert (event.type, event.data["code"]) == (EventType.SNAPSHOT_FAILED, "source_fault")


def test_transient_failures_add_an_event_with_the_last_attempt(run_context: RunContext) -> None:
    _fail(run_context, SourceUnavailable("The connection was lost."))
    with pytest.raises(SourceUnavailable):
        run_manually(run_context)
    assert [event.data["code"] for event in _outbox(run_context)] == ["source_unavailable"]


def test_day_that_fails_repeatedly_has_one_event(run_context: RunContext) -> None:
    day = last_due(run_context.clock(), run_context.settings.snapshot.publish_at)
    _fail(run_context, SourceError("The table members has no column email."))
    for _ in range(2):
        with pytest.raises(SourceError):
            run_day(run_context, day)
    assert len(_outbox(run_context)) == 1


def test_stopped_run_adds_no_event(run_context: RunContext) -> None:
    cast("SmallSource", run_context.source).on_resource = [lambda _resource: run_context.stop.set()]
    with pytest.raises(RunError):
        run_manually(run_context)
    assert _outbox(run_context) == []


def test_late_files_add_one_event_a_day_and_one_when_they_arrive(run_context: RunContext) -> None:
    publish_at = run_context.settings.snapshot.publish_at
    day = last_due(run_context.clock(), publish_at)
    due = publication_of(day, publish_at)
    state = run_context.state
    before = replace(run_context, clock=lambda: due - timedelta(hours=1))
    _fail(before, SourceUnavailable("The database is not reachable."))
    with pytest.raises(SourceUnavailable):
        run_manually(before)
    cast("SmallSource", run_context.source).on_resource = []
    assert record_lateness(state, due + timedelta(seconds=60), publish_at) is None
    late = record_lateness(state, due + timedelta(seconds=61), publish_at)
    assert late is not None
    assert (late.type, late.data["day"]) == (EventType.SNAPSHOT_LATE, day.isoformat())
    assert record_lateness(state, due + timedelta(hours=1), publish_at) is None
    run_manually(run_context)
    # The files were published now, and count for the day that is due.
    recovered = record_lateness(state, run_context.clock(), publish_at)
    assert recovered is not None
    assert (recovered.type, recovered.data["day"]) == (EventType.SNAPSHOT_RECOVERED, day.isoformat())
    assert record_lateness(state, run_context.clock(), publish_at) is None
    again = record_lateness(state, publication_of(day + timedelta(days=1), publish_at) + timedelta(hours=1), publish_at)
    assert again is not None
    assert again.type is EventType.SNAPSHOT_LATE


def test_day_of_the_installation_has_no_event(run_context: RunContext) -> None:
    publish_at = run_context.settings.snapshot.publish_at
    due = publication_of(last_due(run_context.clock(), publish_at), publish_at)
    assert record_lateness(run_context.state, due + timedelta(hours=1), publish_at) is None
    first = replace(run_context, clock=lambda: due + timedelta(hours=2))
    _fail(first, SourceUnavailable("The database is not reachable."))
    with pytest.raises(SourceUnavailable):
        run_manually(first)
    assert record_lateness(run_context.state, due + timedelta(hours=3), publish_at) is None
    late = record_lateness(run_context.state, due + timedelta(days=1, hours=1), publish_at)
    assert late is not None
    assert late.data["day"] == (due + timedelta(days=1)).date().isoformat()
