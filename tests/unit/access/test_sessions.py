"""Sessions: contexts, switch, logout, and permissions that are checked on every request."""

import hashlib
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from daybreak.access import operators, passwords, sessions, throttle
from daybreak.domain.errors import Forbidden, InvalidRequest, RateLimited, RequestError, Unauthenticated
from daybreak.domain.identity import Grant
from daybreak.state.stores import Stores
from tests.configured import configured
from tests.unit.access.instance import (
    ALPHA,
    BRAVO,
    CALLER,
    CLOSED,
    ELSEWHERE,
    FOREIGN,
    PASSWORD,
    ROSA,
    UNKNOWN,
    Instance,
)


async def error_code(instance: Instance, token: str) -> str:
    with pytest.raises(RequestError) as caught:
        await sessions.authenticate(instance.services, token)
    return caught.value.code


async def test_each_request_takes_one_query(instance: Instance) -> None:
    token = (await instance.log_in()).token
    for _ in range(2):
        assert len(await instance.statements_of(sessions.authenticate(instance.services, token))) == 1


async def test_account_without_data_export_is_listed(instance: Instance) -> None:
    instance.put_grant(ROSA, BRAVO, data_export=False)
    active = await sessions.active_session(instance.services, (await instance.log_in()).token)
    assert len(await sessions.contexts(instance.services, active)) == 2


async def test_switch_keeps_the_session_and_its_expiry(instance: Instance) -> None:
    started = await instance.log_in()
    instance.advance(days=3)
    active = await sessions.active_session(instance.services, started.token)
    switched = await sessions.switch(instance.services, active, BRAVO, CALLER)
    # Each token keeps its account.
    for token, client_id in ((started.token, ALPHA), (switched, BRAVO)):
        principal = await sessions.authenticate(instance.services, token)
        assert principal.account.client_id == client_id
        assert principal.subject == f"session:{started.session.sid}"
    instance.advance(days=4)
    for token in (started.token, switched):
        with pytest.raises(Unauthenticated):
            await sessions.authenticate(instance.services, token)


async def test_limit_of_switches_grows_with_the_accounts(instance: Instance) -> None:
    def add_accounts(stores: Stores) -> int:
        granted = stores.seats.granted_accounts(ROSA)
        for number in range(400):
            added = msgspec.structs.replace(granted[0].account, client_id=f"20000000-0000-4000-8000-{number:012}")
            stores.directory.put_accounts(added)
            stores.directory.put_grants(Grant(ROSA, added.client_id))
        return len(granted) + 400

    (rule,) = throttle.change_rules(seat_id=ROSA, accounts=instance.write(add_accounts))
    assert rule.limit > throttle.CHANGES_PER_SEAT.attempts
    instance.write(lambda stores: stores.throttle.count([rule], instance.now[0], attempts=rule.limit - 1))
    active = await active_session(instance)
    await sessions.switch(instance.services, active, BRAVO, CALLER)
    with pytest.raises(RateLimited):
        await sessions.switch(instance.services, active, ALPHA, CALLER)


async def active_session(instance: Instance) -> sessions.ActiveSession:
    return await sessions.active_session(instance.services, (await instance.log_in()).token)


@pytest.mark.parametrize(
    ("client_id", "code"),
    [
        (FOREIGN, "not_your_account"),
        (UNKNOWN, "not_your_account"),
        ("", "not_your_account"),
        ("\x00", "not_your_account"),
        ("\ud800", "not_your_account"),
        (ALPHA.upper(), "not_your_account"),
        (CLOSED, "account_inactive"),
    ],
)
async def test_switch_to_another_account_is_refused(instance: Instance, client_id: str, code: str) -> None:
    if client_id == ALPHA.upper():
        client_id = "10000000-0000-4000-8000-00000000000A"
    active = await sessions.active_session(instance.services, (await instance.log_in()).token)
    with pytest.raises(Forbidden) as caught:
        await sessions.switch(instance.services, active, client_id, CALLER)
    assert caught.value.code == code
    # The refused switch is not recorded for the requested account.
    assert {event.client_id for event in instance.audit("context.switched")} == {ALPHA}


async def test_switch_without_the_second_factor_is_refused(instance: Instance) -> None:
    started = await instance.log_in()
    instance.change_account(BRAVO, second_factor_required=True)
    active = await sessions.active_session(instance.services, started.token)
    with pytest.raises(Forbidden) as caught:
        await sessions.switch(instance.services, active, BRAVO, CALLER)
    assert caught.value.code == "second_factor_required"
    instance.change_account(ALPHA, second_factor_required=True)
    with pytest.raises(Forbidden):
        await sessions.authenticate(instance.services, started.token)


async def test_enabled_seat_must_log_in_again(instance: Instance) -> None:
    token = (await instance.log_in()).token
    for disabled in (True, False):
        instance.write(
            lambda stores, value=disabled: operators.set_disabled(  # type: ignore[misc]
                stores, instance.seat(ROSA), instance.now[0], disabled=value, actor="operator"
            )
        )
    assert await error_code(instance, token) == "session_ended"


async def test_revoked_grant_allows_switching_and_logout(instance: Instance) -> None:
    started = await instance.log_in()
    instance.write(lambda stores: stores.directory.remove_grants(Grant(ROSA, ALPHA)))
    active = await sessions.active_session(instance.services, started.token)
    assert [each.account.client_id for each in await sessions.contexts(instance.services, active)] == [BRAVO]
    switched = await sessions.switch(instance.services, active, BRAVO, CALLER)
    await sessions.authenticate(instance.services, switched)
    await sessions.logout(instance.services, active, CALLER)


