"""Passkeys as a second factor: conditions, limits and lifetimes."""

import json

import pytest

from daybreak.access import passkeys, second_factor, sessions
from daybreak.access.login import SessionStarted
from daybreak.access.passkeys import CHALLENGE_LIFETIME, MAX_PASSKEYS
from daybreak.access.second_factor import complete_login
from daybreak.access.sessions import ActiveSession
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound, RateLimited, Unauthenticated
from daybreak.domain.identity import Grant, Passkey
from tests.configured import configured
from tests.parts.software_authenticator import SoftwareAuthenticator, encode
from tests.unit.access.instance import CALLER, OMAR, STRICT, Instance

ORIGIN = "https://data.example.org"


def authenticator() -> SoftwareAuthenticator:
    return SoftwareAuthenticator(ORIGIN, "data.example.org")


def register(instance: Instance, key: SoftwareAuthenticator, seat_id: str = OMAR) -> None:
    """Store the passkey of an authenticator for a seat."""
    credential_id, public_key = encode(key.credential_id), encode(key.public_key)
    passkey = Passkey(credential_id, seat_id, public_key, 0, "key", instance.now[0])
    assert instance.write(lambda stores: stores.passkeys.add(passkey))


async def challenge_of(instance: Instance, token: str) -> str:
    challenge: str = json.loads(await second_factor.begin_with_passkey(instance.services, token))["challenge"]
    return challenge


async def log_in(instance: Instance, key: SoftwareAuthenticator) -> SessionStarted:
    pending = await instance.start_login()
    response = key.get(await challenge_of(instance, pending.token))
    return await second_factor.complete_login_with_passkey(instance.services, pending.token, response, CALLER)


async def signed_in(instance: Instance, seed: bytes) -> ActiveSession:
    """Return a session of Omar that used a code."""
    pending = await instance.start_login()
    started = await complete_login(instance.services, pending.token, instance.code(seed), CALLER)
    return await sessions.active_session(instance.services, started.token)


async def add(instance: Instance, active: ActiveSession, key: SoftwareAuthenticator, name: str = "laptop") -> Passkey:
    challenge = json.loads(await passkeys.begin_adding(instance.services, active))["challenge"]
    return await passkeys.add(instance.services, active, name=name, response=key.create(challenge), caller=CALLER)


async def test_passkey_is_a_second_factor(instance: Instance) -> None:
    instance.enrol_second_factor()
    instance.write(lambda stores: stores.directory.put_grants(Grant(OMAR, STRICT, (), data_export=True)))
    key = authenticator()
    register(instance, key)
    started = await log_in(instance, key)
    assert started.session.amr == ("pwd", "pop")
    active = await sessions.active_session(instance.services, started.token)
    switched = await sessions.switch(instance.services, active, STRICT, CALLER)
    assert (await sessions.authenticate(instance.services, switched)).account.second_factor_required


async def test_challenge_expires(instance: Instance) -> None:
    instance.enrol_second_factor()
    key = authenticator()
    register(instance, key)
    pending = await instance.start_login()
    challenge = await challenge_of(instance, pending.token)
    instance.advance(seconds=CHALLENGE_LIFETIME.total_seconds())
    with pytest.raises(Unauthenticated) as refused:
        await second_factor.complete_login_with_passkey(instance.services, pending.token, key.get(challenge), CALLER)
    assert refused.value.code == "invalid_passkey"
    response = key.get(await challenge_of(instance, pending.token))
    await second_factor.complete_login_with_passkey(instance.services, pending.token, response, CALLER)


async def test_attempts_share_the_limits_of_codes(instance: Instance) -> None:
    seed, key = instance.enrol_second_factor(), authenticator()
    register(instance, key)
    pending = await instance.start_login()
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            await second_factor.complete_login_with_passkey(instance.services, pending.token, "{}", CALLER)
    response = key.get(await challenge_of(instance, pending.token))
    with pytest.raises(RateLimited):
        await second_factor.complete_login_with_passkey(instance.services, pending.token, response, CALLER)
    with pytest.raises(RateLimited):
        await complete_login(instance.services, pending.token, instance.code(seed), CALLER)
    instance.advance(minutes=5)
    response = key.get(await challenge_of(instance, pending.token))
    await second_factor.complete_login_with_passkey(instance.services, pending.token, response, CALLER)


