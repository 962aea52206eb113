"""Events of snapshots, for the outbox."""

from datetime import date, datetime

from daybreak.domain.events import Event, EventType, new_event
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Freshness, Snapshot

_MAX_FINDINGS = 20


def published_event(snapshot: Snapshot, at: datetime) -> Event:
    """Create the event of a publication. `snapshot` is as published."""
    data = {"snapshot_id": snapshot.snapshot_id, "version": snapshot.version, "as_of": _text(snapshot.as_of)}
    data["published_at"] = _text(at)
    return new_event(EventType.SNAPSHOT_PUBLISHED, snapshot.snapshot_id, at, data)


def held_event(snapshot: Snapshot, report: RunReport, at: datetime) -> Event:
    """Create the event of a snapshot that the guard blocked."""
    details = [each.detail for each in (report.findings or ())[:_MAX_FINDINGS]]
    data = {**_run(snapshot), "finding_count": report.findings_in_all, "findings": details}
    return new_event(EventType.SNAPSHOT_HELD, snapshot.snapshot_id, at, data)


def failed_event(snapshot: Snapshot, code: str, reason: str, at: datetime) -> Event:
    """Create the event of a run that failed terminally. The runs of a day that fail in the same way have one event."""
    key = snapshot.snapshot_id if snapshot.day is None else f"{snapshot.day.isoformat()}\n{code}"
    return new_event(EventType.SNAPSHOT_FAILED, key, at, {**_run(snapshot), "code": code, "reason": reason})


def late_event(day: date, fresh: Freshness, next_attempt_at: datetime | None, at: datetime) -> Event:
    """Create the event of a publication that is late. Each day has one.

    `next_attempt_at` is None while a run is in progress or about to start.
    """
    data = {
        "day": day.isoformat(),
        "reason": fresh.reason or "",
        "next_attempt_at": None if next_attempt_at is None else _text(next_attempt_at),
        "next_expected_at": _text(fresh.next_expected_at),
    }
    return new_event(EventType.SNAPSHOT_LATE, day.isoformat(), at, data)


def recovered_event(late: Event, snapshot: Snapshot | None, at: datetime) -> Event:
    """Create the event of files that arrived after `late`."""
    data: dict[str, object] = {"day": late.data["day"]}
    if snapshot is not None:
        data |= {"snapshot_id": snapshot.snapshot_id, "as_of": _text(snapshot.as_of)}
        data["published_at"] = None if snapshot.published_at is None else _text(snapshot.published_at)
    return new_event(EventType.SNAPSHOT_RECOVERED, late.event_id, at, data)


def _run(snapshot: Snapshot) -> dict[str, object]:
    return {
        "snapshot_id": snapshot.snapshot_id,
        "day": snapshot.day.isoformat() if snapshot.day is not None else None,
        "as_of": _text(snapshot.as_of),
    }


def _text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")
