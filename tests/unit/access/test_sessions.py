"""Sessions: contexts, switch, logout, and that everything taken away is gone on the next request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.access import operators, passwords, sessions
from daybreak.credentials import session_jwt
from daybreak.domain.errors import Forbidden, InvalidRequest, RateLimited, RequestError, Unauthenticated
from daybreak.domain.identity import Grant
from tests.unit.access.house import (
    ALPHA,
    BRAVO,
    CALLER,
    CLOSED,
    ELSEWHERE,
    FOREIGN,
    PASSWORD,
    ROSA,
    UNKNOWN,
    House,
)


def refusal(house: House, token: str) -> str:
    with pytest.raises(RequestError) as told:
        house.run(sessions.authenticate(house.services, token))
    return told.value.code


def test_every_request_asks_the_database_once(house: House) -> None:
    token = house.run(house.start()).token
    for _ in range(2):
        assert len(house.asked(sessions.authenticate(house.services, token))) == 1


def test_the_context_list_has_the_active_accounts_by_name(house: House) -> None:
    async def story() -> list[sessions.Context]:
        who = await sessions.signed_in(house.services, (await house.start()).token)
        return await sessions.contexts(house.services, who)

    found = house.run(story())
    assert [(c.reach.account.client_id, c.current) for c in found] == [
        (ALPHA, True),
        (BRAVO, False),
    ]


def test_an_account_without_data_export_is_in_the_list(house: House) -> None:
    house.grant(ROSA, BRAVO, data_export=False)

    async def story() -> list[sessions.Context]:
        who = await sessions.signed_in(house.services, (await house.start()).token)
        return await sessions.contexts(house.services, who)

    assert len(house.run(story())) == 2


def test_a_switch_gives_a_token_of_the_same_session_with_the_same_end(house: House) -> None:
    async def story() -> None:
        started = await house.start()
        house.later(days=3)
        who = await sessions.signed_in(house.services, started.token)
        switched = await sessions.switch(house.services, who, BRAVO, CALLER)
        assert (switched.client_id, switched.seat_id) == (BRAVO, ROSA)
        assert switched.expires_at == started.session.expires_at
        # Each token keeps its own account.
        for token, client_id in ((started.token, ALPHA), (switched.token, BRAVO)):
            principal = await sessions.authenticate(house.services, token)
            assert principal.account.client_id == client_id
            assert principal.subject == f"session:{started.session.sid}"
        house.later(days=4)
        for token in (started.token, switched.token):
            with pytest.raises(Unauthenticated):
                await sessions.authenticate(house.services, token)

    house.run(story())


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
def test_other_accounts_are_not_entered(house: House, client_id: str, code: str) -> None:
    if client_id == ALPHA.upper():
        client_id = "10000000-0000-4000-8000-00000000000A"

    async def story() -> None:
        who = await sessions.signed_in(house.services, (await house.start()).token)
        await sessions.switch(house.services, who, client_id, CALLER)

    with pytest.raises(Forbidden) as told:
        house.run(story())
    assert told.value.code == code
    # The account that was asked for learns nothing of it.
    assert {event.client_id for event in house.audit("context.switched")} == {ALPHA}


def test_a_session_without_a_second_factor_does_not_enter_an_account_that_requires_one(
    house: House,
) -> None:
    async def story() -> None:
        started = await house.start()
        house.account(BRAVO, second_factor_required=True)
        who = await sessions.signed_in(house.services, started.token)
        with pytest.raises(Forbidden) as told:
            await sessions.switch(house.services, who, BRAVO, CALLER)
        assert told.value.code == "second_factor_required"
        house.account(ALPHA, second_factor_required=True)
        with pytest.raises(Forbidden):
            await sessions.authenticate(house.services, started.token)

    house.run(story())


def test_logout_by_any_token_ends_them_all(house: House) -> None:
    async def story() -> tuple[str, str]:
        started = await house.start()
        who = await sessions.signed_in(house.services, started.token)
        switched = await sessions.switch(house.services, who, BRAVO, CALLER)
        other = await sessions.signed_in(house.services, switched.token)
        await sessions.logout(house.services, other, CALLER)
        return started.token, switched.token

    for token in house.run(story()):
        assert refusal(house, token) == "session_ended"


@pytest.mark.parametrize(
    ("take_away", "code"),
    [
        (lambda h: h.write(lambda s: s.directory.remove_grants(Grant(ROSA, ALPHA))), "not_your_account"),
        (lambda h: h.account(ALPHA, active=False), "account_inactive"),
        (
            lambda h: h.write(
                lambda s: operators.set_disabled(s, h.seat(ROSA), h.now[0], disabled=True, actor="operator")
            ),
            "session_ended",
        ),
        (
            lambda h: h.write(
                lambda s: operators.set_password_hash(s, h.seat(ROSA), "$argon2id$other", h.now[0], actor="operator")
            ),
            "session_ended",
        ),
        (lambda h: h.later(days=7), "token_expired"),
    ],
    ids=["grant", "account", "seat", "password", "time"],
)
def test_what_is_taken_away_is_gone_on_the_next_request(
    house: House, take_away: Callable[[House], object], code: str
) -> None:
    token = house.run(house.start()).token
    house.run(sessions.authenticate(house.services, token))
    take_away(house)
    assert refusal(house, token) == code


def test_a_seat_that_is_disabled_without_ending_its_sessions_is_shut_out_too(
    house: House,
) -> None:
    token = house.run(house.start()).token
    house.write(lambda stores: stores.seats.set_disabled(ROSA, disabled=True))
    assert refusal(house, token) == "session_ended"


def test_a_seat_that_is_let_in_again_signs_in_again(house: House) -> None:
    token = house.run(house.start()).token
    for disabled in (True, False):
        house.write(
            lambda stores, it=disabled: operators.set_disabled(  # type: ignore[misc]
                stores, house.seat(ROSA), house.now[0], disabled=it, actor="operator"
            )
        )
    assert refusal(house, token) == "session_ended"


def test_a_revoked_grant_leaves_the_way_to_other_accounts_and_out(house: House) -> None:
    async def story() -> None:
        started = await house.start()
        house.write(lambda stores: stores.directory.remove_grants(Grant(ROSA, ALPHA)))
        who = await sessions.signed_in(house.services, started.token)
        assert [c.reach.account.client_id for c in await sessions.contexts(house.services, who)] == [BRAVO]
        switched = await sessions.switch(house.services, who, BRAVO, CALLER)
        await sessions.authenticate(house.services, switched.token)
        await sessions.logout(house.services, who, CALLER)

    house.run(story())


def test_a_token_of_a_session_that_is_another_seats_is_refused(house: House) -> None:
    ring, issuer = house.services.keyring.current(), "https://data.example.org"

    async def story() -> str:
        mine, theirs = await house.start(), await house.start("omar@example.org")
        claims = session_jwt.decode(
            mine.token,
            typ="session+jwt",
            keyring=ring,
            issuer=issuer,
            now_seconds=house.now[0].timestamp(),
        )
        forged = replace(claims, sid=theirs.session.sid)
        return session_jwt.encode(forged, typ="session+jwt", keyring=ring, issuer=issuer)

    async def waiting_story() -> None:
        theirs = (await house.wait("ines@example.org")).token
        claims = session_jwt.decode(
            theirs, typ="mfa+jwt", keyring=ring, issuer=issuer, now_seconds=house.now[0].timestamp()
        )
        forged = session_jwt.encode(replace(claims, seat_id=ROSA), typ="mfa+jwt", keyring=ring, issuer=issuer)
        await sessions.waiting(house.services, theirs)
        with pytest.raises(Unauthenticated):
            await sessions.waiting(house.services, forged)

    assert refusal(house, house.run(story())) == "invalid_token"
    house.run(waiting_story())


def test_sessions_are_listed_and_ended_one_by_one_and_all_but_this(house: House) -> None:
    async def story() -> None:
        mine = await house.start()
        others = [await house.start(caller=ELSEWHERE) for _ in range(3)]
        stranger = await house.start("omar@example.org")
        who = await sessions.signed_in(house.services, mine.token)
        listed = await sessions.list_open(house.services, who)
        assert {session.sid for session, _ in listed} == {started.session.sid for started in (mine, *others)}
        assert {device.address for _, device in listed if device} == {
            CALLER.address,
            ELSEWHERE.address,
        }
        for sid, ended in (
            (others[0].session.sid, True),
            (others[0].session.sid, False),
            (stranger.session.sid, False),
            ("nonsense", False),
        ):
            assert await sessions.end_one(house.services, who, sid, CALLER) is ended
        assert await sessions.end_others(house.services, who, CALLER) == 2
        await sessions.authenticate(house.services, mine.token)
        await sessions.authenticate(house.services, stranger.token)

    house.run(story())


def test_the_password_is_asked_for_again_before_secrets_change(house: House) -> None:
    async def story() -> None:
        started = await house.start()
        house.later(minutes=10)
        who = await sessions.signed_in(house.services, started.token)
        with pytest.raises(Forbidden) as told:
            sessions.require_recent(house.services, who.session)
        assert told.value.code == "reauthentication_required"
        with pytest.raises(Unauthenticated):
            await sessions.reauthenticate(house.services, who, "wrong wrong wrong", CALLER)
        await sessions.reauthenticate(house.services, who, PASSWORD, CALLER)
        who = await sessions.signed_in(house.services, started.token)
        sessions.require_recent(house.services, who.session)

    house.run(story())


def test_a_stolen_session_guesses_the_password_ten_times(house: House) -> None:
    async def story() -> None:
        who = await sessions.signed_in(house.services, (await house.start()).token)
        for _ in range(10):
            with pytest.raises(Unauthenticated):
                await sessions.reauthenticate(house.services, who, "wrong wrong wrong", CALLER)
        with pytest.raises(RateLimited):
            await sessions.reauthenticate(house.services, who, PASSWORD, CALLER)
        with pytest.raises(RateLimited):
            await passwords.change_own(house.services, who, current=PASSWORD, new="harvest moon 88 boat", caller=CALLER)

    house.run(story())


def test_a_new_password_ends_the_other_sessions_and_the_old_password(house: House) -> None:
    async def story() -> None:
        mine, other = await house.start(), await house.start(caller=ELSEWHERE)
        who = await sessions.signed_in(house.services, mine.token)
        with pytest.raises(InvalidRequest) as weak:
            await passwords.change_own(house.services, who, current=PASSWORD, new="Password123!", caller=CALLER)
        assert weak.value.code == "weak_password"
        with pytest.raises(Unauthenticated):
            await passwords.change_own(
                house.services, who, current="not it at all", new="harvest moon 88", caller=CALLER
            )
        ended = await passwords.change_own(house.services, who, current=PASSWORD, new="harvest moon 88", caller=CALLER)
        assert ended == 1
        await sessions.authenticate(house.services, mine.token)
        with pytest.raises(Unauthenticated):
            await sessions.authenticate(house.services, other.token)
        with pytest.raises(Unauthenticated):
            await house.login()
        await house.start(password="harvest moon 88")

    house.run(story())
    assert [event.result for event in house.audit("password.changed")] == [
        "invalid_credentials",
        "ok",
    ]


def test_a_token_of_another_service_is_refused(house: House) -> None:
    token = house.run(house.start()).token
    settings = replace(house.services.settings, issuer="https://elsewhere.example")
    with pytest.raises(Unauthenticated):
        house.run(sessions.authenticate(replace(house.services, settings=settings), token))


def test_sessions_last_as_long_as_they_are_set_to(house: House) -> None:
    settings = replace(house.services.settings, session_lifetime=timedelta(hours=1))
    house.services = replace(house.services, settings=settings)
    token = house.run(house.start()).token
    house.later(minutes=59)
    house.run(sessions.authenticate(house.services, token))
    house.later(minutes=1)
    assert refusal(house, token) == "token_expired"
