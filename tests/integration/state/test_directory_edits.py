"""Single changes to the directory by an operator."""

import pytest

from daybreak.access.directory import changes
from daybreak.domain.audit import AuditQuery
from daybreak.domain.errors import OperatorError
from daybreak.domain.identity import Account, Grant, Seat
from daybreak.state.database import Database
from tests.integration.state.values import NOW, account, seat, token, uuid

ACTOR = "op@example.org"


@pytest.fixture
def filled(state: Database) -> Database:
    """A state database with one account and one seat, without a grant."""
    state.write(lambda stores: stores.directory.put_accounts(account(1, api_tokens_enabled=True)))
    state.write(lambda stores: stores.directory.put_seats(seat(2)))
    return state


def actions(state: Database) -> list[str]:
    events = state.read(lambda stores: stores.audit.read(AuditQuery()))
    assert {event.actor for event in events} <= {ACTOR}
    return [event.action for event in events]


def grant(*, data_export: bool = True, async_rest_api: bool = True, role: str = "owner") -> Grant:
    return Grant(uuid(2), uuid(1), (role,), data_export, async_rest_api)


def test_seat_is_added_once(filled: Database) -> None:
    new = Seat(uuid(3), "new@example.org", "hash")
    filled.write(lambda stores: changes.add_seat(stores, new, NOW, actor=ACTOR))
    assert filled.read(lambda stores: stores.seats.by_email("NEW@example.org")) == new
    again = Seat(uuid(4), "New@Example.org", "hash")
    with pytest.raises(OperatorError, match="has a seat already"):
        filled.write(lambda stores: changes.add_seat(stores, again, NOW, actor=ACTOR))
    assert actions(filled) == ["seat.added"]


@pytest.mark.parametrize("email", ["", "maya", "maya@", "a b@example.org", f"{'a' * 250}@example.org"])
def test_invalid_email_is_refused(filled: Database, email: str) -> None:
    with pytest.raises(OperatorError, match="email address"):
        filled.write(lambda stores: changes.add_seat(stores, Seat(uuid(3), email), NOW, actor=ACTOR))


def test_grant_is_added_changed_and_removed(filled: Database) -> None:
    known = seat(2)
    for each in (grant(), grant(), grant(async_rest_api=False, role="analyst")):
        filled.write(lambda stores, each=each: changes.put_grant(stores, known, each, NOW, actor=ACTOR))  # type: ignore[misc]
    (granted,) = filled.read(lambda stores: stores.seats.granted_accounts(uuid(2)))
    assert granted.grant == grant(async_rest_api=False, role="analyst")
    assert filled.write(lambda stores: changes.remove_grant(stores, known, uuid(1), NOW, actor=ACTOR))
    assert not filled.write(lambda stores: changes.remove_grant(stores, known, uuid(1), NOW, actor=ACTOR))
    assert filled.read(lambda stores: stores.seats.granted_accounts(uuid(2))) == []
    assert sorted(actions(filled)) == ["grant.changed", "grant.changed", "grant.removed"]


def test_unknown_role_is_refused(filled: Database) -> None:
    with pytest.raises(OperatorError, match="Choose a role: owner, admin, analyst"):
        filled.write(lambda stores: changes.put_grant(stores, seat(2), grant(role="king"), NOW, actor=ACTOR))


def test_lost_permission_revokes_tokens(filled: Database) -> None:
    filled.write(lambda stores: changes.put_grant(stores, seat(2), grant(), NOW, actor=ACTOR))
    filled.write(lambda stores: stores.api_tokens.add(token(5, uuid(2), uuid(1))))
    filled.write(lambda stores: changes.put_grant(stores, seat(2), grant(data_export=False), NOW, actor=ACTOR))
    (found,) = filled.read(lambda stores: stores.api_tokens.list_for(client_id=uuid(1)))
    assert found.revoked_at == NOW


def test_api_tokens_of_an_account_are_switched(filled: Database) -> None:
    def switch(current: Account, enabled: bool) -> None:
        filled.write(lambda stores: changes.set_api_tokens_enabled(stores, current, NOW, enabled=enabled, actor=ACTOR))

    switch(account(1, api_tokens_enabled=True), True)
    assert actions(filled) == []
    switch(account(1, api_tokens_enabled=True), False)
    assert [each.api_tokens_enabled for each in filled.read(lambda stores: stores.directory.load()).accounts] == [False]
    assert actions(filled) == ["account.changed"]
    (event,) = filled.read(lambda stores: stores.audit.read(AuditQuery()))
    assert event.details == {"before": {"api_tokens_enabled": True}, "after": {"api_tokens_enabled": False}}
