"""A seat with many accounts does not block the event loop."""

import threading

import pytest

from daybreak.access import services
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.stores import Stores
from tests.unit.access.instance import Instance

SEAT = Seat("a" * 8 + "-0000-4000-8000-000000000001", "support@example.org")


@pytest.mark.parametrize("count", [3, 40])
async def test_many_accounts_are_read_in_a_thread(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(services, "_MAX_ON_EVENT_LOOP", 20)
    clients = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(count)]

    def fill(stores: Stores) -> None:
        stores.directory.put_accounts(*(Account(each, each, "Ltd", "+15550100", "toll_free") for each in clients))
        stores.directory.put_seats(SEAT)
        stores.directory.put_grants(*(Grant(SEAT.seat_id, each, ("analyst",)) for each in clients))

    instance.write(fill)
    loop_thread = threading.get_ident()
    found = await instance.services.granted_accounts(SEAT.seat_id)
    thread = await instance.services.run_without_blocking(SEAT.seat_id, len(found), threading.get_ident)
    assert ([each.account.client_id for each in found], thread != loop_thread) == (clients, count > 20)
