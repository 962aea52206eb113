"""The buffer of audit events: batched writes, and no loss during an outage of the database."""

import asyncio
from typing import Any

import pytest

from daybreak.access import link_usage
from daybreak.access.link_usage import AuditBuffer
from daybreak.domain.audit import EventOrigin
from daybreak.domain.errors import Unavailable
from tests.unit.access.instance import CALLER, ROSA, Instance


async def test_events_are_written_in_batches_and_on_close(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = []
    real = instance.state.awrite

    async def counted(work: Any) -> Any:
        writes.append(work)
        return await real(work)

    monkeypatch.setattr(instance.state, "awrite", counted)
    origin = EventOrigin(instance.now[0], CALLER, instance.seat(ROSA))
    buffer = AuditBuffer(instance.state)
    for _ in range(50):
        await buffer.record(origin.event("link.issued", "ok"))
    for _ in range(600):
        if instance.audit():
            break
        await asyncio.sleep(0.1)
    assert len(instance.audit()) == 50
    await buffer.record(origin.event("file.fetched", "ok"))
    await buffer.aclose()
    assert len(instance.audit()) == 51
    assert len(writes) == 2


async def test_full_buffer_refuses_events_during_an_outage(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    real = instance.state.awrite
    monkeypatch.setattr(link_usage, "_MAX_PENDING", 3)

    async def fail(work: Any) -> Any:
        raise Unavailable("unavailable", code="state_unavailable")

    def new_event() -> Any:
        return EventOrigin(instance.now[0], CALLER).event("file.fetched", "ok")

    buffer = AuditBuffer(instance.state)
    monkeypatch.setattr(instance.state, "awrite", fail)
    for _ in range(3):
        await buffer.record(new_event())
    with pytest.raises(Unavailable):
        await buffer.record(new_event())
    monkeypatch.setattr(instance.state, "awrite", real)
    await buffer.record(new_event())
    await buffer.aclose()
    assert len(instance.audit()) == 4


async def test_flush_waits_for_events_that_are_being_written(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = instance.state.awrite
    may_write = asyncio.Event()

    async def slow(work: Any) -> Any:
        await may_write.wait()
        return await real(work)

    monkeypatch.setattr(instance.state, "awrite", slow)
    monkeypatch.setattr(link_usage, "_MAX_PENDING", 1)
    origin = EventOrigin(instance.now[0], CALLER)
    buffer = AuditBuffer(instance.state)
    await buffer.record(origin.event("link.issued", "ok"))
    # The buffer is full, so that this request writes the event of the other one. Its client leaves.
    request = asyncio.create_task(buffer.record(origin.event("link.issued", "ok")))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    flush = asyncio.create_task(buffer.flush())
    await asyncio.sleep(0.01)
    assert not flush.done()
    may_write.set()
    await flush
    assert len(instance.audit()) == 1
    await buffer.aclose()
