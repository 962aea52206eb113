"""Deletion of expired rows from the state database."""

from datetime import timedelta
from pathlib import Path

from daybreak.access.cleanup import delete_expired
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.identity import Device
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate
from daybreak.state.nodes import Node
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule
from tests.integration.state.values import ANN, NOW, SEAT, session, token, two_accounts, uuid

LONG_AGO = NOW - timedelta(days=500)


def fill(stores: Stores) -> None:
    """Add one expired row and one current row of each kind."""
    two_accounts(stores)
    for number, at in ((1, LONG_AGO), (2, NOW)):
        stores.sessions.save_device(Device(uuid(number), SEAT.seat_id, "curl", "192.0.2.1", at, at))
        stores.sessions.start(session(number, SEAT.seat_id, device_id=uuid(number), expires_at=at + timedelta(days=1)))
        stores.api_tokens.add(token(number, SEAT.seat_id, ANN.client_id, expires_at=at + timedelta(days=1)))
        stores.throttle.count([ThrottleRule(f"k{number}", 1, 60)], at)
        stores.nodes.record_heartbeat(Node(f"n{number}", "h", "1", at, at, ()))
        stores.audit.append(AuditEvent(at, "login", "ok", "someone@example.org", request_id=str(number)))


def test_only_expired_rows_are_deleted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    migrate(url)
    state = open_state(url, wait_seconds=60)
    state.write(fill)
    expected = {"sessions": 1, "devices": 1, "api_tokens": 1, "throttle": 1, "nodes": 1, "audit_events": 1}
    assert delete_expired(state, NOW, timedelta(days=400)) == expected
    assert delete_expired(state, NOW, timedelta(days=400)) == {}
    assert [one.sid for one, _ in state.read(lambda stores: stores.sessions.list_open(SEAT.seat_id, NOW))] == [uuid(2)]
    assert [one.token_id for one in state.read(lambda stores: stores.api_tokens.list_for())] == [uuid(2)]
    assert [one.request_id for one in state.read(lambda stores: stores.audit.read(AuditQuery()))] == ["2"]
    refusal = state.write(lambda stores: stores.throttle.count([ThrottleRule("k2", 1, 60)], NOW))
    assert refusal is not None
    assert refusal.wait_seconds == 60
    assert [one.node_id for one in state.read(lambda stores: stores.nodes.list_seen(LONG_AGO))] == ["n2"]
    state.close()