async def test_sessions_are_listed_and_ended(instance: Instance) -> None:
    mine = await instance.log_in()
    others = [await instance.log_in(caller=ELSEWHERE) for _ in range(3)]
    other_seat = await instance.log_in("omar@example.org")
    active = await sessions.active_session(instance.services, mine.token)
    listed = await sessions.list_open(instance.services, active)
    assert {session.sid for session, _ in listed} == {started.session.sid for started in (mine, *others)}
    assert {device.address for _, device in listed if device} == {CALLER.address, ELSEWHERE.address}
    for sid, ended in (
        (others[0].session.sid, True),
        (others[0].session.sid, False),
        (other_seat.session.sid, False),
        ("nonsense", False),
    ):
        assert await sessions.end_one(instance.services, active, sid, CALLER) is ended
    assert await sessions.end_others(instance.services, active, CALLER) == 2
    await sessions.authenticate(instance.services, mine.token)
    await sessions.authenticate(instance.services, other_seat.token)


async def test_ending_other_sessions_needs_a_recent_password(instance: Instance) -> None:
    mine, other = await instance.log_in(), await instance.log_in()
    instance.advance(minutes=10)
    active = await sessions.active_session(instance.services, mine.token)
    for attempt in (
        sessions.end_one(instance.services, active, other.session.sid, CALLER),
        sessions.end_others(instance.services, active, CALLER),
    ):
        with pytest.raises(Forbidden) as caught:
            await attempt
        assert caught.value.code == "reauthentication_required"
    await sessions.authenticate(instance.services, other.token)


async def test_changing_secrets_needs_a_recent_password(instance: Instance) -> None:
    started = await instance.log_in()
    instance.advance(minutes=10)
    active = await sessions.active_session(instance.services, started.token)
    with pytest.raises(Forbidden) as caught:
        sessions.require_recent_password(instance.services, active.session)
    assert caught.value.code == "reauthentication_required"
    with pytest.raises(Unauthenticated):
        await sessions.reauthenticate(instance.services, active, "wrong wrong wrong", CALLER)
    await sessions.reauthenticate(instance.services, active, PASSWORD, CALLER)
    active = await sessions.active_session(instance.services, started.token)
    sessions.require_recent_password(instance.services, active.session)


async def test_password_guesses_in_a_session_are_limited(instance: Instance) -> None:
    active = await sessions.active_session(instance.services, (await instance.log_in()).token)
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await sessions.reauthenticate(instance.services, active, "wrong wrong wrong", CALLER)
    with pytest.raises(RateLimited):
        await sessions.reauthenticate(instance.services, active, PASSWORD, CALLER)
    with pytest.raises(RateLimited):
        await passwords.change_own(
            instance.services, active, current=PASSWORD, new="harvest moon 88 boat", caller=CALLER
        )


async def test_new_password_ends_other_sessions(instance: Instance) -> None:
    mine, other = await instance.log_in(), await instance.log_in(caller=ELSEWHERE)
    active = await sessions.active_session(instance.services, mine.token)
    with pytest.raises(InvalidRequest) as weak:
        await passwords.change_own(instance.services, active, current=PASSWORD, new="Password123!", caller=CALLER)
    assert weak.value.code == "weak_password"
    with pytest.raises(Unauthenticated):
        await passwords.change_own(
            instance.services, active, current="not it at all", new="harvest moon 88", caller=CALLER
        )
    await passwords.change_own(instance.services, active, current=PASSWORD, new="harvest moon 88", caller=CALLER)
    await sessions.authenticate(instance.services, mine.token)
    with pytest.raises(Unauthenticated):
        await sessions.authenticate(instance.services, other.token)
    with pytest.raises(Unauthenticated):
        await instance.login()
    await instance.log_in(password="harvest moon 88")
    assert [event.result for event in instance.audit("password.changed")] == [
        "invalid_credentials",
        "ok",
    ]


async def test_session_lifetime_follows_its_setting(instance: Instance) -> None:
    settings = configured(instance.services.settings, access={"session_lifetime": timedelta(hours=1)})
    instance.services = replace(instance.services, settings=settings)
    token = (await instance.log_in()).token
    instance.advance(minutes=59)
    await sessions.authenticate(instance.services, token)
    instance.advance(minutes=1)
    assert await error_code(instance, token) == "token_expired"


async def test_breached_password_is_refused(instance: Instance) -> None:
    new = "harvest moon 88 boat"
    breached = instance.path / "breached.txt"
    breached.write_text(hashlib.sha1(new.encode()).hexdigest().upper() + ":2\n")
    settings = configured(instance.services.settings, access={"breached_passwords": breached})
    services = replace(instance.services, settings=settings)
    active = await sessions.active_session(services, (await instance.log_in()).token)
    with pytest.raises(InvalidRequest) as caught:
        await passwords.change_own(services, active, current=PASSWORD, new=new, caller=CALLER)
    assert caught.value.code == "weak_password"


async def test_token_of_a_key_that_was_revoked_on_another_node_is_refused(instance: Instance) -> None:
    """The file of this node still has the key, and the session is still open."""
    token, kid = (await instance.log_in()).token, instance.services.keyring.current().signing_kid
    await sessions.authenticate(instance.services, token)
    instance.write(lambda stores: stores.revoked_keys.add(kid, instance.now[0]))
    assert await error_code(instance, token) == "invalid_token"
    await sessions.authenticate(instance.services, (await instance.log_in()).token)
