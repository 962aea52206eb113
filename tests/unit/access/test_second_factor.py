"""The second factor: once a step, few guesses, no way round."""

from __future__ import annotations

import asyncio
import base64
import secrets
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from daybreak.access import operators, second_factor, sessions
from daybreak.access.login import SessionStarted
from daybreak.credentials import keyring, totp
from daybreak.domain.errors import (
    Conflict,
    Forbidden,
    RateLimited,
    RequestError,
    Unauthenticated,
    Unavailable,
)
from tests.unit.access.house import ALPHA, CALLER, ELSEWHERE, INES, OMAR, ROSA, STRICT, House


def refused(house: House, code: str, token: str | None = None) -> RequestError:
    """What a code is told, for a new waiting login of Omar unless a token is given."""

    async def attempt() -> None:
        held = token or (await house.wait()).token
        await second_factor.answer(house.services, held, code, CALLER)

    with pytest.raises(RequestError) as told:
        house.run(attempt())
    return told.value


def answered(house: House, code: str, token: str | None = None) -> SessionStarted:
    async def story() -> SessionStarted:
        held = token or (await house.wait()).token
        return await second_factor.answer(house.services, held, code, CALLER)

    return house.run(story())


def test_a_right_code_completes_the_login_for_seven_days_from_the_login(house: House) -> None:
    seed = house.enrol()
    waiting = house.run(house.wait())
    house.later(minutes=9)
    started = answered(house, house.code(seed), waiting.token)
    assert (started.seat_id, started.client_id) == (OMAR, ALPHA)
    assert started.session.sid == waiting.session.sid
    assert started.session.expires_at == house.now[0] - timedelta(minutes=9) + timedelta(days=7)
    principal = house.run(sessions.authenticate(house.services, started.token))
    assert principal.session is not None
    assert principal.session.amr == ("pwd", "otp")
    assert principal.session.expires_at == started.session.expires_at


def test_the_waiting_token_opens_nothing_else_and_ends_after_ten_minutes(house: House) -> None:
    seed = house.enrol()
    token = house.run(house.wait()).token
    with pytest.raises(Forbidden) as told:
        house.run(sessions.authenticate(house.services, token))
    assert told.value.code == "second_factor_required"
    house.later(minutes=10, seconds=1)
    assert refused(house, house.code(seed), token).code == "token_expired"


def test_the_waiting_token_is_good_for_one_success(house: House) -> None:
    seed = house.enrol()
    token = house.run(house.wait()).token
    answered(house, house.code(seed), token)
    house.later(seconds=30)
    assert refused(house, house.code(seed), token).code == "session_ended"
    with pytest.raises(Unauthenticated):
        house.run(sessions.authenticate(house.services, token))


def test_a_waiting_login_that_is_over_uses_up_no_code(house: House) -> None:
    seed = house.enrol()
    ended, shut_out = house.run(house.wait()), house.run(house.wait())
    house.write(lambda stores: stores.sessions.end(ended.session.sid, house.now[0], "logout"))
    assert refused(house, house.code(seed), ended.token).code == "session_ended"
    house.write(lambda stores: stores.seats.set_disabled(OMAR, True))
    assert refused(house, house.code(seed), shut_out.token).code == "session_ended"
    house.write(lambda stores: stores.seats.set_disabled(OMAR, False))
    answered(house, house.code(seed))


def test_a_step_is_accepted_once_and_no_earlier_one_after_it(house: House) -> None:
    seed = house.enrol()
    now_code, early_code = house.code(seed), house.code(seed, -1)
    answered(house, now_code)
    assert refused(house, now_code).code == "invalid_code"
    assert refused(house, early_code).code == "invalid_code"
    answered(house, house.code(seed, 1))


def test_20_parallel_uses_of_one_code_give_one_success(house: House) -> None:
    seed = house.enrol()
    code = house.code(seed)

    async def story() -> list[object]:
        held = [await house.wait() for _ in range(20)]
        uses = (second_factor.answer(house.services, w.token, code, CALLER) for w in held)
        return list(await asyncio.gather(*uses, return_exceptions=True))

    outcomes = house.run(story())
    assert sum(isinstance(outcome, SessionStarted) for outcome in outcomes) == 1
    others = [outcome for outcome in outcomes if not isinstance(outcome, SessionStarted)]
    assert all(isinstance(outcome, Unauthenticated | RateLimited) for outcome in others)


