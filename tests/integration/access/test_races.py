"""Parallel requests to several workers, each with its own connections, on both state databases."""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from daybreak.access import api_tokens, enrolment, operators, second_factor, sessions
from daybreak.access.login import SessionStarted, login
from daybreak.access.services import Services
from daybreak.credentials import totp
from daybreak.domain.errors import Conflict, RateLimited, RequestError, Unauthenticated
from daybreak.domain.identity import InitialAccount, Seat, Session
from daybreak.settings import Rate
from daybreak.state.database import open_state
from daybreak.state.seats import SeatStore
from daybreak.state.stores import Stores
from tests.configured import configured
from tests.parts.postgresql import is_blocked
from tests.parts.waiting import PATIENT_SECONDS, wait_until
from tests.unit.access.instance import (
    ALPHA,
    CALLER,
    OMAR,
    PASSWORD,
    ROSA,
    START,
    Instance,
    open_instance,
    replace_verification,
)

WORKERS = 3


@pytest.fixture(params=["sqlite", "postgresql"])
def instance(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Instance]:
    url: str | None = None
    if request.param == "postgresql":
        url = request.getfixturevalue("migrated_postgresql_url")
    with open_instance(tmp_path, url) as opened:
        yield opened


@pytest.fixture
def workers(instance: Instance) -> Iterator[list[Services]]:
    """Return the services of several workers, each with its own connections."""
    with ExitStack() as stack:
        found = []
        for _ in range(WORKERS):
            state = open_state(instance.url, wait_seconds=PATIENT_SECONDS)
            stack.callback(state.close)
            found.append(replace(instance.services, state=state))
        yield found


async def run_in_parallel(workers: list[Services], times: int, act: Callable[[Services, int], Any]) -> list[Any]:
    """Run `act` `times` times, distributed over the workers. Return the results, errors included."""
    acts = (act(workers[at % len(workers)], at) for at in range(times))
    outcomes = await asyncio.gather(*acts, return_exceptions=True)
    for services in workers:
        await services.state.aclose()
    return list(outcomes)


async def test_code_used_20_times_in_parallel_succeeds_once(
    instance: Instance, workers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without rate limits, so that only the used step refuses a code.
    many = Rate(1000, timedelta(minutes=5))
    settings = configured(
        instance.services.settings, access={"second_factor_per_seat": (many,), "login_per_seat": many}
    )
    replace_verification(monkeypatch, instance.services, lambda *_: True)
    seed = instance.enrol_second_factor()
    code = instance.code(seed)

    async def use(services: Services, _: int) -> SessionStarted:
        services = replace(services, settings=settings)
        pending = await login(services, email="omar@example.org", password=PASSWORD, caller=CALLER)
        return await second_factor.complete_login(services, pending.token, code, CALLER)

    outcomes = await run_in_parallel(workers, 20, use)
    assert sum(isinstance(outcome, SessionStarted) for outcome in outcomes) == 1
    refusals = [outcome for outcome in outcomes if not isinstance(outcome, SessionStarted)]
    assert {type(outcome) for outcome in refusals} == {Unauthenticated}


async def test_pending_login_is_completed_once(instance: Instance, workers: list[Services]) -> None:
    seed = instance.enrol_second_factor()
    pending = await instance.start_login()
    codes = [instance.code(seed, steps) for steps in (-1, 0, 1)]

    async def use(services: Services, at: int) -> SessionStarted:
        return await second_factor.complete_login(services, pending.token, codes[at % 3], CALLER)

    outcomes = await run_in_parallel(workers, 3, use)
    assert sum(isinstance(outcome, SessionStarted) for outcome in outcomes) == 1
    assert all(isinstance(o, SessionStarted | Unauthenticated) for o in outcomes)


async def test_one_of_four_parallel_recovery_codes_is_used(instance: Instance, workers: list[Services]) -> None:
    instance.enrol_second_factor()
    codes = totp.new_recovery_codes(secrets.token_bytes)
    instance.write(lambda stores: stores.seats.replace_recovery_codes(OMAR, enrolment.recovery_hashes(codes, OMAR)))
    pending = await instance.start_login()

    async def use(services: Services, at: int) -> SessionStarted:
        return await second_factor.complete_login_with_recovery_code(services, pending.token, codes[at], CALLER)

    outcomes = await run_in_parallel(workers, 4, use)
    (completed,) = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, SessionStarted)]
    refusals = [outcome for outcome in outcomes if not isinstance(outcome, SessionStarted)]
    assert {(type(refusal), refusal.code) for refusal in refusals} == {(Unauthenticated, "session_ended")}
    assert instance.state.read(lambda stores: stores.seats.recovery_codes_left(OMAR)) == 9
    assert len(instance.state.read(lambda stores: stores.sessions.list_open(OMAR, START))) == 1
    # The other three complete a login each.
    for at in {0, 1, 2, 3} - {completed}:
        token = (await instance.start_login()).token
        await second_factor.complete_login_with_recovery_code(instance.services, token, codes[at], CALLER)


async def test_only_the_last_of_parallel_recovery_code_lists_is_valid(
    instance: Instance, workers: list[Services]
) -> None:
    started = await instance.log_in(kind="dashboard")
    instance.enrol_second_factor(ROSA)
    resolved = instance.state.read(lambda stores: stores.sessions.resolve(started.session.sid, started.client_id))
    assert resolved is not None
    active = sessions.ActiveSession(resolved, started.client_id)

    async def renew(services: Services, _: int) -> tuple[str, ...]:
        return await enrolment.replace_recovery_codes(services, active, CALLER)

    await run_in_parallel(workers, 6, renew)
    assert instance.state.read(lambda stores: stores.seats.recovery_codes_left(ROSA)) == 10


