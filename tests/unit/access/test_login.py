"""Login: the account it opens, errors, rate limits and pending second factors."""

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

from daybreak.access import sessions
from daybreak.access.login import SecondFactorPending, SessionStarted
from daybreak.credentials import passwords
from daybreak.credentials.passwords import PasswordHashing
from daybreak.domain.errors import Forbidden, RateLimited, Unauthenticated
from daybreak.domain.identity import Caller
from daybreak.settings import Rate
from tests.configured import configured
from tests.unit.access.instance import (
    ALPHA,
    BRAVO,
    CALLER,
    CLOSED,
    ELSEWHERE,
    INES,
    PASSWORD,
    ROSA,
    Instance,
    open_instance,
    replace_verification,
)


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    monkeypatch.setattr(passwords, "TIMEOUT_SECONDS", 60)
    hashing = PasswordHashing()
    with open_instance(tmp_path, hashing=hashing) as opened:
        yield opened
    hashing.close()


async def test_login_opens_the_first_account_by_name(instance: Instance) -> None:
    started = await instance.log_in()
    assert (started.session.seat_id, started.client_id) == (ROSA, ALPHA)
    principal = await sessions.authenticate(instance.services, started.token)
    assert principal.account.client_id == ALPHA
    assert principal.subject == f"session:{started.session.sid}"
    assert [(e.action, e.result, e.actor) for e in instance.audit()] == [("login", "ok", "rosa@example.org")]


async def test_login_ignores_case_and_opens_the_last_account(instance: Instance) -> None:
    started = await instance.log_in("  Rosa@Example.ORG ")
    active = await sessions.active_session(instance.services, started.token)
    await sessions.switch(instance.services, active, BRAVO, CALLER)
    assert (await instance.log_in()).client_id == BRAVO
    instance.change_account(BRAVO, active=False)
    assert (await instance.log_in()).client_id == ALPHA


async def test_device_is_recognized_for_its_seat_only(instance: Instance) -> None:
    first = await instance.log_in()
    again = await instance.log_in(device_id=first.device_id, caller=ELSEWHERE)
    other = await instance.log_in()
    assert again.device_id == first.device_id
    assert other.device_id != first.device_id
    instance.change_account(ALPHA, second_factor_required=False)
    omar = await instance.log_in("omar@example.org", device_id=first.device_id)
    assert omar.device_id != first.device_id


