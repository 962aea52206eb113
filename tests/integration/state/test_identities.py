"""Users of single sign-on providers, bound to seats."""

import pytest

from daybreak.domain.errors import Conflict
from daybreak.domain.identity import SeatIdentity
from daybreak.state.database import Database
from tests.integration.state.values import NOW, SEAT, seat, two_accounts

ISSUER, OTHER = "https://login.example.org", "https://other.example.org"


def identity(subject: str, seat_id: str = SEAT.seat_id, issuer: str = ISSUER) -> SeatIdentity:
    return SeatIdentity(issuer, subject, seat_id, NOW)


def test_user_is_found_by_issuer_and_subject(state: Database) -> None:
    state.write(two_accounts)
    state.write(lambda stores: stores.identities.add(identity("user-1")))
    assert state.read(lambda stores: stores.identities.find(ISSUER, "user-1")) == identity("user-1")
    for issuer, subject in ((ISSUER, "USER-1"), (ISSUER, "user-2"), (OTHER, "user-1")):
        assert state.read(lambda stores, it=(issuer, subject): stores.identities.find(*it)) is None  # type: ignore[misc]


def test_user_is_bound_once(state: Database) -> None:
    other = seat(0x5EA7)
    state.write(two_accounts)
    state.write(lambda stores: stores.directory.put_seats(other))
    state.write(lambda stores: stores.identities.add(identity("user-1")))
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.identities.add(identity("user-1", other.seat_id)))
    state.write(lambda stores: stores.identities.add(identity("user-1", other.seat_id, OTHER)))
    assert state.read(lambda stores: stores.identities.list_all()) == [
        identity("user-1"),
        identity("user-1", other.seat_id, OTHER),
    ]


def test_removal_is_limited_to_the_seat(state: Database) -> None:
    other = seat(0x5EA7)
    state.write(two_accounts)
    state.write(lambda stores: stores.directory.put_seats(other))
    for bound in (identity("user-1"), identity("user-2", issuer=OTHER), identity("user-3", other.seat_id)):
        state.write(lambda stores, it=bound: stores.identities.add(it))  # type: ignore[misc]
    assert state.write(lambda stores: stores.identities.remove_all(SEAT.seat_id)) == 2
    assert state.write(lambda stores: stores.identities.remove_all(SEAT.seat_id)) == 0
    assert state.read(lambda stores: stores.identities.list_for(SEAT.seat_id)) == []
    assert state.read(lambda stores: stores.identities.list_for(other.seat_id)) == [identity("user-3", other.seat_id)]
