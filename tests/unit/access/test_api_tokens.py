"""API tokens: creation, authentication of requests, revocation, and an unavailable database."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from daybreak.access import api_tokens, keys, operators, sessions
from daybreak.access.api_tokens import NewToken, TokenOptions
from daybreak.credentials import keyring
from daybreak.domain.errors import (
    Conflict,
    Forbidden,
    InvalidRequest,
    NotFound,
    RequestError,
    Unauthenticated,
    Unavailable,
)
from daybreak.domain.identity import ApiToken, Caller, Grant, Principal
from tests.unit.access.instance import ALPHA, BRAVO, CALLER, OMAR, ROSA, Instance


async def principal(instance: Instance, email: str = "rosa@example.org") -> Principal:
    return await sessions.authenticate(instance.services, (await instance.log_in(email)).token)


async def create_token(instance: Instance, email: str = "rosa@example.org", **more: Any) -> NewToken:
    options = TokenOptions(**({"name": "nightly job"} | more))
    return await api_tokens.create(instance.services, await principal(instance, email), options, CALLER)


def caller_from(address: str) -> Caller:
    return Caller(address, CALLER.user_agent, CALLER.request_id)


def stored(instance: Instance, token_id: str) -> ApiToken:
    resolved = instance.state.read(lambda stores: stores.api_tokens.resolve_by_id(token_id))
    assert resolved is not None
    return resolved.token


async def error_code(instance: Instance, secret: str) -> str:
    with pytest.raises(RequestError) as caught:
        await api_tokens.authenticate(instance.services, secret, CALLER)
    return caught.value.code


async def test_each_request_takes_one_query(instance: Instance) -> None:
    secret = (await create_token(instance)).secret
    for _ in range(2):
        assert len(await instance.statements_of(api_tokens.authenticate(instance.services, secret, CALLER))) == 1


async def test_token_authenticates_and_its_secret_is_not_stored(instance: Instance) -> None:
    created = await create_token(instance)
    user = await api_tokens.authenticate(instance.services, created.secret, CALLER)
    assert (user.kind, user.seat.seat_id, user.account.client_id) == ("api_token", ROSA, ALPHA)
    assert user.subject == f"token:{created.token.token_id}"
    assert created.token.last_four == created.secret[-4:]
    dump = b"".join(file.read_bytes() for file in instance.path.glob("state.db*"))
    assert created.secret.encode() not in dump
    assert created.token.digest.encode() in dump


async def test_wrong_checksum_is_refused_without_a_query(instance: Instance) -> None:
    secret = (await create_token(instance)).secret
    changed = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    # Without a state database, any query fails.
    without_state = replace(instance.services, state=None)  # type: ignore[arg-type]
    for text in (changed, "service_api_", "service_api_" + "A" * 38, "service_api_\ud800"):
        with pytest.raises(Unauthenticated):
            await api_tokens.authenticate(without_state, text, CALLER)


async def test_unknown_token_is_refused(instance: Instance) -> None:
    assert await error_code(instance, api_tokens.generate(instance.services.random)) == "invalid_token"


@pytest.mark.parametrize(
    ("revoke", "code"),
    [
        (lambda h: h.write(lambda s: s.directory.remove_grants(Grant(ROSA, ALPHA))), "not_your_account"),
        (lambda h: h.put_grant(ROSA, ALPHA, data_export=False, async_rest_api=True), "data_export_required"),
        (lambda h: h.put_grant(ROSA, ALPHA, async_rest_api=False), "async_rest_api_required"),
        (lambda h: h.change_account(ALPHA, active=False), "account_inactive"),
        (lambda h: h.change_account(ALPHA, api_tokens_enabled=False), "api_tokens_disabled"),
        (
            lambda h: h.write(
                lambda s: operators.set_disabled(s, h.seat(ROSA), h.now[0], disabled=True, actor="operator")
            ),
            "token_revoked",
        ),
        (lambda h: h.advance(days=90), "token_expired"),
    ],
    ids=["grant", "data_export", "async_rest_api", "account", "enabled", "seat", "time"],
)
async def test_revoked_permission_takes_effect_immediately(
    instance: Instance, revoke: Callable[[Instance], object], code: str
) -> None:
    created = await create_token(instance, expires_at=instance.now[0] + timedelta(days=90))
    await api_tokens.authenticate(instance.services, created.secret, CALLER)
    revoke(instance)
    assert await error_code(instance, created.secret) == code


@pytest.mark.parametrize(
    ("revoke", "code"),
    [
        (lambda h: h.change_account(ALPHA, api_tokens_enabled=False), "api_tokens_disabled"),
        (lambda h: h.put_grant(ROSA, ALPHA, async_rest_api=False), "async_rest_api_required"),
        (lambda h: h.put_grant(ROSA, ALPHA, data_export=False, async_rest_api=True), "data_export_required"),
    ],
)
async def test_creation_requires_every_permission(
    instance: Instance, revoke: Callable[[Instance], object], code: str
) -> None:
    revoke(instance)
    with pytest.raises(Forbidden) as caught:
        await create_token(instance)
    assert caught.value.code == code


async def test_api_token_cannot_create_api_tokens(instance: Instance) -> None:
    created = await create_token(instance)
    user = await api_tokens.authenticate(instance.services, created.secret, CALLER)
    with pytest.raises(Forbidden) as caught:
        await api_tokens.create(instance.services, user, TokenOptions("another"), CALLER)
    assert caught.value.code == "session_required"


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "two\nlines", "\x00", "\ud800", "a\u2028b"])
async def test_invalid_name_is_refused(instance: Instance, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await create_token(instance, name=name)


async def test_secret_as_a_name_is_refused(instance: Instance) -> None:
    for name in ((await create_token(instance)).secret, "k7qd-m2xw-9fht-4c3p", "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl"):
        with pytest.raises(InvalidRequest, match="looks like a secret"):
            await create_token(instance, name=name)


async def test_expiry_in_the_past_is_refused(instance: Instance) -> None:
    with pytest.raises(InvalidRequest):
        await create_token(instance, expires_at=instance.now[0])


async def test_up_to_20_tokens_are_valid_at_the_same_time(instance: Instance) -> None:
    first, second = await create_token(instance), await create_token(instance)
    for created in (first, second):
        await api_tokens.authenticate(instance.services, created.secret, CALLER)
    user = await principal(instance)
    await api_tokens.revoke(instance.services, user, first.token.token_id, CALLER)
    for _ in range(19):
        await api_tokens.create(instance.services, user, TokenOptions("one more"), CALLER)
    with pytest.raises(Conflict):
        await api_tokens.create(instance.services, user, TokenOptions("too many"), CALLER)
    assert await error_code(instance, first.secret) == "token_revoked"
    await api_tokens.authenticate(instance.services, second.secret, CALLER)


async def test_last_use_is_stored_once_a_minute_and_may_fail(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await create_token(instance)

    async def use() -> object:
        await api_tokens.authenticate(instance.services, created.secret, CALLER)
        return stored(instance, created.token.token_id).last_used_at

    first = instance.now[0]
    assert await use() == first
    instance.advance(seconds=59)
    assert await use() == first
    instance.advance(seconds=1)
    assert await use() == instance.now[0]
    last = instance.now[0]
    instance.advance(minutes=5)

    async def unavailable(work: object) -> None:
        raise Unavailable("unavailable", code="state_unavailable")

    monkeypatch.setattr(instance.state, "awrite", unavailable)
    assert await use() == last


async def test_users_see_their_tokens_and_admins_see_all(instance: Instance) -> None:
    mine = await create_token(instance)
    theirs = await create_token(instance, "omar@example.org")

    async def visible_tokens(email: str) -> set[str]:
        found = await api_tokens.list_of_account(instance.services, await principal(instance, email))
        return {token.token_id for token in found}

    assert await visible_tokens("rosa@example.org") == {mine.token.token_id}

    async def revoke(email: str) -> None:
        user = await principal(instance, email)
        await api_tokens.revoke(instance.services, user, theirs.token.token_id, CALLER)

    with pytest.raises(NotFound):
        await revoke("rosa@example.org")
    instance.put_grant(ROSA, ALPHA, async_rest_api=True, roles=("admin",))
    assert await visible_tokens("rosa@example.org") == {mine.token.token_id, theirs.token.token_id}
    await revoke("rosa@example.org")
    assert await error_code(instance, theirs.secret) == "token_revoked"


async def test_token_is_changed_by_its_owner_and_by_admins(instance: Instance) -> None:
    created = await create_token(instance, "omar@example.org")

    async def change(email: str, name: str, *networks: str) -> None:
        await change_as(await principal(instance, email), name, *networks)

    async def change_as(user: Principal, name: str, *networks: str) -> None:
        await api_tokens.change(
            instance.services, user, created.token.token_id, name=name, allowed_networks=networks, caller=CALLER
        )

    with pytest.raises(NotFound):
        await change("rosa@example.org", "mine now")
    with pytest.raises(InvalidRequest):
        await change("omar@example.org", " ")
    await change("omar@example.org", " weekly job ")
    await change("omar@example.org", "weekly job")
    instance.put_grant(ROSA, ALPHA, async_rest_api=True, roles=("admin",))
    await change("rosa@example.org", "archive", "203.0.113.0/24")
    token = stored(instance, created.token.token_id)
    assert (token.name, token.allowed_networks) == ("archive", ("203.0.113.0/24",))
    assert [(event.details["previous_name"], event.details["name"]) for event in instance.audit("token.renamed")] == [
        ("nightly job", "weekly job"),
        ("weekly job", "archive"),
    ]
    (changed,) = instance.audit("token.networks_changed")
    assert (changed.details["before"], changed.details["after"]) == ([], ["203.0.113.0/24"])
    await change("rosa@example.org", "archive")
    assert stored(instance, created.token.token_id).allowed_networks == ()
    user = await principal(instance, "rosa@example.org")
    instance.now[0] += timedelta(minutes=11)
    with pytest.raises(Forbidden, match="password"):
        await change_as(user, "archive", "203.0.113.0/24")
    await change_as(user, "old archive")


async def test_token_is_refused_from_other_addresses(instance: Instance) -> None:
    created = await create_token(instance, allowed_networks=("203.0.113.0/24", "2001:db8::/32"))

    async def authenticate(address: str) -> None:
        await api_tokens.authenticate(instance.services, created.secret, caller_from(address))

    await authenticate("203.0.113.9")
    await authenticate("2001:db8::1")
    last_use = stored(instance, created.token.token_id).last_used_at
    for address in ("198.51.100.7", "198.51.100.7", "2001:db9::1", ""):
        with pytest.raises(Forbidden) as caught:
            await authenticate(address)
        assert caught.value.code == "address_not_allowed"
    events = instance.audit("token.refused")
    assert [event.address for event in events] == ["198.51.100.7", "2001:db9::1", ""], "one event a minute"
    assert {(event.result, event.subject, event.client_id) for event in events} == {
        ("address_not_allowed", f"token:{created.token.token_id}", ALPHA)
    }
    assert stored(instance, created.token.token_id).last_used_at == last_use
    instance.now[0] += timedelta(minutes=1, seconds=1)
    with pytest.raises(Forbidden):
        await authenticate("198.51.100.7")
    assert len(instance.audit("token.refused")) == 4


async def test_refusal_does_not_depend_on_the_audit_trail(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await create_token(instance, allowed_networks=("203.0.113.9/32",))

    async def unavailable(work: object) -> None:
        raise Unavailable("unavailable", code="state_unavailable")

    monkeypatch.setattr(instance.state, "awrite", unavailable)
    assert await error_code(instance, created.secret) == "address_not_allowed"


async def test_token_of_another_account_cannot_be_revoked(instance: Instance) -> None:
    instance.change_account(BRAVO, api_tokens_enabled=True)
    instance.put_grant(OMAR, BRAVO, async_rest_api=True)
    created = await create_token(instance, "omar@example.org")
    assert created.token.client_id == ALPHA

    async def scenario(token_id: str) -> None:
        started = await instance.log_in("omar@example.org")
        user = await sessions.active_session(instance.services, started.token)
        switched = await sessions.switch(instance.services, user, BRAVO, CALLER)
        switched_user = await sessions.authenticate(instance.services, switched)
        await api_tokens.revoke(instance.services, switched_user, token_id, CALLER)

    for token_id in (created.token.token_id, "nonsense", "\x00"):
        with pytest.raises(NotFound):
            await scenario(token_id)
    await api_tokens.authenticate(instance.services, created.secret, CALLER)


async def test_leaked_tokens_are_revoked_and_their_owners_listed(instance: Instance) -> None:
    leaked, kept = await create_token(instance), await create_token(instance)
    report = f'[{{"token": "{leaked.secret}", "url": "https://gist.example/1"}}]'

    def revoke() -> list[ApiToken]:
        return instance.write(
            lambda stores: operators.revoke_leaked_tokens(
                stores, report, instance.now[0], actor="operator", reason="found in public"
            )
        )

    assert [token.created_by_email for token in revoke()] == ["rosa@example.org"]
    assert revoke() == []
    assert await error_code(instance, leaked.secret) == "token_revoked"
    await api_tokens.authenticate(instance.services, kept.secret, CALLER)
    assert instance.audit("token.revoked")[0].details["reason"] == "found in public"


async def test_operator_creates_and_revokes_tokens(instance: Instance) -> None:
    created = api_tokens.new_token(
        instance.seat(ROSA),
        ALPHA,
        TokenOptions("created by the operator"),
        now=instance.now[0],
        random=secrets.token_bytes,
    )
    instance.write(lambda stores: operators.add_token(stores, created.token, instance.now[0], actor="operator"))
    await api_tokens.authenticate(instance.services, created.secret, CALLER)

    def revoke() -> bool:
        return instance.write(
            lambda stores: operators.revoke_token(
                stores, created.token, instance.now[0], actor="operator", reason="no longer needed"
            )
        )

    assert (revoke(), revoke()) == (True, False)
    assert [event.actor for event in instance.audit("token.*")] == ["operator", "operator"]


async def test_key_of_s3_secrets_is_in_use_until_its_tokens_end(instance: Instance) -> None:
    tolerance = timedelta(days=7)
    first = instance.services.keyring.current()

    def in_use(ring: keyring.Keyring) -> frozenset[str]:
        return instance.state.read(lambda stores: keys.kids_of_s3_keys(stores, ring, instance.now[0], tolerance))

    created = await create_token(instance)
    instance.advance(days=1)
    second = first.rotate(instance.now[0], secrets.token_bytes, lifetime=tolerance)
    instance.advance(days=1)
    third = second.rotate(instance.now[0], secrets.token_bytes, lifetime=tolerance)
    # The token is older than the second key, which signed for a day.
    assert in_use(third) == {first.signing_kid}
    instance.write(lambda stores: stores.api_tokens.revoke(created.token.token_id, instance.now[0], "test"))
    assert in_use(third) == frozenset()
