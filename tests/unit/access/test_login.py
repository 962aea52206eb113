"""Login: who gets in, on which account, and what others are told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from daybreak.access import sessions
from daybreak.access.login import SecondFactorOwed, SessionStarted
from daybreak.credentials import passwords
from daybreak.domain.errors import Forbidden, RateLimited, Unauthenticated
from daybreak.domain.identity import Caller
from tests.unit.access.house import (
    ALPHA,
    BRAVO,
    CALLER,
    CLOSED,
    ELSEWHERE,
    INES,
    PASSWORD,
    ROSA,
    House,
    open_house,
    verify_by,
)


@pytest.fixture
def house(tmp_path: Path, hashing_channel: socket.socket) -> Iterator[House]:
    with open_house(tmp_path, hashing_channel=hashing_channel) as opened:
        yield opened


def test_a_right_password_opens_the_first_account_by_name(house: House) -> None:
    started = house.run(house.start())
    assert (started.seat_id, started.client_id) == (ROSA, ALPHA)
    principal = house.run(sessions.authenticate(house.services, started.token))
    assert principal.account.client_id == ALPHA
    assert principal.subject == f"session:{started.session.sid}"
    assert [(e.action, e.result, e.actor) for e in house.audit()] == [("login", "ok", "rosa@example.org")]


def test_the_email_is_read_whatever_its_case_and_the_account_used_last_is_first(
    house: House,
) -> None:
    async def story() -> str:
        started = await house.start("  Rosa@Example.ORG ")
        who = await sessions.signed_in(house.services, started.token)
        await sessions.switch(house.services, who, BRAVO, CALLER)
        return (await house.start()).client_id

    assert house.run(story()) == BRAVO
    house.account(BRAVO, active=False)
    assert house.run(house.start()).client_id == ALPHA


def test_a_device_is_known_again_by_its_id_and_by_its_own_seat_only(house: House) -> None:
    first = house.run(house.start())
    again = house.run(house.start(device_id=first.device_id, caller=ELSEWHERE))
    other = house.run(house.start())
    assert again.device_id == first.device_id
    assert other.device_id != first.device_id
    house.account(ALPHA, second_factor_required=False)
    omar = house.run(house.start("omar@example.org", device_id=first.device_id))
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
def test_wrong_ones_are_told_one_thing(house: House, email: str, password: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        house.run(house.login(email, password))
    assert refused.value.code == "invalid_credentials"
    assert refused.value.message == "Email or password is not right."
    # What was typed as an email may be a password: it is not on the trail.
    assert {event.actor for event in house.audit()} <= {"rosa@example.org", "unknown"}


def test_unknown_seats_seats_without_password_and_disabled_ones_cost_one_hash(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def right(password_hash: str | None, _: str) -> bool:
        seen.append(password_hash)
        return True

    verify_by(monkeypatch, house.services, right)
    known = house.seat(ROSA).password_hash
    house.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=True))
    for email in ("rosa@example.org", "nobody@example.org"):
        with pytest.raises(Unauthenticated, match="Email or password"):
            house.run(house.login(email))
    assert seen == [known, None]


def test_no_active_account_is_told_to_the_right_password_only(house: House) -> None:
    with pytest.raises(Forbidden) as refused:
        house.run(house.login("leon@example.org"))
    assert refused.value.code == "no_active_account"
    with pytest.raises(Unauthenticated):
        house.run(house.login("leon@example.org", "wrong wrong wrong"))
    house.account(CLOSED, active=True)
    assert house.run(house.start("leon@example.org")).client_id == CLOSED


def test_a_second_factor_is_owed_where_an_account_requires_it_or_the_seat_has_one(
    house: House,
) -> None:
    owed = house.run(house.wait("ines@example.org"))
    assert (owed.seat_id, owed.enrolled) == (INES, False)
    assert isinstance(house.run(house.login("omar@example.org")), SessionStarted)
    house.enrol()
    again = house.run(house.login("omar@example.org"))
    assert isinstance(again, SecondFactorOwed)
    assert again.enrolled


def test_an_inactive_account_does_not_make_a_second_factor_owed(house: House) -> None:
    house.account(CLOSED, second_factor_required=True)
    assert house.run(house.start()).client_id == ALPHA


def test_a_hash_of_old_parameters_is_made_anew_by_a_login(house: House) -> None:
    old = PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(PASSWORD)
    house.write(lambda stores: stores.seats.set_password_hash(ROSA, old, house.now[0]))
    house.run(house.start())
    stored = house.seat(ROSA).password_hash
    assert stored is not None
    assert not passwords.needs_rehash(stored)
    assert passwords.verify(stored, PASSWORD)


def test_ten_guesses_and_then_a_delay_for_this_address_alone(house: House) -> None:
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            house.run(house.login(password="wrong wrong wrong"))
    for password in ("wrong wrong wrong", PASSWORD):
        with pytest.raises(RateLimited) as refused:
            house.run(house.login(password=password))
    assert 290 <= refused.value.retry_after_seconds <= 300
    assert (refused.value.limit, refused.value.window_seconds) == (10, 300)
    # The owner elsewhere, other seats from here, and this address once the window is over.
    house.run(house.start(caller=ELSEWHERE))
    house.run(house.start("omar@example.org"))
    house.later(seconds=refused.value.retry_after_seconds + 1)
    house.run(house.start())


def test_an_ipv6_network_is_one_address(house: House) -> None:
    for number in range(10):
        with pytest.raises(Unauthenticated):
            house.run(house.login(password="x" * 12, caller=Caller(f"2001:db8:1:2::{number}")))
    with pytest.raises(RateLimited):
        house.run(house.login(caller=Caller("2001:db8:1:2:ffff::1")))
    house.run(house.start(caller=Caller("2001:db8:1:3::1")))


def test_a_known_device_is_shut_out_by_nobody(house: House) -> None:
    device_id = house.run(house.start()).device_id
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            house.run(house.login(password="wrong wrong wrong"))
    with pytest.raises(RateLimited):
        house.run(house.login())
    assert house.run(house.start(device_id=device_id)).client_id == ALPHA


def test_success_forgives_what_was_mistyped(house: House) -> None:
    for _ in range(2):
        for _ in range(6):
            with pytest.raises(Unauthenticated):
                house.run(house.login(password="wrong wrong wrong"))
        house.run(house.start())


def test_of_50_parallel_guesses_ten_are_looked_at(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def refuse(_: str | None, password: str) -> bool:
        looked_at.append(password)
        return False

    verify_by(monkeypatch, house.services, refuse)

    async def guess() -> list[object]:
        attempts = (house.login(password=f"guess number {at}") for at in range(50))
        return list(await asyncio.gather(*attempts, return_exceptions=True))

    outcomes = house.run(guess())
    assert len(looked_at) == 10
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 40


def test_a_password_that_changes_while_it_is_verified_opens_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_meanwhile(*_: object) -> bool:
        other = passwords.hash_password("another password 7")
        house.write(lambda stores: stores.seats.set_password_hash(ROSA, other, house.now[0]))
        return True

    verify_by(monkeypatch, house.services, change_meanwhile)
    with pytest.raises(Unauthenticated):
        house.run(house.login())
