"""The audit trail."""

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.ports.state import Stores
from daybreak.state.database import Database
from daybreak.state.postgresql_state import PostgresqlState, blocking_engine
from daybreak.state.sqlite_file import sqlite_engine
from tests.integration.state.values import MINUTE, NOW, uuid


def events(stores: Stores) -> None:
    for number in range(6):
        stores.audit.append(
            AuditEvent(
                at=NOW + number * MINUTE,
                action="link.issued" if number % 2 else "login",
                result="ok" if number else "invalid_credentials",
                actor=f"seat{number % 2}@example.org",
                seat_id=uuid(number % 2),
                client_id=uuid(0xA) if number < 4 else None,
                subject="session:1",
                address="192.0.2.1",
                user_agent="curl/8",
                request_id=f"r{number}",
                details={"file": "members.csv.gz", "bytes": number, "deep": [1, {"é": None}]},
            )
        )


def test_event_round_trips(state: Database) -> None:
    state.write(events)
    first = state.read(lambda stores: stores.audit.read(AuditQuery(limit=1)))[0]
    assert first == AuditEvent(
        at=NOW, action="login", result="invalid_credentials", actor="seat0@example.org", seat_id=uuid(0),
        client_id=uuid(0xA), subject="session:1", address="192.0.2.1", user_agent="curl/8", request_id="r0",
        details={"file": "members.csv.gz", "bytes": 0, "deep": [1, {"é": None}]}, event_id=first.event_id,
    )  # fmt: skip


def test_read_filters_orders_and_pages(state: Database) -> None:
    state.write(events)

    def ids(**filters: object) -> list[str]:
        found = state.read(lambda stores: stores.audit.read(AuditQuery(**filters)))  # type: ignore[arg-type]
        return [event.request_id for event in found]

    assert ids() == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert ids(newest_first=True, limit=2) == ["r5", "r4"]
    assert ids(client_id=uuid(0xA), seat_id=uuid(1)) == ["r1", "r3"]
    assert ids(actor="seat0@example.org", action="login") == ["r0", "r2", "r4"]
    assert ids(action="link.") == ["r1", "r3", "r5"]
    assert ids(action="link.*") == ["r1", "r3", "r5"]
    assert ids(action="link") == []
    assert ids(since=NOW + MINUTE, until=NOW + 3 * MINUTE) == ["r1", "r2"]
    third = state.read(lambda stores: stores.audit.read(AuditQuery()))[2].event_id
    assert ids(after_id=third) == ["r3", "r4", "r5"]
    assert ids(after_id=third, newest_first=True) == ["r1", "r0"]


def test_database_refuses_changes_to_the_audit_trail(state: Database, state_url: str) -> None:
    state.write(events)
    attempts = ["UPDATE audit_events SET actor = 'x'", "DELETE FROM audit_events"]
    if isinstance(state, PostgresqlState):
        attempts.append("TRUNCATE audit_events")
    engine = blocking_engine(state_url) if isinstance(state, PostgresqlState) else sqlite_engine(Path(state_url[10:]))
    try:
        for attempt in attempts:
            with pytest.raises(sa.exc.IntegrityError, match="audit events are"), engine.begin() as connection:
                connection.exec_driver_sql(attempt)
    finally:
        engine.dispose()
    assert len(state.read(lambda stores: stores.audit.read(AuditQuery()))) == 6


def test_only_events_past_their_retention_are_deleted(state: Database) -> None:
    state.write(events)
    assert state.write(lambda stores: stores.audit.delete_before(NOW + 3 * MINUTE, at_most=2)) == 2
    assert state.write(lambda stores: stores.audit.delete_before(NOW + 3 * MINUTE, at_most=2)) == 1
    assert state.write(lambda stores: stores.audit.delete_before(NOW - timedelta(days=1))) == 0
    kept = state.read(lambda stores: stores.audit.read(AuditQuery()))
    assert [event.request_id for event in kept] == ["r3", "r4", "r5"]
