"""Copies of a state database."""

from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.errors import OperatorError
from daybreak.state.copy import copy_state
from daybreak.state.database import Database
from daybreak.state.nodes import Node
from daybreak.state.schema import throttle
from daybreak.state.stores import Stores
from daybreak.state.throttle import ThrottleRule
from tests.integration.state.test_sessions import DEVICE, SID
from tests.integration.state.values import ANN, DAY, NOW, SEAT, complete_run, run, session, token, two_accounts, uuid


def fill(stores: Stores) -> None:
    two_accounts(stores)
    stores.sessions.save_device(DEVICE)
    stores.sessions.start(session(0x5E55, SEAT.seat_id, device_id=DEVICE.device_id))
    stores.api_tokens.add(token(1, SEAT.seat_id, ANN.client_id))
    stores.seats.begin_second_factor(SEAT.seat_id, "sealed", NOW)
    stores.seats.confirm_second_factor(SEAT.seat_id, 8, ["r1", "r2"], NOW)
    stores.throttle.count([ThrottleRule("k", 1, 600)], NOW)
    for number in range(3):
        stores.audit.append(AuditEvent(NOW, "login", "ok", "é", request_id=str(number), details={"n": [number, None]}))
    stores.snapshots.claim_day(run(2), NOW, 60)
    complete_run(stores, 9)
    stores.snapshots.publish(uuid(9), None, NOW)
    stores.nodes.record_heartbeat(Node("n", "h", "1", NOW, NOW, ("web",)))


def everything(stores: Stores) -> list[object]:
    return [
        stores.directory.load(),
        stores.sessions.resolve(SID, ANN.client_id),
        stores.sessions.list_open(SEAT.seat_id, NOW),
        stores.api_tokens.list_for(),
        stores.seats.sealed_seed(SEAT.seat_id),
        stores.seats.recovery_codes_left(SEAT.seat_id),
        list(stores.connection.execute(sa.select(throttle))),
        stores.audit.read(AuditQuery()),
        stores.snapshots.recent(),
        stores.snapshots.current(),
        stores.snapshots.file(None, uuid(1), "members", "csv"),
        list(stores.snapshots.entries(uuid(9))),
        list(stores.snapshots.leaders(uuid(9))),
        stores.nodes.list_seen(NOW),
    ]


def test_copy_to_postgresql_and_back_keeps_everything(
    sqlite_url: str, postgresql_url: str, tmp_path: Path, open_database: Callable[[str], Database]
) -> None:
    source = open_database(sqlite_url)
    source.write(fill)
    steps: list[tuple[str, int, int]] = []
    counts = copy_state(sqlite_url, postgresql_url, lambda *step: steps.append(step))
    target = open_database(postgresql_url)
    before = source.read(everything)
    assert target.read(everything) == before
    assert (counts["seats"], counts["audit_events"], counts["snapshot_files"]) == (1, 3, 3)
    assert ("snapshot_files", 3, 3) in steps

    # Numbers continue after those of the source.
    target.write(lambda stores: stores.audit.append(AuditEvent(NOW, "login", "ok", "new")))
    assert len({event.event_id for event in target.read(lambda stores: stores.audit.read(AuditQuery()))}) == 4
    fences = [one.fence for one in source.read(lambda stores: stores.snapshots.recent())]
    claimed = target.write(lambda stores: stores.snapshots.begin_manual(run(77, day=None), NOW, 60))
    assert claimed.fence > max(fences)
    assert target.write(lambda stores: stores.snapshots.claim_day(run(78), NOW, 60)) is None, f"{DAY} is being built"

    back = f"sqlite:///{tmp_path}/back.db"
    assert copy_state(postgresql_url, back)["audit_events"] == 4
    assert open_database(back).read(lambda stores: stores.directory.load()) == before[0]


def test_nonempty_target_is_refused(
    sqlite_url: str, postgresql_url: str, open_database: Callable[[str], Database]
) -> None:
    source = open_database(sqlite_url)
    source.write(fill)
    copy_state(sqlite_url, postgresql_url)
    before = open_database(postgresql_url).read(everything)
    with pytest.raises(OperatorError, match="empty"):
        copy_state(sqlite_url, postgresql_url)
    assert open_database(postgresql_url).read(everything) == before


def test_missing_source_and_identical_target_are_refused(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="daybreakd migrate"):
        copy_state(f"sqlite:///{tmp_path}/nothing.db", sqlite_url)
    with pytest.raises(OperatorError, match="same database"):
        copy_state(sqlite_url, sqlite_url)