async def test_completed_login_has_no_passkey_step(instance: Instance) -> None:
    seed, key = instance.enrol_second_factor(), authenticator()
    register(instance, key)
    pending = await instance.start_login()
    challenge = await challenge_of(instance, pending.token)
    await complete_login(instance.services, pending.token, instance.code(seed), CALLER)
    with pytest.raises(Unauthenticated) as refused:
        await second_factor.begin_with_passkey(instance.services, pending.token)
    assert refused.value.code == "session_ended"
    with pytest.raises(Unauthenticated) as refused:
        await second_factor.complete_login_with_passkey(instance.services, pending.token, key.get(challenge), CALLER)
    assert refused.value.code == "session_ended"


async def test_seat_without_passkeys_gets_no_options(instance: Instance) -> None:
    instance.enrol_second_factor()
    pending = await instance.start_login()
    with pytest.raises(NotFound):
        await second_factor.begin_with_passkey(instance.services, pending.token)


async def test_adding_and_removing_need_a_recent_password(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    active = await signed_in(instance, seed)
    passkey = await add(instance, active, authenticator())
    challenge = json.loads(await passkeys.begin_adding(instance.services, active))["challenge"]
    instance.advance(minutes=10)
    with pytest.raises(Forbidden, match="password"):
        await passkeys.begin_adding(instance.services, active)
    response = authenticator().create(challenge)
    with pytest.raises(Forbidden, match="password"):
        await passkeys.add(instance.services, active, name="late", response=response, caller=CALLER)
    with pytest.raises(Forbidden, match="password"):
        await passkeys.remove(instance.services, active, passkey, CALLER)
    renamed = await passkeys.rename(instance.services, active, passkey, " new ", CALLER)
    assert await passkeys.list_of_seat(instance.services, active.seat) == [renamed]
    assert renamed.name == "new"
    assert [event.details["name"] for event in instance.audit("passkey.added")] == ["laptop"]


async def test_seat_without_authenticator_app_adds_no_passkey(instance: Instance) -> None:
    started = await instance.log_in("rosa@example.org")
    active = await sessions.active_session(instance.services, started.token)
    with pytest.raises(Conflict, match="authenticator app"):
        await passkeys.begin_adding(instance.services, active)


async def test_reset_during_the_addition_refuses_the_passkey(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    active = await signed_in(instance, seed)
    challenge = json.loads(await passkeys.begin_adding(instance.services, active))["challenge"]
    await instance.state.awrite(lambda stores: stores.seats.reset_second_factor(OMAR))
    response = authenticator().create(challenge)
    with pytest.raises(Conflict, match="authenticator app"):
        await passkeys.add(instance.services, active, name="key", response=response, caller=CALLER)
    assert await passkeys.list_of_seat(instance.services, active.seat) == []


async def test_names_and_number_are_limited(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    active = await signed_in(instance, seed)
    for name in ("", " ", "a" * 81, "two\nlines"):
        with pytest.raises(InvalidRequest):
            await add(instance, active, authenticator(), name)
    for number in range(MAX_PASSKEYS):
        await add(instance, active, authenticator(), f"key {number}")
    with pytest.raises(Conflict) as refused:
        await add(instance, active, authenticator())
    assert refused.value.code == "too_many_passkeys"


async def test_passkeys_need_a_host_name(instance: Instance) -> None:
    instance.enrol_second_factor()
    register(instance, authenticator())
    settings = configured(base_url="https://192.0.2.7")
    object.__setattr__(instance.services, "settings", settings)
    pending = await instance.start_login()
    assert not passkeys.are_available(instance.services)
    with pytest.raises(NotFound):
        await second_factor.begin_with_passkey(instance.services, pending.token)
    with pytest.raises(NotFound):
        await second_factor.complete_login_with_passkey(instance.services, pending.token, "{}", CALLER)
