"""The buffer of frequent events: written together, kept while the database is away, never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from daybreak.access import trail
from daybreak.access.trail import TrailBuffer, event
from daybreak.domain.errors import Unavailable
from tests.unit.access.house import CALLER, ROSA, House


def test_events_are_written_together_soon_and_the_rest_at_the_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = []
    real = house.state.awrite

    async def counted(work: Any) -> Any:
        writes.append(work)
        return await real(work)

    monkeypatch.setattr(house.state, "awrite", counted)
    seat = house.seat(ROSA)

    async def story() -> None:
        buffer = TrailBuffer(house.state)
        for _ in range(50):
            await buffer.record(event("link.issued", "ok", at=house.now[0], caller=CALLER, seat=seat))
        for _ in range(600):
            if house.audit():
                break
            await asyncio.sleep(0.1)
        assert len(house.audit()) == 50
        await buffer.record(event("file.fetched", "ok", at=house.now[0], caller=CALLER, seat=seat))
        await buffer.aclose()

    house.run(story())
    assert len(house.audit()) == 51
    assert len(writes) == 2


def test_what_cannot_be_written_waits_and_too_much_of_it_stops_the_service(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = house.state.awrite
    monkeypatch.setattr(trail, "_MAXIMUM_WAITING", 3)

    async def away(work: Any) -> Any:
        raise Unavailable("away", code="state_unavailable")

    def one() -> Any:
        return event("file.fetched", "ok", at=house.now[0], caller=CALLER)

    async def story() -> None:
        buffer = TrailBuffer(house.state)
        monkeypatch.setattr(house.state, "awrite", away)
        for _ in range(3):
            await buffer.record(one())
        with pytest.raises(Unavailable):
            await buffer.record(one())
        monkeypatch.setattr(house.state, "awrite", real)
        await buffer.record(one())
        await buffer.aclose()

    house.run(story())
    assert len(house.audit()) == 4
