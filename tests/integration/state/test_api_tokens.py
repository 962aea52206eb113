"""API tokens."""

import pytest
from msgspec.structs import replace

from daybreak.domain.errors import Conflict
from daybreak.domain.identity import Grant
from daybreak.state.database import Database
from daybreak.state.stores import Stores
from tests.integration.state.values import ANN, BEA, MINUTE, NOW, SEAT, token, two_accounts, uuid

TOKEN = token(1, SEAT.seat_id, ANN.client_id, expires_at=NOW + 60 * MINUTE, serve_gzip_as="encoding")
TOKEN = replace(TOKEN, allowed_networks=("203.0.113.0/24", "2001:db8::/32"))


def one_token(stores: Stores) -> None:
    two_accounts(stores)
    stores.api_tokens.add(TOKEN)


def test_resolved_token_has_seat_account_and_grant(state: Database) -> None:
    state.write(one_token)
    resolved = state.read(lambda stores: stores.api_tokens.resolve(TOKEN.digest))
    assert resolved is not None
    assert (resolved.token, resolved.seat, resolved.account) == (TOKEN, SEAT, ANN.status)
    assert resolved.grant is not None
    assert resolved.grant.data_export
    assert state.read(lambda stores: stores.api_tokens.resolve_by_id(TOKEN.token_id)) == resolved
    assert state.read(lambda stores: stores.api_tokens.resolve("0" * 64)) is None
    state.write(lambda stores: stores.directory.remove_grants(Grant(SEAT.seat_id, ANN.client_id)))
    without = state.read(lambda stores: stores.api_tokens.resolve(TOKEN.digest))
    assert without is not None
    assert (without.account, without.grant) == (None, None)


def test_name_and_networks_are_replaced(state: Database) -> None:
    state.write(one_token)
    state.write(lambda stores: stores.api_tokens.rename(TOKEN.token_id, "renamed"))
    choices: tuple[tuple[str, ...], ...] = (("198.51.100.0/24",), ())
    for networks in choices:

        def replace_networks(stores: Stores, networks: tuple[str, ...] = networks) -> None:
            stores.api_tokens.set_allowed_networks(TOKEN.token_id, networks)

        state.write(replace_networks)
        (found,) = state.read(lambda stores: stores.api_tokens.list_for())
        assert found == replace(TOKEN, name="renamed", allowed_networks=networks)


def test_last_use_is_written_at_most_once_per_interval(state: Database) -> None:
    state.write(one_token)

    def touch(minutes: float) -> None:
        now = NOW + minutes * MINUTE
        state.write(lambda stores: stores.api_tokens.record_use(TOKEN.token_id, now, not_after=now - MINUTE))

    def last_used() -> float:
        used = state.read(lambda stores: stores.api_tokens.list_for())[0].last_used_at
        assert used is not None
        return (used - NOW) / MINUTE

    touch(1)
    assert last_used() == 1
    touch(1.5)
    assert last_used() == 1
    touch(2)
    assert last_used() == 2


def test_tokens_are_listed_by_account_and_seat_newest_first(state: Database) -> None:
    state.write(one_token)
    newer = token(2, SEAT.seat_id, ANN.client_id, created_at=NOW + MINUTE)
    other = token(3, SEAT.seat_id, BEA.client_id)
    state.write(lambda stores: stores.api_tokens.add(newer))
    state.write(lambda stores: stores.api_tokens.add(other))
    assert state.read(lambda stores: stores.api_tokens.list_for(client_id=ANN.client_id)) == [newer, TOKEN]
    assert state.read(lambda stores: stores.api_tokens.list_for(client_id=BEA.client_id, seat_id=SEAT.seat_id)) == [
        other
    ]
    assert state.read(lambda stores: stores.api_tokens.list_for(seat_id=uuid(9))) == []


def test_token_is_revoked_once_and_with_its_grant(state: Database) -> None:
    state.write(one_token)
    second = token(2, SEAT.seat_id, ANN.client_id)
    state.write(lambda stores: stores.api_tokens.add(second))
    assert state.write(lambda stores: stores.api_tokens.revoke(TOKEN.token_id, NOW, "leaked"))
    assert not state.write(lambda stores: stores.api_tokens.revoke(TOKEN.token_id, NOW + MINUTE, "again"))
    lost = [Grant(SEAT.seat_id, BEA.client_id), Grant(uuid(9), ANN.client_id)]
    state.write(lambda stores: stores.api_tokens.revoke_for_grants(lost, NOW, "grant removed"))
    kept = state.read(lambda stores: stores.api_tokens.resolve_by_id(second.token_id))
    assert kept is not None
    assert kept.token == second
    lost.append(Grant(SEAT.seat_id, ANN.client_id))
    state.write(lambda stores: stores.api_tokens.revoke_for_grants(lost, NOW, "grant removed"))
    tokens = state.read(lambda stores: stores.api_tokens.list_for(client_id=ANN.client_id))
    assert {each.token_id: each.revoke_reason for each in tokens} == {
        TOKEN.token_id: "leaked",
        second.token_id: "grant removed",
    }
    resolved = state.read(lambda stores: stores.api_tokens.resolve(TOKEN.digest))
    assert resolved is not None
    assert resolved.token == replace(TOKEN, revoked_at=NOW, revoke_reason="leaked")


def test_two_tokens_never_share_a_digest(state: Database) -> None:
    state.write(one_token)
    twin = token(2, SEAT.seat_id, ANN.client_id, digest=TOKEN.digest)
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.api_tokens.add(twin))


def test_only_expired_and_revoked_tokens_are_deleted(state: Database) -> None:
    state.write(one_token)
    for number in (2, 3):
        state.write(lambda stores, number=number: stores.api_tokens.add(token(number, SEAT.seat_id, ANN.client_id)))  # type: ignore[misc]
    state.write(lambda stores: stores.api_tokens.revoke(uuid(2), NOW, "leaked"))
    assert state.write(lambda stores: stores.api_tokens.delete_inactive(NOW)) == 0
    assert state.write(lambda stores: stores.api_tokens.delete_inactive(NOW + 61 * MINUTE)) == 2
    assert [one.token_id for one in state.read(lambda stores: stores.api_tokens.list_for())] == [uuid(3)]
