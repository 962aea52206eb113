"""The PostgreSQL roles that docs/how-to/state-database.md describes."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from daybreak.domain.audit import AuditEvent
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate, require_current
from daybreak.state.nodes import Node
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule
from tests.integration.state.values import ANN, NOW, SEAT, complete_run, session, token, two_accounts, uuid
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.waiting import PATIENT_SECONDS


def statements(block: str) -> list[str]:
    return [statement.strip() for statement in block.split(";") if statement.strip()]


@pytest.fixture
def roles(postgresql_server: PostgreSQLServer, project_folder: Path) -> Iterator[PostgreSQLServer]:
    """A server configured with the statements of that page."""
    page = (project_folder / "docs" / "how-to" / "state-database.md").read_text(encoding="utf-8")
    as_superuser, before, after = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    server = postgresql_server
    server.execute(*statements(as_superuser))
    try:
        owner_url = server.url("daybreak", user="daybreak_owner")
        with psycopg.connect(owner_url, autocommit=True) as owner:
            for statement in statements(before):
                owner.execute(statement.encode())
            migrate(owner_url)
            for statement in statements(after):
                owner.execute(statement.encode())
        yield server
    finally:
        server.drop("daybreak")
        server.execute("DROP ROLE daybreak_owner", "DROP ROLE daybreak_service")


def use_every_store(stores: Stores) -> None:
    two_accounts(stores)
    stores.sessions.start(session(1, SEAT.seat_id))
    stores.sessions.end(uuid(1), NOW, "logout")
    stores.api_tokens.add(token(1, SEAT.seat_id, ANN.client_id))
    stores.seats.replace_recovery_codes(SEAT.seat_id, ["r1"])
    stores.throttle.count([ThrottleRule("k", 5, 60)], NOW)
    stores.throttle.clear("k")
    stores.audit.append(AuditEvent(NOW, "login", "ok", "someone@example.org"))
    stores.nodes.record_heartbeat(Node("n", "h", "1", NOW, NOW, ()))
    for number in (8, 9):
        complete_run(stores, number)
        stores.snapshots.publish(uuid(number), None, NOW)
    stores.snapshots.forget(uuid(8), at_most=10_000)
    stores.directory.put_accounts(replace(ANN, active=False))
    assert stores.snapshots.file(None, uuid(1), "members", "csv") is not None
    assert stores.audit.delete_before(NOW) == 0


def test_service_role_has_only_the_required_privileges(roles: PostgreSQLServer) -> None:
    url = roles.url("daybreak", user="daybreak_service")
    state = open_state(url, wait_seconds=PATIENT_SECONDS)
    require_current(state, url)
    state.write(use_every_store)
    state.close()
    for forbidden in (
        "UPDATE audit_events SET actor = 'x'",
        "TRUNCATE audit_events",
        "ALTER TABLE audit_events DISABLE TRIGGER ALL",
        "DROP TABLE seats",
        "CREATE TABLE own (a int)",
        "UPDATE alembic_version SET version_num = 'x'",
    ):
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(forbidden.encode())
