"""API tokens: made, judged on each request, revoked; and what happens when the database is away."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from daybreak.access import api_tokens, operators, sessions
from daybreak.access.api_tokens import Minted
from daybreak.credentials import api_token
from daybreak.domain.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    RequestError,
    Unauthenticated,
    Unavailable,
)
from daybreak.domain.identity import ApiToken, Grant, Principal
from tests.unit.access.house import ALPHA, BRAVO, CALLER, OMAR, ROSA, House


async def principal(house: House, email: str = "rosa@example.org") -> Principal:
    return await sessions.authenticate(house.services, (await house.start(email)).token)


def minted(house: House, email: str = "rosa@example.org", **more: Any) -> Minted:
    async def story() -> Minted:
        return await api_tokens.create(
            house.services,
            await principal(house, email),
            **({"name": "nightly job", "expires_at": None, "caller": CALLER} | more),
        )

    return house.run(story())


def stored(house: House, token_id: str) -> ApiToken:
    standing = house.state.read(lambda stores: stores.api_tokens.standing_by_id(token_id))
    assert standing is not None
    return standing.token


def refusal(house: House, secret: str) -> str:
    with pytest.raises(RequestError) as told:
        house.run(api_tokens.authenticate(house.services, secret))
    return told.value.code


def test_every_request_asks_the_database_once(house: House) -> None:
    secret = minted(house).secret
    for _ in range(2):
        assert len(house.asked(api_tokens.authenticate(house.services, secret))) == 1


def test_a_token_stands_for_its_seat_on_its_account_and_its_secret_is_stored_nowhere(
    house: House,
) -> None:
    made = minted(house)
    who = house.run(api_tokens.authenticate(house.services, made.secret))
    assert (who.kind, who.seat.seat_id, who.account.client_id) == ("api_token", ROSA, ALPHA)
    assert who.subject == f"token:{made.token.token_id}"
    assert made.token.last_four == made.secret[-4:]
    dump = b"".join(file.read_bytes() for file in house.path.glob("state.db*"))
    assert made.secret.encode() not in dump
    assert made.token.digest.encode() in dump


def test_a_bad_checksum_is_refused_without_asking_the_database(house: House) -> None:
    secret = minted(house).secret
    changed = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    # No state at all: whoever asks it fails.
    blind = replace(house.services, state=None)  # type: ignore[arg-type]
    for text in (changed, "service_api_", "service_api_" + "A" * 38, "service_api_\ud800"):
        with pytest.raises(Unauthenticated):
            house.run(api_tokens.authenticate(blind, text))


def test_a_well_formed_token_that_nobody_made_is_refused(house: House) -> None:
    assert refusal(house, api_token.mint(house.services.random)) == "invalid_token"


@pytest.mark.parametrize(
    ("take_away", "code"),
    [
        (lambda h: h.write(lambda s: s.directory.remove_grants(Grant(ROSA, ALPHA))), "not_your_account"),
        (lambda h: h.grant(ROSA, ALPHA, data_export=False, async_rest_api=True), "data_export_required"),
        (lambda h: h.grant(ROSA, ALPHA, async_rest_api=False), "async_rest_api_required"),
        (lambda h: h.account(ALPHA, active=False), "account_inactive"),
        (lambda h: h.account(ALPHA, api_tokens_enabled=False), "api_tokens_disabled"),
        (
            lambda h: h.write(
                lambda s: operators.set_disabled(s, h.seat(ROSA), h.now[0], disabled=True, actor="operator")
            ),
            "token_revoked",
        ),
        (lambda h: h.later(days=90), "token_expired"),
    ],
    ids=["grant", "data_export", "async_rest_api", "account", "enabled", "seat", "time"],
)
def test_what_is_taken_away_is_gone_on_the_next_request(
    house: House, take_away: Callable[[House], object], code: str
) -> None:
    made = minted(house, expires_at=house.now[0] + timedelta(days=90))
    house.run(api_tokens.authenticate(house.services, made.secret))
    take_away(house)
    assert refusal(house, made.secret) == code


@pytest.mark.parametrize(
    ("hinder", "code"),
    [
        (lambda h: h.account(ALPHA, api_tokens_enabled=False), "api_tokens_disabled"),
        (lambda h: h.grant(ROSA, ALPHA, async_rest_api=False), "async_rest_api_required"),
        (lambda h: h.grant(ROSA, ALPHA, data_export=False, async_rest_api=True), "data_export_required"),
    ],
)
def test_who_lacks_a_prerequisite_makes_no_token(house: House, hinder: Callable[[House], object], code: str) -> None:
    hinder(house)
    with pytest.raises(Forbidden) as told:
        minted(house)
    assert told.value.code == code


def test_an_api_token_makes_no_api_tokens(house: House) -> None:
    made = minted(house)

    async def story() -> None:
        who = await api_tokens.authenticate(house.services, made.secret)
        await api_tokens.create(house.services, who, name="another", expires_at=None, caller=CALLER)

    with pytest.raises(Forbidden) as told:
        house.run(story())
    assert told.value.code == "session_required"


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "two\nlines", "\x00", "\ud800", "a\u2028b"])
def test_a_name_is_a_line_of_text(house: House, name: str) -> None:
    with pytest.raises(InvalidRequest):
        minted(house, name=name)


def test_an_expiry_in_the_past_is_refused(house: House) -> None:
    with pytest.raises(InvalidRequest):
        minted(house, expires_at=house.now[0])


def test_two_at_once_for_a_rotation_and_no_more_than_twenty(house: House) -> None:
    first, second = minted(house), minted(house)
    for made in (first, second):
        house.run(api_tokens.authenticate(house.services, made.secret))

    async def story() -> None:
        who = await principal(house)
        await api_tokens.revoke(house.services, who, first.token.token_id, CALLER)
        for _ in range(19):
            await api_tokens.create(house.services, who, name="one more", expires_at=None, caller=CALLER)
        with pytest.raises(Conflict):
            await api_tokens.create(house.services, who, name="too many", expires_at=None, caller=CALLER)

    house.run(story())
    assert refusal(house, first.secret) == "token_revoked"
    house.run(api_tokens.authenticate(house.services, second.secret))


def test_last_used_is_kept_to_the_minute_and_never_fails_the_request(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = minted(house)

    def use() -> object:
        house.run(api_tokens.authenticate(house.services, made.secret))
        return stored(house, made.token.token_id).last_used_at

    first = house.now[0]
    assert use() == first
    house.later(seconds=59)
    assert use() == first
    house.later(seconds=1)
    assert use() == house.now[0]
    second = house.now[0]
    house.later(minutes=5)

    async def away(work: object) -> None:
        raise Unavailable("away", code="state_unavailable")

    monkeypatch.setattr(house.state, "awrite", away)
    assert use() == second


def test_everybody_sees_their_own_owners_and_admins_see_all(house: House) -> None:
    mine = minted(house)
    theirs = minted(house, "omar@example.org")

    async def seen(email: str) -> set[str]:
        found = await api_tokens.list_of_account(house.services, await principal(house, email))
        return {token.token_id for token in found}

    assert house.run(seen("rosa@example.org")) == {mine.token.token_id}

    async def revoke(email: str) -> None:
        who = await principal(house, email)
        await api_tokens.revoke(house.services, who, theirs.token.token_id, CALLER)

    with pytest.raises(NotFound):
        house.run(revoke("rosa@example.org"))
    house.grant(ROSA, ALPHA, async_rest_api=True, roles=("admin",))
    assert house.run(seen("rosa@example.org")) == {mine.token.token_id, theirs.token.token_id}
    house.run(revoke("rosa@example.org"))
    assert refusal(house, theirs.secret) == "token_revoked"


def test_a_token_of_another_account_is_not_revoked_from_here(house: House) -> None:
    house.account(BRAVO, api_tokens_enabled=True)
    house.grant(OMAR, BRAVO, async_rest_api=True)
    made = minted(house, "omar@example.org")
    assert made.token.client_id == ALPHA

    async def story(token_id: str) -> None:
        started = await house.start("omar@example.org")
        who = await sessions.signed_in(house.services, started.token)
        switched = await sessions.switch(house.services, who, BRAVO, CALLER)
        there = await sessions.authenticate(house.services, switched.token)
        await api_tokens.revoke(house.services, there, token_id, CALLER)

    for token_id in (made.token.token_id, "nonsense", "\x00"):
        with pytest.raises(NotFound):
            house.run(story(token_id))
    house.run(api_tokens.authenticate(house.services, made.secret))


def test_leaked_tokens_are_revoked_and_their_owners_known(house: House) -> None:
    leaked, kept = minted(house), minted(house)
    report = f'[{{"token": "{leaked.secret}", "url": "https://gist.example/1"}}]'

    def revoke() -> list[ApiToken]:
        return house.write(lambda stores: api_tokens.revoke_leaked(stores, report, house.now[0], actor="operator"))

    assert [token.created_by_email for token in revoke()] == ["rosa@example.org"]
    assert revoke() == []
    assert refusal(house, leaked.secret) == "token_revoked"
    house.run(api_tokens.authenticate(house.services, kept.secret))
    assert house.audit("token.revoked")[0].details["reason"] == "found in public"


def test_an_operator_makes_and_revokes_tokens(house: House) -> None:
    made = api_tokens.mint(
        house.seat(ROSA), ALPHA, now=house.now[0], random=secrets.token_bytes, name="by the operator", expires_at=None
    )
    house.write(lambda stores: api_tokens.add_by_operator(stores, made.token, house.now[0], actor="operator"))
    house.run(api_tokens.authenticate(house.services, made.secret))

    def revoke() -> bool:
        return house.write(
            lambda stores: api_tokens.revoke_by_operator(
                stores, made.token, house.now[0], actor="operator", reason="no longer needed"
            )
        )

    assert (revoke(), revoke()) == (True, False)
    assert [event.actor for event in house.audit("token.*")] == ["operator", "operator"]
