"""Accounts and tokens by their last use, and daily scripts that stopped."""

from datetime import timedelta

import pytest

from daybreak.domain.audit import AuditEvent
from daybreak.state.consumers import ConsumerCounts
from daybreak.state.database import Database
from daybreak.state.stores import Stores
from tests.integration.state.values import ANN, BEA, NOW, SEAT, token, two_accounts

DAY = timedelta(days=1)
LAST_USE = NOW - 3 * DAY - timedelta(hours=1)


def test_accounts_and_tokens_are_counted_by_last_use(state: Database) -> None:
    state.write(two_accounts)
    used = {1: NOW - DAY, 2: NOW - 4 * DAY, 3: NOW - 31 * DAY, 4: NOW - 91 * DAY, 5: None, 6: NOW - 91 * DAY}

    def add(stores: Stores) -> None:
        for number, at in used.items():
            account = BEA if number == 2 else ANN
            created = token(number, SEAT.seat_id, account.client_id, created_at=NOW - 100 * DAY, last_used_at=at)
            stores.api_tokens.add(created)
        stores.api_tokens.revoke(token(6, "", "").token_id, NOW, "test")

    state.write(add)
    assert state.read(lambda stores: stores.consumers.counts(NOW)) == ConsumerCounts(1, 1, 2, 2)
    found = state.read(lambda stores: stores.consumers.list_by_last_use(NOW, 0, 10))
    assert [(each.account, each.token.last_used_at) for each in found] == [(BEA.name, used[2]), (ANN.name, used[1])]
    assert state.read(lambda stores: stores.consumers.list_by_last_use(NOW, 1, 10)) == found[1:]


def test_no_tokens_are_counted_as_zero(state: Database) -> None:
    assert state.read(lambda stores: stores.consumers.counts(NOW)) == ConsumerCounts(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("days", "hours_later", "stopped"), [(6, 0, True), (5, 0, False), (6, -2, False), (6, 24, False)]
)
def test_daily_script_stopped_three_days_ago(state: Database, days: int, hours_later: int, stopped: bool) -> None:
    script = token(1, SEAT.seat_id, ANN.client_id, created_at=NOW - 60 * DAY, last_used_at=LAST_USE)
    events = [
        AuditEvent(
            LAST_USE - each * DAY, "file.fetched", "ok", SEAT.email, SEAT.seat_id, ANN.client_id, script.subject,
            details={"snapshot_id": f"s{each}"},
        )
        for each in reversed(range(days))
    ]  # fmt: skip
    state.write(two_accounts)
    state.write(lambda stores: stores.api_tokens.add(script))
    state.write(lambda stores: stores.audit.append_all(events))
    now = NOW + timedelta(hours=hours_later)
    found = state.read(lambda stores: stores.consumers.daily_scripts_stopped(now))
    assert [each.token_id for each in found] == [script.token_id] * stopped
    (consumer,) = state.read(lambda stores: stores.consumers.list_by_last_use(NOW, 0, 10))
    assert consumer.latest is not None
    assert consumer.latest.details == {"snapshot_id": "s0"}
