"""What is taken away is gone on the next request, in every worker, for links that are out as well."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from daybreak.credentials import passwords
from daybreak.domain.identity import Grant, Seat
from daybreak.ports.state import Stores
from tests.acceptance.service import AUTH, Service, at_once
from tests.acceptance.world import ACCOUNTS, GIVEN, GUESS, NORTH, SOUTH, TWIN, seat_id, totp_code

Change = Callable[[Stores], object]
GRANT = Grant(seat_id(GIVEN), NORTH, ("owner",), data_export=True, async_rest_api=True)


def _without_grant(stores: Stores) -> None:
    stores.directory.remove_grants(Grant(GRANT.seat_id, NORTH))


def _without_data_export(stores: Stores) -> None:
    stores.directory.put_grants(replace(GRANT, data_export=False))


def _grant_back(stores: Stores) -> None:
    stores.directory.put_grants(GRANT)


def _inactive(stores: Stores) -> None:
    stores.directory.put_accounts(replace(ACCOUNTS[NORTH], active=False))


def _active(stores: Stores) -> None:
    stores.directory.put_accounts(ACCOUNTS[NORTH])


def _disabled(stores: Stores) -> None:
    stores.seats.set_disabled(GRANT.seat_id, True)


def _enabled(stores: Stores) -> None:
    stores.seats.set_disabled(GRANT.seat_id, False)


@pytest.fixture
def own(each_service: Service) -> Service:
    """The shared services: these tests change one seat of their own, and give everything back."""
    return each_service


@pytest.mark.parametrize(
    ("take", "give_back", "status", "code"),
    [
        (_without_grant, _grant_back, 403, "not_your_account"),
        (_without_data_export, _grant_back, 403, "data_export_required"),
        (_disabled, _enabled, 401, None),
    ],
)
def test_what_is_taken_away_is_gone_at_once(
    own: Service, take: Change, give_back: Change, status: int, code: str | None
) -> None:
    session = own.token(GIVEN, NORTH)
    secret, _ = own.world.mint_token(GIVEN, NORTH)
    links = [own.link(token, NORTH, "members.csv.gz") for token in (session, secret)]
    assert [own.request("HEAD", link).status_code for link in links] == [200, 200]
    own.world.change(take)
    try:
        # Often enough that both workers are asked.
        for _ in range(4):
            for token in (session, secret):
                found = own.ask(token, NORTH)
                assert found.status_code == status, found.text
                assert code is None or found.json()["code"] == code
            for link in links:
                gone = own.get(link)
                assert (gone.status_code, gone.json()["code"]) == (403, "link_revoked")
    finally:
        own.world.change(give_back)
    assert own.log_in(GIVEN).status_code == 200


def test_a_deactivated_account_is_closed(own: Service) -> None:
    session = own.token(GIVEN, SOUTH)
    north = own.switched(session, NORTH)
    link = own.link(north, NORTH)
    own.world.change(_inactive)
    try:
        assert own.ask(north, NORTH).json()["code"] == "account_inactive"
        assert own.get(link).json()["code"] == "link_revoked"
        assert own.ask(session, SOUTH).status_code == 302, "the other account is open"
        listed = own.get(f"{AUTH}/context", token=north).json()["data"]
        assert [context["client_id"] for context in listed] == [SOUTH]
    finally:
        own.world.change(_active)


def test_a_session_whose_time_is_over_takes_its_links_along(own: Service) -> None:
    session = own.token(GIVEN, NORTH)
    link = own.link(session, NORTH)
    own.world.end_time_of_sessions(GIVEN)
    found = own.ask(session, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "session_ended")
    assert own.get(link).json()["code"] == "link_revoked"


def test_an_account_that_begins_to_require_a_second_factor_closes_to_sessions_without_one(own: Service) -> None:
    session = own.token(GIVEN, NORTH)
    south = own.switched(session, SOUTH)
    secret, _ = own.world.mint_token(GIVEN, NORTH)
    link = own.link(session, NORTH)
    stricter = replace(ACCOUNTS[NORTH], second_factor_required=True)
    own.world.change(lambda stores: stores.directory.put_accounts(stricter))
    try:
        for found in (
            own.ask(session, NORTH),
            own.get(f"/download/v1/files/{NORTH}", token=session),
            own.get(f"/download/v1/audit/{NORTH}", token=session),
            own.request("PUT", f"{AUTH}/context", token=south, json={"context": NORTH}),
        ):
            assert (found.status_code, found.json()["code"]) == (403, "second_factor_required")
        assert own.get(link).json()["code"] == "link_revoked"
        assert own.ask(south, SOUTH).status_code == 302, "the other account is open"
        assert own.ask(secret, NORTH).status_code == 302, "an API token was made by somebody who showed what was owed"
        assert own.log_in(GIVEN).json().keys() == {"seat_id", "token"}
    finally:
        own.world.change(_active)
    assert own.ask(session, NORTH).status_code == 302


def test_a_new_password_ends_sessions(own: Service) -> None:
    session = own.token(GIVEN, NORTH)
    link = own.link(session, NORTH)
    fresh = passwords.hash_password("another one that is long")
    old = own.world.state()
    try:
        seat = old.read(lambda stores: stores.seats.by_email(GIVEN))
    finally:
        old.close()
    assert isinstance(seat, Seat)
    now = datetime.now(UTC)

    def change(stores: Stores) -> None:
        stores.seats.set_password_hash(seat.seat_id, fresh, now)
        stores.sessions.end_all(seat.seat_id, now, "password changed")

    own.world.change(change)
    try:
        assert own.ask(session, NORTH).status_code == 401
        assert own.get(link).status_code == 403
        assert own.log_in(GIVEN).status_code == 401
        assert own.log_in(GIVEN, password="another one that is long").status_code == 200
    finally:
        own.world.change(lambda stores: stores.seats.set_password_hash(seat.seat_id, seat.password_hash or "", now))


def test_tokens_end_by_revocation_and_by_time(own: Service) -> None:
    secret, token_id = own.world.mint_token(GIVEN, NORTH)
    link = own.link(secret, NORTH)
    own.world.change(lambda stores: stores.api_tokens.revoke(token_id, datetime.now(UTC), "test"))
    found = own.ask(secret, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "token_revoked")
    assert own.get(link).json()["code"] == "link_revoked"
    over, _ = own.world.mint_token(GIVEN, NORTH, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    found = own.ask(over, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "token_expired")


def test_one_logout_is_seen_by_every_worker(own: Service) -> None:
    first = own.token(GIVEN, NORTH)
    tokens = [(first, NORTH), (own.switched(first, SOUTH), SOUTH)]
    links = [own.link(token, client_id) for token, client_id in tokens]
    assert own.request("DELETE", f"{AUTH}/logout", token=first).status_code == 204

    def connect(number: int) -> list[int]:
        token, client_id = tokens[number % 2]
        return [
            status
            for _ in range(25)
            for status in (own.ask(token, client_id).status_code, own.get(links[number % 2]).status_code)
        ]

    statuses = [status for found in at_once(connect, 8) for status in found]
    assert len(statuses) == 400
    assert set(statuses) == {401, 403}


def test_one_code_opens_one_login_however_many_try_at_once(own: Service) -> None:
    own.world.begin_again(TWIN)
    waiting = [own.log_in(TWIN).json()["token"] for _ in range(20)]
    # The next step's: good for a whole step yet, however slow this machine is.
    code = totp_code(ahead=1)
    found = at_once(lambda number: own.answer_second_factor(waiting[number], code).status_code, 20)
    assert found.count(200) == 1, found
    assert set(found) <= {200, 401, 429}
    again = own.answer_second_factor(waiting[0], code)
    assert again.status_code in {401, 429}


def test_at_most_five_guesses_are_looked_at(own: Service) -> None:
    waiting = own.log_in(GUESS).json()["token"]
    found = at_once(lambda number: own.answer_second_factor(waiting, f"{number:06d}"), 50)
    statuses = [answer.status_code for answer in found]
    assert statuses.count(401) <= 5, statuses
    assert set(statuses) <= {401, 429}
    limited = next(answer for answer in found if answer.status_code == 429)
    assert limited.json()["code"] == "rate_limited"
    assert 1 <= int(limited.headers["Retry-After"]) <= 310
    assert limited.headers["RateLimit"].startswith('"attempts";r=0')
    right = own.answer_second_factor(waiting, totp_code(ahead=0))
    assert right.status_code == 429, "even the right code has to wait"
