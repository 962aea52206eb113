"""Activity of dashboard sessions, and the end of a session without any."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.access import sessions
from daybreak.domain.errors import Unauthenticated
from tests.configured import configured
from tests.unit.access.instance import CALLER, Instance


@pytest.mark.parametrize("limit", [timedelta(minutes=5), timedelta(hours=8)])
async def test_unused_dashboard_session_is_refused(instance: Instance, limit: timedelta) -> None:
    settings = configured(instance.services.settings, access={"dashboard_idle": limit})
    services = replace(instance.services, settings=settings)
    started, of_the_api = await instance.log_in(kind="dashboard"), await instance.log_in()
    instance.now[0] += limit - timedelta(seconds=1)
    active = await sessions.active_session(services, started.token)
    assert len(await sessions.list_open(services, active)) == 2
    instance.advance(seconds=1)
    with pytest.raises(Unauthenticated) as caught:
        await sessions.active_session(services, started.token)
    assert caught.value.code == "session_ended"
    await sessions.authenticate(services, of_the_api.token)
    assert [session.kind for session, _ in await sessions.list_open(services, active)] == ["api"]


async def test_activity_is_recorded_once_a_minute(instance: Instance) -> None:
    sid = (await instance.log_in(kind="dashboard")).session.sid
    seen = []
    for seconds in (59, 1, 59, 1):
        instance.advance(seconds=seconds)
        session = instance.session(sid).session
        recorded = sessions.is_recorded(session, instance.now[0])
        await sessions.record_activity(instance.services, session, instance.now[0])
        last = instance.session(sid).session.last_seen_at
        assert last is not None
        seen.append((recorded, (instance.now[0] - last).seconds))
    assert seen == [(True, 59), (False, 0), (True, 59), (False, 0)]


async def test_activity_keeps_a_session_open(instance: Instance) -> None:
    started = await instance.log_in(kind="dashboard")
    for _ in range(3):
        instance.advance(hours=7)
        session = instance.session(started.session.sid).session
        await sessions.record_activity(instance.services, session, instance.now[0])
    await sessions.active_session(instance.services, started.token)


async def test_end_of_an_unused_session_is_recorded_once(instance: Instance) -> None:
    sid = (await instance.log_in(kind="dashboard")).session.sid
    resolved = instance.session(sid)

    async def end() -> None:
        await sessions.end_idle(instance.services, resolved, CALLER, instance.now[0])

    await end()
    assert instance.session(sid).session.ended_at is None, "the session was used meanwhile"
    instance.advance(hours=8)
    await end()
    await end()
    assert instance.session(sid).session.end_reason == "idle"
    (event,) = instance.audit("session.ended")
    assert (event.actor, event.subject, event.details) == ("service", f"session:{sid}", {"reason": "idle"})


@pytest.mark.release
async def test_locked_state_database_is_tolerated(instance: Instance) -> None:
    resolved = instance.session((await instance.log_in(kind="dashboard")).session.sid)
    instance.advance(hours=8)
    with closing(sqlite3.connect(instance.path / "state.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        await sessions.record_activity(instance.services, resolved.session, instance.now[0])
        await sessions.end_idle(instance.services, resolved, CALLER, instance.now[0])
    assert instance.session(resolved.session.sid) == resolved
