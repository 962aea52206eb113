"""Many at once, over several workers with connections of their own, on both state databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daybreak.access import second_factor, sessions
from daybreak.access.login import SessionStarted, login
from daybreak.access.services import AccessServices
from daybreak.credentials import totp
from daybreak.domain.errors import RateLimited, RequestError, Unauthenticated
from daybreak.domain.identity import Caller
from daybreak.state.database import open_state
from tests.unit.access.house import CALLER, PASSWORD, House, open_house, verify_by

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
