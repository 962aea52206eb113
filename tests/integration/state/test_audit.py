"""The audit trail."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.database import Database
from daybreak.state.postgresql_state import PostgresqlState
from daybreak.state.stores import Stores
from tests.integration.state.values import MINUTE, NOW, sql_engine, uuid


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


def test_pages_and_counts_follow_the_filters(state: Database) -> None:
    state.write(events)

    def ids(**filters: object) -> list[str]:
        query = AuditQuery(newest_first=True, **filters)  # type: ignore[arg-type]
        return [event.request_id for event in state.read(lambda stores: stores.audit.read(query))]

    def count(at_most: int = 100, **filters: object) -> int:
        query = AuditQuery(**filters)  # type: ignore[arg-type]
        return state.read(lambda stores: stores.audit.count(query, at_most=at_most))

    assert ids(offset=2, limit=2) == ["r3", "r2"]
    newest = state.read(lambda stores: stores.audit.read(AuditQuery(newest_first=True, limit=1)))[0].event_id
    assert newest is not None
    assert ids(up_to_id=newest - 1, offset=1, limit=2) == ["r3", "r2"]
    assert ids(actor_contains="SEAT1@") == ["r5", "r3", "r1"]
    assert ids(actor_contains="%") == []
    assert ids(succeeded=False) == ["r0"]
    assert ids(succeeded=True, limit=2) == ["r5", "r4"]
    assert (count(), count(at_most=4), count(client_id=uuid(0xA)), count(actor_contains="seat1")) == (6, 4, 4, 3)


def test_sign_ins_without_account_belong_to_the_accounts_of_the_seat(state: Database) -> None:
    def write(stores: Stores) -> None:
        stores.directory.put_accounts(Account(uuid(0xA), "A", "", "+12125550100", "toll_free"))
        for number in (0, 1):
            stores.directory.put_seats(Seat(uuid(number), f"seat{number}@example.org", None))
        stores.directory.put_grants(Grant(uuid(0), uuid(0xA), ("owner",), data_export=True, async_rest_api=True))
        for number, (action, seat, client) in enumerate(
            (
                ("login", 0, None), ("login", 1, None), ("seat.changed", 0, None), ("file.fetched", 0, uuid(0xA)),
                ("second_factor", 0, None), ("login", 0, uuid(0xB)),
            )
        ):  # fmt: skip
            stores.audit.append(
                AuditEvent(
                    at=NOW, action=action, result="invalid_credentials", actor="a", seat_id=uuid(seat),
                    client_id=client, request_id=f"r{number}",
                )
            )  # fmt: skip

    state.write(write)
    query = AuditQuery(client_id=uuid(0xA), sign_ins=True, newest_first=True)

    def ids(asked: AuditQuery) -> list[str]:
        return [event.request_id for event in state.read(lambda stores: stores.audit.read(asked))]

    assert ids(query) == ["r4", "r3", "r0"]
    assert ids(replace(query, offset=1, limit=1)) == ["r3"]
    assert ids(replace(query, sign_ins=False)) == ["r3"]
    assert ids(replace(query, seat_id=uuid(1))) == []
    assert state.read(lambda stores: stores.audit.count(query, at_most=10)) == 3


def test_database_refuses_changes_to_the_audit_trail(state: Database, state_url: str) -> None:
    state.write(events)
    attempts = ["UPDATE audit_events SET actor = 'x'", "DELETE FROM audit_events"]
    if isinstance(state, PostgresqlState):
        attempts.append("TRUNCATE audit_events")
    engine = sql_engine(state_url)
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
