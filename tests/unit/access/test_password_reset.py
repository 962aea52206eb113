"""Reset of a forgotten password."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from daybreak.access import passwords, sessions
from daybreak.access.login import SecondFactorPending, SessionStarted
from daybreak.access.services import Services
from daybreak.domain.errors import Forbidden, InvalidRequest, NotFound, RateLimited, Unauthenticated
from daybreak.domain.events import Event, EventType
from daybreak.domain.identity import Caller, Seat, SeatIdentity
from daybreak.settings import Rate
from tests.configured import configured
from tests.unit.access.instance import CALLER, ELSEWHERE, INES, LEON, OMAR, PASSWORD, ROSA, Instance

NEW = "copper kettle over seven hills"


def _outbox(instance: Instance) -> list[Event]:
    return [entry.event for entry in instance.state.read(lambda stores: stores.outbox.incomplete(100))]


def _link(instance: Instance, seat_id: str = ROSA) -> str:
    """Create the token of a link, as the deliverer does."""
    token, reset = passwords.create_reset(
        instance.seat(seat_id),
        EventType.PASSWORD_RESET_REQUESTED,
        instance.now[0],
        instance.now[0],
        instance.services.random,
    )
    instance.write(lambda stores: stores.password_resets.replace(reset))
    return token


async def _reset(instance: Instance, token: str, password: str = NEW) -> SessionStarted | SecondFactorPending:
    return await passwords.reset_password(instance.services, token, password, CALLER)


async def test_request_writes_an_event_for_the_seat(instance: Instance, services: Services) -> None:
    await passwords.request_reset(services, email=" Rosa@example.org ", caller=CALLER)
    (event,) = _outbox(instance)
    assert (event.type, event.seat_id, event.data) == (EventType.PASSWORD_RESET_REQUESTED, ROSA, {})
    assert [each.result for each in instance.audit("password.reset_requested")] == ["ok"]


async def test_unknown_email_does_the_same_work(instance: Instance, services: Services) -> None:
    for email in ("nobody@example.org", "", "x\x00y", "\ud800", "a" * 10_000):
        await passwords.request_reset(services, email=email, caller=CALLER)
    assert _outbox(instance) == []
    recorded = instance.audit("password.reset_requested")
    assert [(each.result, each.seat_id, each.actor) for each in recorded] == [("unknown_seat", None, "unknown")] * 5


async def test_disabled_seat_receives_no_link(instance: Instance, services: Services) -> None:
    instance.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=True))
    await passwords.request_reset(services, email="rosa@example.org", caller=CALLER)
    assert _outbox(instance) == []


async def test_known_and_unknown_email_run_the_same_statements(instance: Instance, services: Services) -> None:
    statements: list[str] = []

    def record(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", record)
    try:
        await passwords.request_reset(services, email="rosa@example.org", caller=CALLER)
        known = statements.copy()
        await passwords.request_reset(services, email="nobody@example.org", caller=ELSEWHERE)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", record)
    assert known == statements[len(known) :]
    assert any("outbox" in statement for statement in known)


@pytest.mark.parametrize(
    ("addresses", "setting"),
    [
        (["192.0.2.1", "192.0.2.2", "192.0.2.3"], "login_per_network"),
        (["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"], "login_per_network"),
        (["2001:db8::1", "2001:db8::2", "2001:db8::3"], "login_per_address"),
        (["192.0.2.1", "198.51.100.1", "2001:db8::1"], "login_overall"),
    ],
)
async def test_requests_are_limited_per_network_and_in_total(
    instance: Instance, services: Services, addresses: list[str], setting: str
) -> None:
    rate = Rate(2, timedelta(minutes=5))
    services = replace(services, settings=configured(services.settings, access={setting: rate}))
    for number, address in enumerate(addresses):
        request = passwords.request_reset(services, email=f"{number}@example.org", caller=Caller(address))
        if number < 2:
            await request
        else:
            with pytest.raises(RateLimited):
                await request


@pytest.mark.parametrize("email", ["rosa@example.org", "nobody@example.org"])
async def test_requests_are_limited_per_email(instance: Instance, services: Services, email: str) -> None:
    for number in range(4):
        caller = Caller(f"198.51.100.{number}")
        if number < 3:
            await passwords.request_reset(services, email=email, caller=caller)
        else:
            with pytest.raises(RateLimited):
                await passwords.request_reset(services, email=email, caller=caller)


async def test_link_works_once(instance: Instance, services: Services) -> None:
    token = _link(instance)
    assert await passwords.seat_of_link(services, token)
    assert await passwords.seat_of_link(services, token)
    await _reset(instance, token)
    await instance.log_in(password=NEW)
    assert not await passwords.seat_of_link(services, token)
    with pytest.raises(Unauthenticated) as refused:
        await _reset(instance, token, "another long passphrase here")
    assert refused.value.code == "invalid_reset_link"
    await instance.log_in(password=NEW)
    assert [each.result for each in instance.audit("password.reset")] == ["ok", "invalid_reset_link"]
    (event,) = [each for each in _outbox(instance) if each.type is EventType.PASSWORD_CHANGED]
    assert (event.seat_id, event.data["change"], event.data["address"]) == (ROSA, "reset_by_mail", CALLER.address)


async def test_link_expires(instance: Instance, services: Services) -> None:
    token = _link(instance)
    instance.advance(minutes=30)
    with pytest.raises(Unauthenticated):
        await _reset(instance, token)
    await instance.log_in()


async def test_new_link_replaces_the_old_one(instance: Instance, services: Services) -> None:
    old, new = _link(instance), _link(instance)
    assert not await passwords.seat_of_link(services, old)
    assert await passwords.seat_of_link(services, new)


async def test_new_password_ends_sessions_and_keeps_the_second_factor(instance: Instance, services: Services) -> None:
    started = await instance.log_in("omar@example.org")
    instance.enrol_second_factor(OMAR)
    outcome = await _reset(instance, _link(instance, OMAR))
    assert isinstance(outcome, SecondFactorPending)
    assert outcome.enrolled
    for token, refusal in ((started.token, Unauthenticated), (outcome.token, Forbidden)):
        with pytest.raises(refusal):
            await sessions.authenticate(services, token)
    assert isinstance(await instance.login("omar@example.org", NEW), SecondFactorPending)


async def test_reset_logs_in_as_far_as_the_policy_allows(instance: Instance, services: Services) -> None:
    outcome = await _reset(instance, _link(instance))
    assert isinstance(outcome, SessionStarted)
    assert (outcome.session.kind, outcome.session.amr) == ("dashboard", ("pwd",))
    assert (await sessions.authenticate(services, outcome.token)).seat.seat_id == ROSA
    required = await _reset(instance, _link(instance, INES))
    assert isinstance(required, SecondFactorPending)
    assert not required.enrolled
    with pytest.raises(Forbidden, match="active"):
        await _reset(instance, _link(instance, LEON))
    assert sorted(each.result for each in instance.audit("login")) == [
        "no_active_account",
        "ok",
        "second_factor_required",
    ]


async def test_weak_password_does_not_use_up_the_link(instance: Instance, services: Services) -> None:
    token = _link(instance)
    with pytest.raises(InvalidRequest):
        await _reset(instance, token, "rosa@example.org1")
    assert await passwords.seat_of_link(services, token)
    await instance.log_in(password=PASSWORD)


async def test_guesses_are_refused_and_limited(instance: Instance, services: Services) -> None:
    settings = configured(services.settings, access={"login_per_address": services.settings.access.login_per_seat})
    instance.services = replace(services, settings=settings)
    for number in range(11):
        expected = Unauthenticated if number < 10 else RateLimited
        with pytest.raises(expected):
            await _reset(instance, f"reset_{number:043d}")


def test_seats_of_single_sign_on_have_no_password(instance: Instance, services: Services) -> None:
    sole = Seat("00000000-0000-4000-8000-0000000000b9", "sole@example.org")
    instance.write(lambda stores: stores.directory.put_seats(sole))
    assert instance.state.read(lambda stores: passwords.has_password_login(stores, sole))
    identity = SeatIdentity("https://login.example.org", "1", sole.seat_id, instance.now[0])
    instance.write(lambda stores: stores.identities.add(identity))
    assert not instance.state.read(lambda stores: passwords.has_password_login(stores, sole))
    rosa = instance.seat(ROSA)
    assert instance.state.read(lambda stores: passwords.has_password_login(stores, rosa))


async def test_resets_need_mail_and_passwords(instance: Instance, services: Services) -> None:
    token = _link(instance)
    without_mail = replace(services, settings=configured(services.settings, mail={"url": ""}))
    with pytest.raises(NotFound):
        await passwords.request_reset(without_mail, email="rosa@example.org", caller=CALLER)
    only_provider = replace(services, settings=configured(services.settings, oidc={"password_login": False}))
    with pytest.raises(Forbidden):
        await passwords.request_reset(only_provider, email="rosa@example.org", caller=CALLER)
    with pytest.raises(Forbidden):
        await passwords.reset_password(only_provider, token, NEW, CALLER)