@pytest.mark.parametrize(
    ("email", "password"),
    [
        ("rosa@example.org", "violet ladder 19 rainy"),
        ("rosa@example.org", ""),
        ("nobody@example.org", PASSWORD),
        ("", ""),
        ("rosa@example.org' OR '1'='1", PASSWORD),
        ("\ud800", "\ud800"),
    ],
)
async def test_all_invalid_credentials_get_the_same_error(instance: Instance, email: str, password: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        await instance.login(email, password)
    assert refused.value.code == "invalid_credentials"
    assert refused.value.message == "Email or password is wrong."
    # A password may have been typed as the email, so the audit trail does not record it.
    assert {event.actor for event in instance.audit()} <= {"rosa@example.org", "unknown"}


async def test_every_failed_login_does_the_same_work(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a refusal must not say whether a seat exists: one hash, and the same statements in order."""
    seen: list[str | None] = []
    statements: list[str] = []

    def matches(password_hash: str | None, password: str) -> bool:
        seen.append(password_hash)
        return password == PASSWORD

    def record(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    replace_verification(monkeypatch, instance.services, matches)
    known = instance.seat(ROSA).password_hash

    async def statements_of_refusal(email: str, password: str) -> list[str]:
        statements.clear()
        with pytest.raises(Unauthenticated, match="Email or password"):
            await instance.login(email, password, device_id=f"{1:08}-0000-4000-8000-{1:012}")
        return statements.copy()

    sa.event.listen(sa.Engine, "before_cursor_execute", record)
    try:
        expected = await statements_of_refusal("nobody@example.org", PASSWORD)
        assert len(expected) > 2
        assert await statements_of_refusal("rosa@example.org", "wrong wrong wrong") == expected
        instance.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=True))
        assert await statements_of_refusal("rosa@example.org", PASSWORD) == expected
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", record)
    assert seen == [None, known, known]


async def test_missing_account_is_reported_after_the_password(instance: Instance) -> None:
    with pytest.raises(Forbidden) as refused:
        await instance.login("leon@example.org")
    assert refused.value.code == "no_active_account"
    with pytest.raises(Unauthenticated):
        await instance.login("leon@example.org", "wrong wrong wrong")
    instance.change_account(CLOSED, active=True)
    assert (await instance.log_in("leon@example.org")).client_id == CLOSED


async def test_account_or_seat_can_require_a_second_factor(instance: Instance) -> None:
    pending = await instance.start_login("ines@example.org")
    assert (pending.session.seat_id, pending.enrolled) == (INES, False)
    assert isinstance(await instance.login("omar@example.org"), SessionStarted)
    instance.enrol_second_factor()
    again = await instance.login("omar@example.org")
    assert isinstance(again, SecondFactorPending)
    assert again.enrolled


async def test_inactive_account_requires_no_second_factor(instance: Instance) -> None:
    instance.change_account(CLOSED, second_factor_required=True)
    assert (await instance.log_in()).client_id == ALPHA


async def test_login_replaces_an_outdated_hash(instance: Instance) -> None:
    old = PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(PASSWORD)
    instance.write(lambda stores: stores.seats.set_password_hash(ROSA, old))
    await instance.log_in()
    stored = instance.seat(ROSA).password_hash
    assert stored is not None
    assert not passwords.needs_rehash(stored)
    assert passwords.verify(stored, PASSWORD)


@pytest.mark.release
async def test_ten_guesses_block_the_seat_for_one_address(instance: Instance) -> None:
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await instance.login(password="wrong wrong wrong")
    for password in ("wrong wrong wrong", PASSWORD):
        with pytest.raises(RateLimited) as refused:
            await instance.login(password=password)
    assert 290 <= refused.value.retry_after_seconds <= 300
    assert (refused.value.limit, refused.value.window_seconds) == (10, 300)
    # Other addresses, other seats, and this address after the window are not limited.
    await instance.log_in(caller=ELSEWHERE)
    await instance.log_in("omar@example.org")
    instance.advance(seconds=refused.value.retry_after_seconds + 1)
    await instance.log_in()


async def test_ipv6_network_counts_as_one_address(instance: Instance) -> None:
    for number in range(10):
        with pytest.raises(Unauthenticated):
            await instance.login(password="x" * 12, caller=Caller(f"2001:db8:1:2::{number}"))
    with pytest.raises(RateLimited):
        await instance.login(caller=Caller("2001:db8:1:2:ffff::1"))
    await instance.log_in(caller=Caller("2001:db8:1:3::1"))


async def test_one_network_cannot_use_up_the_overall_limit(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    five_minutes = timedelta(minutes=5)
    limits = {"login_per_network": Rate(10, five_minutes), "login_overall": Rate(20, five_minutes)}
    settings = configured(instance.services.settings, access=limits)
    monkeypatch.setattr(instance, "services", dataclasses.replace(instance.services, settings=settings))
    replace_verification(monkeypatch, instance.services, lambda _, password: password == PASSWORD)
    for number in range(30):
        caller = Caller(f"2001:db8:1:{number}::1")
        with pytest.raises(Unauthenticated if number < 10 else RateLimited):
            await instance.login(f"{number}@example.org", "wrong wrong wrong", caller=caller)
    await instance.log_in(caller=Caller("2001:db8:2::1"))


async def test_known_device_is_not_blocked_by_other_guesses(instance: Instance) -> None:
    device_id = (await instance.log_in()).device_id
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await instance.login(password="wrong wrong wrong")
    with pytest.raises(RateLimited):
        await instance.login()
    assert (await instance.log_in(device_id=device_id)).client_id == ALPHA
    # Its own guesses are limited, too.
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await instance.login(password="wrong wrong wrong", device_id=device_id)
    with pytest.raises(RateLimited):
        await instance.login(device_id=device_id)


async def test_login_resets_the_failed_attempts(instance: Instance) -> None:
    for _ in range(2):
        for _ in range(6):
            with pytest.raises(Unauthenticated):
                await instance.login(password="wrong wrong wrong")
        await instance.log_in()


async def test_password_changed_during_login_is_refused(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    def change_meanwhile(*_: object) -> bool:
        other = passwords.hash_password("another password 7")
        instance.write(lambda stores: stores.seats.set_password_hash(ROSA, other))
        return True

    replace_verification(monkeypatch, instance.services, change_meanwhile)
    with pytest.raises(Unauthenticated):
        await instance.login()