def test_of_50_parallel_guesses_five_are_looked_at_and_then_the_right_code_waits(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = house.enrol()
    wrong = house.wrong_code(seed)
    looked_at: list[str] = []
    real = totp.matching_step

    def counted(seed: bytes, code: str, now_seconds: float, window: int = 1) -> int | None:
        looked_at.append(code)
        return real(seed, code, now_seconds, window)

    monkeypatch.setattr(totp, "matching_step", counted)

    async def story() -> list[object]:
        token = (await house.wait()).token
        guesses = (second_factor.answer(house.services, token, wrong, CALLER) for _ in range(50))
        return list(await asyncio.gather(*guesses, return_exceptions=True))

    outcomes = house.run(story())
    assert len(looked_at) == 5
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 45
    told = refused(house, house.code(seed))
    assert isinstance(told, RateLimited)
    assert (told.limit, told.window_seconds) == (5, 300)
    house.later(seconds=told.retry_after_seconds + 1)
    answered(house, house.code(seed))


def test_guessing_slowly_ends_at_20_an_hour_and_50_a_day(house: House) -> None:
    seed = house.enrol()

    def guess_until_refused() -> tuple[int, RateLimited]:
        for attempts in range(100):
            token = house.run(house.wait()).token
            told = refused(house, house.wrong_code(seed), token)
            if isinstance(told, RateLimited):
                return attempts, told
            house.later(seconds=61)
        raise AssertionError("guessing never ended")

    attempts, told = guess_until_refused()
    assert (attempts, told.limit, told.window_seconds) == (20, 20, 3600)
    house.later(hours=1)
    assert guess_until_refused()[0] == 20
    house.later(hours=1)
    attempts, told = guess_until_refused()
    assert (attempts, told.limit, told.window_seconds) == (10, 50, 86400)


def test_a_seat_without_one_is_told_where_to_enrol(house: House) -> None:
    token = house.run(house.wait("ines@example.org")).token
    told = refused(house, "123456", token)
    assert told.code == "second_factor_not_enrolled"
    assert "https://data.example.org/dashboard" in told.message


def test_a_dashboard_login_that_owes_one_enrols_and_is_complete(house: House) -> None:
    async def story() -> tuple[second_factor.Enrolment, second_factor.Enrolled]:
        token = (await house.wait("ines@example.org", kind="dashboard")).token
        begun = await second_factor.begin_owed_enrolment(house.services, token)
        seed = _seed_of(begun)
        with pytest.raises(Unauthenticated):
            await second_factor.confirm_owed_enrolment(house.services, token, house.wrong_code(seed), CALLER)
        return begun, await second_factor.confirm_owed_enrolment(house.services, token, house.code(seed), CALLER)

    begun, enrolled = house.run(story())
    assert enrolled.started is not None
    assert enrolled.started.client_id == STRICT
    assert len(set(enrolled.recovery_codes)) == 10
    assert house.seat(INES).second_factor_enrolled
    # The step that confirmed is used.
    token = house.run(house.wait("ines@example.org")).token
    assert refused(house, house.code(_seed_of(begun)), token).code == "invalid_code"
    svg = ET.fromstring(begun.qr_svg)
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert begun.otpauth_uri.startswith("otpauth://totp/Daybreak:ines@example.org?secret=")


def test_a_factor_that_exists_cannot_be_replaced_by_who_knows_the_password_only(
    house: House,
) -> None:
    house.enrol()

    async def story() -> None:
        token = (await house.wait(kind="dashboard")).token
        with pytest.raises(Forbidden):
            await second_factor.begin_owed_enrolment(house.services, token)
        with pytest.raises(Forbidden):
            await second_factor.confirm_owed_enrolment(house.services, token, "123456", CALLER)

    house.run(story())


def test_a_waiting_token_of_the_api_enrols_nothing(house: House) -> None:
    async def story() -> None:
        token = (await house.wait("ines@example.org")).token
        await second_factor.begin_owed_enrolment(house.services, token)

    with pytest.raises(Forbidden):
        house.run(story())


def test_enrolment_of_two_logins_at_once_gives_the_seat_one_factor(house: House) -> None:
    async def story() -> None:
        first = (await house.wait("ines@example.org", kind="dashboard")).token
        second = (await house.wait("ines@example.org", kind="dashboard")).token
        mine = _seed_of(await second_factor.begin_owed_enrolment(house.services, first))
        theirs = _seed_of(await second_factor.begin_owed_enrolment(house.services, second))
        with pytest.raises(Unauthenticated):
            await second_factor.confirm_owed_enrolment(house.services, first, house.code(mine), CALLER)
        await second_factor.confirm_owed_enrolment(house.services, second, house.code(theirs), CALLER)
        with pytest.raises(RequestError):
            await second_factor.confirm_owed_enrolment(house.services, first, house.code(theirs, 1), CALLER)

    house.run(story())


def test_who_is_signed_in_enrols_after_the_password_and_other_sessions_end(house: House) -> None:
    async def story() -> None:
        mine, other = await house.start(), await house.start(caller=ELSEWHERE)
        who = await sessions.signed_in(house.services, mine.token)
        with pytest.raises(Conflict):
            await second_factor.confirm_enrolment(house.services, who, "123456", CALLER)
        begun = await second_factor.begin_enrolment(house.services, who)
        await second_factor.confirm_enrolment(house.services, who, house.code(_seed_of(begun)), CALLER)
        await sessions.signed_in(house.services, mine.token)
        with pytest.raises(Unauthenticated):
            await sessions.signed_in(house.services, other.token)
        begun = await second_factor.begin_enrolment(house.services, who)
        house.later(minutes=11)
        for act in (
            second_factor.begin_enrolment(house.services, who),
            second_factor.confirm_enrolment(house.services, who, house.code(_seed_of(begun)), CALLER),
            second_factor.new_recovery_codes(house.services, who, CALLER),
        ):
            with pytest.raises(Forbidden) as told:
                await act
            assert told.value.code == "reauthentication_required"

    house.run(story())
    assert house.seat(ROSA).second_factor_enrolled


def test_guesses_at_the_code_of_an_enrolment_are_counted(house: House) -> None:
    async def story() -> None:
        who = await sessions.signed_in(house.services, (await house.start()).token)
        seed = _seed_of(await second_factor.begin_enrolment(house.services, who))
        for _ in range(5):
            with pytest.raises(Unauthenticated):
                await second_factor.confirm_enrolment(house.services, who, house.wrong_code(seed), CALLER)
        with pytest.raises(RateLimited):
            await second_factor.confirm_enrolment(house.services, who, house.code(seed), CALLER)

    house.run(story())


def test_a_recovery_code_opens_once(house: House) -> None:
    seed = house.enrol()

    async def story() -> None:
        started = await second_factor.answer(house.services, (await house.wait()).token, house.code(seed), CALLER)
        who = await sessions.signed_in(house.services, started.token)
        codes = await second_factor.new_recovery_codes(house.services, who, CALLER)

        async def use(code: str) -> SessionStarted:
            token = (await house.wait(kind="dashboard")).token
            return await second_factor.answer_with_recovery_code(house.services, token, code, CALLER)

        opened = await use(codes[0].upper())
        assert opened.session.amr == ("pwd", "recovery")
        for spent in (codes[0], "2222-2222-2222-2222", ""):
            with pytest.raises(Unauthenticated):
                await use(spent)
        await use(codes[1])
        dump = (house.path / "state.db").read_bytes() + (house.path / "state.db-wal").read_bytes()
        assert all(code.encode() not in dump for code in codes)

    house.run(story())
    assert house.state.read(lambda stores: stores.seats.recovery_codes_left(OMAR)) == 8


def test_a_reset_takes_the_factor_and_all_sessions(house: House) -> None:
    seed = house.enrol()
    started = answered(house, house.code(seed))
    seat = house.seat(OMAR)
    ended = house.write(lambda stores: operators.reset_second_factor(stores, seat, house.now[0], actor="operator"))
    assert ended >= 1
    with pytest.raises(Unauthenticated):
        house.run(sessions.authenticate(house.services, started.token))
    assert house.run(house.start("omar@example.org")).session.amr == ("pwd",)


def test_an_operator_enrols_a_seat_by_the_command_line(house: House) -> None:
    ring = house.services.keyring.current()
    seat = house.seat(OMAR)
    earlier = house.run(house.start("omar@example.org")).token
    begun = house.write(
        lambda stores: operators.begin_enrolment(stores, seat, house.now[0], keyring=ring, random=secrets.token_bytes)
    )
    codes = house.write(
        lambda stores: operators.confirm_enrolment(
            stores,
            seat,
            house.code(_seed_of(begun)),
            house.now[0],
            keyring=ring,
            random=secrets.token_bytes,
            actor="operator",
        )
    )
    assert len(codes) == 10
    with pytest.raises(Unauthenticated):
        house.run(sessions.authenticate(house.services, earlier))
    house.later(seconds=30)
    answered(house, house.code(_seed_of(begun)))


def test_seeds_move_to_the_new_key_and_the_old_one_may_go(house: House) -> None:
    seed = house.enrol()
    path = house.path / "keyring.json"
    lifetime = timedelta(days=7)

    def rotate(kids_in_use: frozenset[str] | None) -> keyring.Keyring:
        ring = keyring.load(path).rotate(house.now[0], secrets.token_bytes, lifetime=lifetime, kids_in_use=kids_in_use)
        keyring.save(path, ring)
        return ring

    ring = rotate(None)
    moved = house.write(lambda stores: operators.reseal_seeds(stores, ring, secrets.token_bytes))
    assert moved == 1
    house.later(days=8)
    assert rotate(frozenset()).keys[0].state == "gone"
    answered(house, house.code(seed))


def test_a_keyring_that_was_replaced_is_a_fault_of_the_service_not_of_the_code(
    house: House,
) -> None:
    seed = house.enrol()
    path = house.path / "keyring.json"
    path.unlink()
    keyring.create(path, house.now[0], secrets.token_bytes)
    with pytest.raises(Unavailable, match="keyring"):
        answered(house, house.code(seed))


def test_the_seed_is_nowhere_in_the_clear_in_the_database(house: House) -> None:
    seed = house.enrol()
    answered(house, house.code(seed))
    dump = b"".join(file.read_bytes() for file in house.path.glob("state.db*"))
    assert seed not in dump
    assert seed.hex().encode() not in dump
    assert totp.manual_key(seed).encode() not in dump


def _seed_of(begun: second_factor.Enrolment) -> bytes:
    key = begun.manual_key
    return base64.b32decode(key + "=" * (-len(key) % 8))