async def test_one_of_many_parallel_confirmations_renews_a_session(instance: Instance, workers: list[Services]) -> None:
    sid = (await instance.log_in(kind="dashboard")).session.sid
    resolved = instance.state.read(lambda stores: stores.sessions.resolve(sid, None))
    assert resolved is not None
    active = sessions.ActiveSession(resolved, "")

    async def confirm(services: Services, _: int) -> Session:
        return await sessions.reauthenticate(services, active, PASSWORD, CALLER)

    outcomes = await run_in_parallel(workers, 4, confirm)
    (renewed,) = [outcome for outcome in outcomes if isinstance(outcome, Session)]
    ((remaining, _),) = instance.state.read(lambda stores: stores.sessions.list_open(ROSA, START))
    assert remaining.sid == renewed.sid


async def test_five_of_50_parallel_codes_are_verified(
    instance: Instance, workers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = instance.enrol_second_factor()
    pending = await instance.start_login()
    wrong = instance.wrong_code(seed)
    verified: list[str] = []
    real = totp.matching_step

    def counted(seed: bytes, code: str, now_seconds: float) -> int | None:
        verified.append(code)
        return real(seed, code, now_seconds)

    monkeypatch.setattr(totp, "matching_step", counted)

    async def guess(services: Services, _: int) -> object:
        return await second_factor.complete_login(services, pending.token, wrong, CALLER)

    outcomes = await run_in_parallel(workers, 50, guess)
    assert len(verified) == 5
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 45
    assert sum(isinstance(outcome, Unauthenticated) for outcome in outcomes) == 5


async def test_ten_of_50_parallel_passwords_are_verified(
    workers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[str] = []

    def refuse(_: str | None, password: str) -> bool:
        verified.append(password)
        return False

    replace_verification(monkeypatch, workers[0], refuse)

    async def guess(services: Services, at: int) -> object:
        return await login(services, email="rosa@example.org", password=f"guess number {at}", caller=CALLER)

    outcomes = await run_in_parallel(workers, 50, guess)
    assert len(verified) == 10
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 40


async def test_parallel_creation_respects_the_token_limit(instance: Instance, workers: list[Services]) -> None:
    async def create(services: Services, at: int) -> api_tokens.NewToken:
        return await api_tokens.create(services, who, api_tokens.TokenOptions(f"number {at}"), CALLER)

    who = await sessions.authenticate(instance.services, await _token_of_alpha(instance))
    outcomes = await run_in_parallel(workers, 2 * api_tokens.MAX_LIVE_TOKENS, create)
    created = [outcome for outcome in outcomes if isinstance(outcome, api_tokens.NewToken)]
    assert len(created) == api_tokens.MAX_LIVE_TOKENS
    assert {type(outcome) for outcome in outcomes if outcome not in created} == {Conflict}


async def _token_of_alpha(instance: Instance) -> str:
    started = await instance.log_in()
    who = await sessions.active_session(instance.services, started.token)
    return await sessions.switch(instance.services, who, ALPHA, CALLER)


async def test_one_of_many_parallel_confirmations_enrols(instance: Instance, workers: list[Services]) -> None:
    async def confirm(services: Services, _: int) -> enrolment.Enrolled:
        return await enrolment.confirm(services, who, instance.code(seed), CALLER)

    who = await sessions.active_session(instance.services, (await instance.log_in()).token)
    await enrolment.begin(instance.services, who)
    encrypted = instance.state.read(lambda stores: stores.seats.pending_seed(ROSA))
    assert encrypted is not None
    seed = totp.decrypt_seed(encrypted, seat_id=ROSA, keyring=instance.services.keyring.current())
    outcomes = await run_in_parallel(workers, 5, confirm)
    (enrolled,) = [outcome for outcome in outcomes if isinstance(outcome, enrolment.Enrolled)]
    assert all(isinstance(outcome, enrolment.Enrolled | RequestError) for outcome in outcomes)
    digest = totp.recovery_digest(enrolled.recovery_codes[0], seat_id=ROSA)
    assert instance.write(lambda stores: stores.seats.use_recovery_code(ROSA, digest, START))


async def test_login_during_a_password_change_is_ended(
    tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password changes while a login with the old one is written. SQLite allows only one writer."""
    initial_account = SeatStore.initial_account
    changes: list[Future[int]] = []

    def change(stores: Stores) -> int:
        return operators.set_password_hash(stores, instance.seat(ROSA), "another", START, actor="operator")

    def initial_account_during_change(stores: SeatStore, seat: Seat) -> InitialAccount | None:
        if not changes:
            changes.append(executor.submit(instance.write, change))
            wait_until(
                lambda: changes[0].done() or is_blocked(postgresql_url), what="the change, or its wait for a lock"
            )
        return initial_account(stores, seat)

    with open_instance(tmp_path, postgresql_url) as instance, ThreadPoolExecutor(1) as executor:
        monkeypatch.setattr(SeatStore, "initial_account", initial_account_during_change)
        sid = (await instance.log_in()).session.sid
        assert changes[0].result() == 1, "the session of that login ends"
        resolved = instance.state.read(lambda stores: stores.sessions.resolve(sid, None))
        assert resolved is not None
        assert resolved.session.ended_at is not None
