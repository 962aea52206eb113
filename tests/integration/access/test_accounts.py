"""A seat with many accounts does not block the event loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from daybreak.access import accounts
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate
from daybreak.state.stores import Stores

SEAT = Seat("a" * 8 + "-0000-4000-8000-000000000001", "support@example.org")


@pytest.mark.parametrize("count", [3, 40])
def test_many_accounts_are_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(accounts, "_MAX_ON_EVENT_LOOP", 20)
    url = f"sqlite:///{tmp_path / 'state.db'}"
    migrate(url)
    state = open_state(url)
    clients = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(count)]

    def fill(stores: Stores) -> None:
        stores.directory.put_accounts(*(Account(each, each, "Ltd", "+15550100", "toll_free") for each in clients))
        stores.directory.put_seats(SEAT)
        stores.directory.put_grants(*(Grant(SEAT.seat_id, each, ("analyst",)) for each in clients))

    async def scenario() -> tuple[list[str], bool]:
        found = await accounts.granted_accounts(state, SEAT.seat_id)
        loop_thread = threading.get_ident()
        in_other_thread = await accounts.run_without_blocking(len(found), threading.get_ident) != loop_thread
        return [each.account.client_id for each in found], in_other_thread

    try:
        state.write(fill)
        assert asyncio.run(scenario()) == (clients, count > 20)
    finally:
        state.close()
