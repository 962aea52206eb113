"""Session ids: a new one when the second factor completes, the password is confirmed, or a secret changes."""

import pytest

from daybreak.access import enrolment, passwords, second_factor, sessions
from daybreak.access.sessions import ActiveSession
from daybreak.credentials import totp
from daybreak.domain.errors import Unauthenticated
from daybreak.domain.identity import Session
from tests.unit.access.instance import CALLER, OMAR, PASSWORD, ROSA, Instance

NEW_PASSWORD = "harvest moon 88 boat"
FROM_THE_LOGIN = ("seat_id", "started_at", "expires_at", "kind", "device_id", "amr")


async def dashboard_session(instance: Instance, **more: str) -> ActiveSession:
    """Return a new dashboard session of Rosa."""
    resolved = instance.session((await instance.log_in(kind="dashboard", **more)).session.sid)
    return ActiveSession(resolved, "")


def assert_replaced(instance: Instance, old: Session, new: Session, reason: str) -> None:
    """Check that `old` has ended and that `new` is the stored session of the same login."""
    assert old.sid != new.sid
    ended = instance.session(old.sid).session
    assert (ended.ended_at, ended.end_reason) == (instance.now[0], reason)
    assert instance.session(new.sid).session == new
    for name in FROM_THE_LOGIN:
        assert getattr(old, name) == getattr(new, name), name


def seed_of(instance: Instance) -> bytes:
    sealed = instance.state.read(lambda stores: stores.seats.pending_seed(ROSA))
    assert sealed is not None
    return totp.decrypt_seed(sealed, seat_id=ROSA, keyring=instance.services.keyring.current())


@pytest.mark.parametrize("kind", ["api", "dashboard"])
async def test_second_factor_changes_the_session_id(instance: Instance, kind: str) -> None:
    seed = instance.enrol_second_factor()
    pending = await instance.start_login(kind=kind)
    instance.advance(minutes=1)
    code = instance.code(seed)
    started = await second_factor.complete_login(instance.services, pending.token, code, CALLER)
    assert started.session.sid != pending.session.sid
    old, new = instance.session(pending.session.sid).session, instance.session(started.session.sid).session
    assert (old.end_reason, old.awaiting_second_factor) == ("second factor completed", True)
    assert new == started.session
    assert (new.kind, new.started_at, new.device_id) == (kind, old.started_at, started.device_id)
    (event,) = instance.audit("second_factor")
    assert (event.subject, event.details["session"]) == (f"session:{old.sid}", f"session:{new.sid}")


async def test_confirmed_password_changes_the_session_id(instance: Instance) -> None:
    active = await dashboard_session(instance)
    instance.advance(minutes=20)
    renewed = await sessions.reauthenticate(instance.services, active, PASSWORD, CALLER)
    assert_replaced(instance, active.session, renewed, "password confirmed")
    sessions.require_recent_password(instance.services, renewed)
    (event,) = instance.audit("reauthenticated")
    assert (event.subject, event.details["session"]) == (active.subject, f"session:{renewed.sid}")


async def test_wrong_password_keeps_the_session_id(instance: Instance) -> None:
    active = await dashboard_session(instance)
    with pytest.raises(Unauthenticated):
        await sessions.reauthenticate(instance.services, active, "wrong wrong wrong", CALLER)
    assert instance.session(active.session.sid).session == active.session


async def test_changed_password_changes_the_session_id(instance: Instance) -> None:
    active = await dashboard_session(instance)
    change = passwords.change_own(instance.services, active, current=PASSWORD, new=NEW_PASSWORD, caller=CALLER)
    assert_replaced(instance, active.session, await change, "password changed")


async def test_enrolment_changes_the_session_id(instance: Instance) -> None:
    active = await dashboard_session(instance)
    await enrolment.begin(instance.services, active)
    code = instance.code(seed_of(instance))
    enrolled = await enrolment.confirm(instance.services, active, code, CALLER)
    assert_replaced(instance, active.session, enrolled.session, "second factor enrolled")


async def test_ended_session_is_not_renewed(instance: Instance) -> None:
    active = await dashboard_session(instance)
    await enrolment.begin(instance.services, active)
    code = instance.code(seed_of(instance))
    instance.write(lambda stores: stores.sessions.end(active.session.sid, instance.now[0], "ended by its owner"))
    change = passwords.change_own(instance.services, active, current=PASSWORD, new=NEW_PASSWORD, caller=CALLER)
    for attempt in (
        sessions.reauthenticate(instance.services, active, PASSWORD, CALLER),
        enrolment.confirm(instance.services, active, code, CALLER),
        change,
    ):
        with pytest.raises(Unauthenticated) as caught:
            await attempt
        assert caught.value.code == "session_ended"
    assert not instance.seat(ROSA).second_factor_enrolled
    assert instance.seat(ROSA).password_hash == active.seat.password_hash


async def test_api_session_keeps_its_id_when_the_password_is_confirmed(instance: Instance) -> None:
    started = await instance.log_in()
    active = await sessions.active_session(instance.services, started.token)
    renewed = await sessions.reauthenticate(instance.services, active, PASSWORD, CALLER)
    assert renewed.sid == started.session.sid
    await sessions.authenticate(instance.services, started.token)


@pytest.mark.parametrize("email", ["rosa@example.org", "omar@example.org"])
async def test_new_sign_in_ends_the_session_that_the_browser_held(instance: Instance, email: str) -> None:
    instance.enrol_second_factor(OMAR)
    held, other = await dashboard_session(instance), await dashboard_session(instance)
    await instance.login(email, kind="dashboard", held_sid=held.session.sid)
    assert instance.session(held.session.sid).session.end_reason == "signed in again"
    assert instance.session(other.session.sid).session.ended_at is None
    (event,) = instance.audit("session.ended")
    assert (event.actor, event.seat_id, event.subject) == (email, ROSA, held.subject)


async def test_failed_sign_in_keeps_the_session_that_the_browser_held(instance: Instance) -> None:
    held = await dashboard_session(instance)
    with pytest.raises(Unauthenticated):
        await instance.login(password="wrong wrong wrong", kind="dashboard", held_sid=held.session.sid)
    assert instance.session(held.session.sid).session.ended_at is None
