"""Many at once, over several workers with connections of their own, on both state databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from daybreak.access import api_tokens, operators, second_factor, sessions
from daybreak.access.login import SessionStarted, login
from daybreak.access.services import AccessServices
from daybreak.credentials import totp
from daybreak.domain.errors import Conflict, RateLimited, RequestError, Unauthenticated
from daybreak.domain.identity import Caller, Landing, Seat
from daybreak.ports.state import Stores
from daybreak.state.database import open_state
from daybreak.state.seats import SqlSeats
from tests.parts.waiting import wait_until
from tests.unit.access.house import ALPHA, CALLER, PASSWORD, ROSA, START, House, open_house, verify_by

WORKERS = 3


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    url: str | None = None
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_url")
    with open_house(tmp_path, url) as opened:
        yield opened


@pytest.fixture
def workers(house: House) -> Iterator[list[AccessServices]]:
    """The services of several worker processes: each with a state and connections of its own."""
    with ExitStack() as stack:
        found = []
        for _ in range(WORKERS):
            state = open_state(house.url)
            stack.callback(state.close)
            found.append(replace(house.services, state=state))
        yield found


def all_at_once(workers: list[AccessServices], times: int, act: Callable[[AccessServices, int], Any]) -> list[Any]:
    """What came of each, errors among them."""

    async def story() -> list[Any]:
        acts = (act(workers[at % len(workers)], at) for at in range(times))
        outcomes = await asyncio.gather(*acts, return_exceptions=True)
        for services in workers:
            await services.state.aclose()
        return list(outcomes)

    return asyncio.run(story())


def test_20_parallel_uses_of_one_code_give_one_success(
    house: House, workers: list[AccessServices], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the throttles, so that it is the step alone that decides.
    limits = replace(
        house.services.settings.limits,
        second_factor=((1000, 300),),
        login_seat_and_address=(1000, 300),
    )
    settings = replace(house.services.settings, limits=limits)
    verify_by(monkeypatch, house.services, lambda *_: True)
    seed = house.enrol()
    code = house.code(seed)

    async def use(services: AccessServices, _: int) -> SessionStarted:
        services = replace(services, settings=settings)
        waiting = await login(services, email="omar@example.org", password=PASSWORD, caller=CALLER)
        return await second_factor.answer(services, waiting.token, code, CALLER)

    outcomes = all_at_once(workers, 20, use)
    assert sum(isinstance(outcome, SessionStarted) for outcome in outcomes) == 1
    refusals = [outcome for outcome in outcomes if not isinstance(outcome, SessionStarted)]
    assert {type(outcome) for outcome in refusals} == {Unauthenticated}


def test_one_waiting_login_is_completed_once(house: House, workers: list[AccessServices]) -> None:
    seed = house.enrol()
    waiting = house.run(house.wait())
    codes = [house.code(seed, steps) for steps in (-1, 0, 1)]

    async def use(services: AccessServices, at: int) -> SessionStarted:
        return await second_factor.answer(services, waiting.token, codes[at % 3], CALLER)

    outcomes = all_at_once(workers, 3, use)
    assert sum(isinstance(outcome, SessionStarted) for outcome in outcomes) == 1
    assert all(isinstance(o, SessionStarted | Unauthenticated) for o in outcomes)


def test_of_50_parallel_guesses_at_a_code_five_are_looked_at(
    house: House, workers: list[AccessServices], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = house.enrol()
    waiting = house.run(house.wait())
    wrong = house.wrong_code(seed)
    looked_at: list[str] = []
    real = totp.matching_step

    def counted(seed: bytes, code: str, now_seconds: float, window: int = 1) -> int | None:
        looked_at.append(code)
        return real(seed, code, now_seconds, window)

    monkeypatch.setattr(totp, "matching_step", counted)

    async def guess(services: AccessServices, _: int) -> object:
        return await second_factor.answer(services, waiting.token, wrong, CALLER)

    outcomes = all_at_once(workers, 50, guess)
    assert len(looked_at) == 5
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 45
    assert sum(isinstance(outcome, Unauthenticated) for outcome in outcomes) == 5


def test_of_50_parallel_guesses_at_a_password_ten_are_looked_at(
    workers: list[AccessServices], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def refuse(_: str | None, password: str) -> bool:
        looked_at.append(password)
        return False

    verify_by(monkeypatch, workers[0], refuse)

    async def guess(services: AccessServices, at: int) -> object:
        return await login(services, email="rosa@example.org", password=f"guess number {at}", caller=CALLER)

    outcomes = all_at_once(workers, 50, guess)
    assert len(looked_at) == 10
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 40


def test_guessing_from_many_addresses_does_not_keep_the_owner_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_by(monkeypatch, house.services, lambda _, password: password == PASSWORD)

    async def story() -> None:
        for network in range(5):
            for _ in range(11):
                with pytest.raises(RequestError):
                    await login(
                        house.services,
                        email="rosa@example.org",
                        password="wrong wrong wrong",
                        caller=Caller(f"203.0.113.{network}"),
                    )
        await house.start(caller=Caller("198.51.100.77"))

    house.run(story())


def test_after_a_logout_in_one_worker_no_other_lets_the_token_in(house: House, workers: list[AccessServices]) -> None:
    token = house.run(house.start()).token

    async def story() -> list[str]:
        for services in workers:
            await sessions.authenticate(services, token)
        await sessions.logout(workers[0], await sessions.signed_in(workers[0], token), CALLER)
        told = []
        for services in workers * 20:
            try:
                await sessions.authenticate(services, token)
                told.append("in")
            except Unauthenticated as refusal:
                told.append(refusal.code)
        for services in workers:
            await services.state.aclose()
        return told

    assert set(asyncio.run(story())) == {"session_ended"}


def test_no_more_tokens_than_there_may_be_however_many_are_made_at_once(
    house: House, workers: list[AccessServices]
) -> None:
    async def make(services: AccessServices, at: int) -> api_tokens.Minted:
        return await api_tokens.create(services, who, name=f"number {at}", expires_at=None, caller=CALLER)

    who = house.run(sessions.authenticate(house.services, house.run(_on_alpha(house))))
    outcomes = all_at_once(workers, 2 * api_tokens.MAXIMUM_LIVE_TOKENS, make)
    made = [outcome for outcome in outcomes if isinstance(outcome, api_tokens.Minted)]
    assert len(made) == api_tokens.MAXIMUM_LIVE_TOKENS
    assert {type(outcome) for outcome in outcomes if outcome not in made} == {Conflict}


async def _on_alpha(house: House) -> str:
    started = await house.start()
    who = await sessions.signed_in(house.services, started.token)
    return (await sessions.switch(house.services, who, ALPHA, CALLER)).token


def test_of_many_clicks_at_once_one_enrols_and_shows_the_codes_that_are_kept(
    house: House, workers: list[AccessServices]
) -> None:
    async def begin() -> sessions.SignedIn:
        who = await sessions.signed_in(house.services, (await house.start()).token)
        await second_factor.begin_enrolment(house.services, who)
        return who

    async def confirm(services: AccessServices, _: int) -> second_factor.Enrolled:
        return await second_factor.confirm_enrolment(services, who, house.code(seed), CALLER)

    who = house.run(begin())
    sealed = house.state.read(lambda stores: stores.seats.pending_seed(ROSA))
    assert sealed is not None
    seed = totp.unseal(sealed, seat_id=ROSA, keyring=house.services.keyring.current())
    outcomes = all_at_once(workers, 5, confirm)
    (enrolled,) = [outcome for outcome in outcomes if isinstance(outcome, second_factor.Enrolled)]
    assert all(isinstance(outcome, second_factor.Enrolled | RequestError) for outcome in outcomes)
    digest = totp.recovery_digest(enrolled.recovery_codes[0], seat_id=ROSA)
    assert house.write(lambda stores: stores.seats.use_recovery_code(ROSA, digest, START))


def test_a_login_with_the_old_password_does_not_outlive_the_new_one(
    tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password changes while a login with the old one is being written; SQLite lets only one write."""
    landing = SqlSeats.landing
    changes: list[Future[int]] = []

    def change(stores: Stores) -> int:
        return operators.set_password_hash(stores, house.seat(ROSA), "another", START, actor="operator")

    def waits() -> bool:
        with psycopg.connect(postgresql_url) as connection:
            held_up = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            return connection.execute(held_up).fetchone() is not None

    def with_a_change_beside(stores: SqlSeats, seat: Seat) -> Landing | None:
        if not changes:
            changes.append(elsewhere.submit(house.write, change))
            wait_until(lambda: changes[0].done() or waits(), what="the change of the password, or its turn")
        return landing(stores, seat)

    with open_house(tmp_path, postgresql_url) as house, ThreadPoolExecutor(1) as elsewhere:
        monkeypatch.setattr(SqlSeats, "landing", with_a_change_beside)
        sid = house.run(house.start()).session.sid
        assert changes[0].result() == 1, "the session of that login ends"
        standing = house.state.read(lambda stores: stores.sessions.standing(sid, None))
        assert standing is not None
        assert standing.session.ended_at is not None
