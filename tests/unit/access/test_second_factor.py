"""Second factor: each step is accepted once, guesses are limited, and no login bypasses it."""

import base64
import secrets
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from daybreak.access import enrolment, keys, operators, second_factor, sessions
from daybreak.access.login import SessionStarted
from daybreak.credentials import keyring, totp
from daybreak.domain.email_address import is_email_address
from daybreak.domain.errors import Conflict, Forbidden, RateLimited, RequestError, Unauthenticated, Unavailable
from tests.unit.access.instance import ALPHA, CALLER, ELSEWHERE, INES, OMAR, ROSA, STRICT, Instance


async def login_error(instance: Instance, code: str, token: str | None = None) -> RequestError:
    """Return the error of a code, for a new login of Omar unless a token is passed."""
    pending = token or (await instance.start_login()).token
    with pytest.raises(RequestError) as caught:
        await second_factor.complete_login(instance.services, pending, code, CALLER)
    return caught.value


async def complete_login(instance: Instance, code: str, token: str | None = None) -> SessionStarted:
    pending = token or (await instance.start_login()).token
    return await second_factor.complete_login(instance.services, pending, code, CALLER)


async def test_session_lasts_seven_days_from_the_password(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    pending = await instance.start_login()
    instance.advance(minutes=9)
    started = await complete_login(instance, instance.code(seed), pending.token)
    assert (started.session.seat_id, started.client_id) == (OMAR, ALPHA)
    assert started.session.expires_at == instance.now[0] - timedelta(minutes=9) + timedelta(days=7)
    principal = await sessions.authenticate(instance.services, started.token)
    assert principal.session is not None
    assert principal.session.amr == ("pwd", "otp")
    assert principal.session.expires_at == started.session.expires_at


async def test_pending_token_opens_no_account_and_expires(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    token = (await instance.start_login()).token
    with pytest.raises(Forbidden) as caught:
        await sessions.authenticate(instance.services, token)
    assert caught.value.code == "second_factor_required"
    instance.advance(minutes=10, seconds=1)
    assert (await login_error(instance, instance.code(seed), token)).code == "token_expired"


async def test_pending_token_completes_one_login(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    token = (await instance.start_login()).token
    await complete_login(instance, instance.code(seed), token)
    instance.advance(seconds=30)
    assert (await login_error(instance, instance.code(seed), token)).code == "session_ended"
    with pytest.raises(Unauthenticated):
        await sessions.authenticate(instance.services, token)


async def test_ended_login_does_not_use_up_the_code(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    ended, disabled = await instance.start_login(), await instance.start_login()
    instance.write(lambda stores: stores.sessions.end(ended.session.sid, instance.now[0], "logout"))
    assert (await login_error(instance, instance.code(seed), ended.token)).code == "session_ended"
    instance.write(lambda stores: stores.seats.set_disabled(OMAR, disabled=True))
    assert (await login_error(instance, instance.code(seed), disabled.token)).code == "session_ended"
    instance.write(lambda stores: stores.seats.set_disabled(OMAR, disabled=False))
    await complete_login(instance, instance.code(seed))


async def test_used_and_earlier_steps_are_refused(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    now_code, early_code = instance.code(seed), instance.code(seed, -1)
    await complete_login(instance, now_code)
    assert (await login_error(instance, now_code)).code == "invalid_code"
    assert (await login_error(instance, early_code)).code == "invalid_code"
    await complete_login(instance, instance.code(seed, 1))


async def test_slow_guessing_stops_at_20_an_hour_and_50_a_day(instance: Instance) -> None:
    seed = instance.enrol_second_factor()

    async def guess_until_refused() -> tuple[int, RateLimited]:
        for attempts in range(100):
            token = (await instance.start_login()).token
            caught = await login_error(instance, instance.wrong_code(seed), token)
            if isinstance(caught, RateLimited):
                return attempts, caught
            instance.advance(seconds=61)
        raise AssertionError("guesses are not limited")

    attempts, caught = await guess_until_refused()
    assert (attempts, caught.limit, caught.window_seconds) == (20, 20, 3600)
    instance.advance(hours=1)
    assert (await guess_until_refused())[0] == 20
    instance.advance(hours=1)
    attempts, caught = await guess_until_refused()
    assert (attempts, caught.limit, caught.window_seconds) == (10, 50, 86400)


async def test_enrolment_completes_a_pending_dashboard_login(instance: Instance) -> None:
    token = (await instance.start_login("ines@example.org", kind="dashboard")).token
    begun = await enrolment.begin_required(instance.services, token)
    seed = seed_of(begun)
    with pytest.raises(Unauthenticated):
        await enrolment.confirm_required(instance.services, token, instance.wrong_code(seed), CALLER)
    enrolled = await enrolment.confirm_required(instance.services, token, instance.code(seed), CALLER)
    assert enrolled.started is not None
    assert enrolled.started.client_id == STRICT
    assert len(set(enrolled.recovery_codes)) == 10
    assert instance.seat(INES).second_factor_enrolled
    # The step that confirmed the enrolment is used up.
    token = (await instance.start_login("ines@example.org")).token
    assert (await login_error(instance, instance.code(seed_of(begun)), token)).code == "invalid_code"
    svg = ET.fromstring(begun.qr_svg)
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert begun.otpauth_uri.startswith("otpauth://totp/Daybreak:ines@example.org?secret=")


async def test_password_alone_cannot_replace_a_second_factor(instance: Instance) -> None:
    instance.enrol_second_factor()
    token = (await instance.start_login(kind="dashboard")).token
    with pytest.raises(Forbidden):
        await enrolment.begin_required(instance.services, token)
    with pytest.raises(Forbidden):
        await enrolment.confirm_required(instance.services, token, "123456", CALLER)


async def test_pending_api_login_cannot_enrol(instance: Instance) -> None:
    token = (await instance.start_login("ines@example.org")).token
    with pytest.raises(Forbidden):
        await enrolment.begin_required(instance.services, token)


async def test_two_parallel_enrolments_leave_one_factor(instance: Instance) -> None:
    first = (await instance.start_login("ines@example.org", kind="dashboard")).token
    second = (await instance.start_login("ines@example.org", kind="dashboard")).token
    mine = seed_of(await enrolment.begin_required(instance.services, first))
    theirs = seed_of(await enrolment.begin_required(instance.services, second))
    with pytest.raises(Unauthenticated):
        await enrolment.confirm_required(instance.services, first, instance.code(mine), CALLER)
    await enrolment.confirm_required(instance.services, second, instance.code(theirs), CALLER)
    with pytest.raises(RequestError):
        await enrolment.confirm_required(instance.services, first, instance.code(theirs, 1), CALLER)


@pytest.mark.parametrize("letter", ["漢", "𠀀"])
def test_key_of_a_long_email_fits_into_a_qr_code(letter: str) -> None:
    email = f"{letter * 200}@{letter * 49}.org"
    assert is_email_address(email)
    assert "<path" in enrolment.enrolment_of(b"s" * totp.SEED_BYTES, email=email).qr_svg


async def test_enrolment_needs_the_password_and_ends_sessions(instance: Instance) -> None:
    mine, other = await instance.log_in(), await instance.log_in(caller=ELSEWHERE)
    active = await sessions.active_session(instance.services, mine.token)
    with pytest.raises(Conflict):
        await enrolment.confirm(instance.services, active, "123456", CALLER)
    begun = await enrolment.begin(instance.services, active)
    await enrolment.confirm(instance.services, active, instance.code(seed_of(begun)), CALLER)
    await sessions.active_session(instance.services, mine.token)
    with pytest.raises(Unauthenticated):
        await sessions.active_session(instance.services, other.token)
    begun = await enrolment.begin(instance.services, active)
    instance.advance(minutes=11)
    for action in (
        enrolment.begin(instance.services, active),
        enrolment.confirm(instance.services, active, instance.code(seed_of(begun)), CALLER),
        enrolment.replace_recovery_codes(instance.services, active, CALLER),
    ):
        with pytest.raises(Forbidden) as caught:
            await action
        assert caught.value.code == "reauthentication_required"
    assert instance.seat(ROSA).second_factor_enrolled


async def test_guesses_during_enrolment_are_limited(instance: Instance) -> None:
    active = await sessions.active_session(instance.services, (await instance.log_in()).token)
    seed = seed_of(await enrolment.begin(instance.services, active))
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            await enrolment.confirm(instance.services, active, instance.wrong_code(seed), CALLER)
    with pytest.raises(RateLimited):
        await enrolment.confirm(instance.services, active, instance.code(seed), CALLER)


async def test_recovery_code_works_once(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    started = await second_factor.complete_login(
        instance.services, (await instance.start_login()).token, instance.code(seed), CALLER
    )
    active = await sessions.active_session(instance.services, started.token)
    codes = await enrolment.replace_recovery_codes(instance.services, active, CALLER)

    async def use(code: str) -> SessionStarted:
        token = (await instance.start_login(kind="dashboard")).token
        return await second_factor.complete_login_with_recovery_code(instance.services, token, code, CALLER)

    started = await use(codes[0].upper())
    assert started.session.amr == ("pwd", "recovery")
    for invalid in (codes[0], "2222-2222-2222-2222", ""):
        with pytest.raises(Unauthenticated):
            await use(invalid)
    await use(codes[1])
    dump = (instance.path / "state.db").read_bytes() + (instance.path / "state.db-wal").read_bytes()
    assert all(code.encode() not in dump for code in codes)
    assert instance.state.read(lambda stores: stores.seats.recovery_codes_left(OMAR)) == 8


async def test_reset_removes_the_factor_and_all_sessions(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    started = await complete_login(instance, instance.code(seed))
    seat = instance.seat(OMAR)
    ended = instance.write(
        lambda stores: operators.reset_second_factor(stores, seat, instance.now[0], actor="operator")
    )
    assert ended >= 1
    with pytest.raises(Unauthenticated):
        await sessions.authenticate(instance.services, started.token)
    assert (await instance.log_in("omar@example.org")).session.amr == ("pwd",)


async def test_operator_enrols_a_seat(instance: Instance) -> None:
    ring = instance.services.keyring.current()
    seat = instance.seat(OMAR)
    earlier = (await instance.log_in("omar@example.org")).token
    begun = instance.write(
        lambda stores: operators.begin_enrolment(
            stores, seat, instance.now[0], keyring=ring, random=secrets.token_bytes
        )
    )
    codes = instance.write(
        lambda stores: operators.confirm_enrolment(
            stores,
            seat,
            instance.code(seed_of(begun)),
            instance.now[0],
            keyring=ring,
            random=secrets.token_bytes,
            actor="operator",
        )
    )
    assert len(codes) == 10
    with pytest.raises(Unauthenticated):
        await sessions.authenticate(instance.services, earlier)
    instance.advance(seconds=30)
    await complete_login(instance, instance.code(seed_of(begun)))


async def test_seeds_are_encrypted_again_with_the_new_key(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    path = instance.path / "keyring.json"
    lifetime = timedelta(days=7)

    def rotate(kids_in_use: frozenset[str] | None) -> keyring.Keyring:
        ring = keyring.load(path).rotate(
            instance.now[0], secrets.token_bytes, lifetime=lifetime, kids_in_use=kids_in_use
        )
        keyring.save(path, ring)
        return ring

    ring = rotate(None)
    assert instance.write(lambda stores: keys.reencrypt(stores, ring, secrets.token_bytes)).seeds == 1
    instance.advance(days=8)
    assert rotate(frozenset()).keys[0].state == "gone"
    await complete_login(instance, instance.code(seed))


async def test_replaced_keyring_is_reported_as_unavailable(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    path = instance.path / "keyring.json"
    path.unlink()
    keyring.create(path, instance.now[0], secrets.token_bytes)
    with pytest.raises(Unavailable, match="keyring"):
        await complete_login(instance, instance.code(seed))


async def test_seed_is_stored_encrypted_only(instance: Instance) -> None:
    seed = instance.enrol_second_factor()
    await complete_login(instance, instance.code(seed))
    dump = b"".join(file.read_bytes() for file in instance.path.glob("state.db*"))
    assert seed not in dump
    assert seed.hex().encode() not in dump
    assert totp.manual_key(seed).encode() not in dump


def seed_of(begun: enrolment.Enrolment) -> bytes:
    key = begun.manual_key
    return base64.b32decode(key + "=" * (-len(key) % 8))
