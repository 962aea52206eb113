"""Revocation takes effect on the next request in every worker, also for issued links."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from daybreak.credentials import passwords
from daybreak.domain.identity import Grant, Seat
from daybreak.ports.state import Stores
from tests.acceptance.installation import ACCOUNTS, DREW, GUESS, NORTH, SOUTH, TWIN, seat_id, totp_code
from tests.acceptance.service import AUTH, Service, run_in_parallel

Change = Callable[[Stores], object]
GRANT = Grant(seat_id(DREW), NORTH, ("owner",), data_export=True, async_rest_api=True)


def _without_grant(stores: Stores) -> None:
    stores.directory.remove_grants(Grant(GRANT.seat_id, NORTH))


def _without_data_export(stores: Stores) -> None:
    stores.directory.put_grants(replace(GRANT, data_export=False))


def _restore_grant(stores: Stores) -> None:
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
    """Return the shared service. These tests change only the seat DREW and undo their changes."""
    return each_service


@pytest.mark.parametrize(
    ("revoke", "restore", "status", "code"),
    [
        (_without_grant, _restore_grant, 403, "not_your_account"),
        (_without_data_export, _restore_grant, 403, "data_export_required"),
        (_disabled, _enabled, 401, None),
    ],
)
def test_revocation_takes_effect_immediately(
    own: Service, revoke: Change, restore: Change, status: int, code: str | None
) -> None:
    session = own.token(DREW, NORTH)
    secret, _ = own.installation.create_token(DREW, NORTH)
    links = [own.link(token, NORTH, "members.csv.gz") for token in (session, secret)]
    assert [own.request("HEAD", link).status_code for link in links] == [200, 200]
    own.installation.change(revoke)
    try:
        # Often enough to reach both workers.
        for _ in range(4):
            for token in (session, secret):
                found = own.request_file(token, NORTH)
                assert found.status_code == status, found.text
                assert code is None or found.json()["code"] == code
            for link in links:
                gone = own.get(link)
                assert (gone.status_code, gone.json()["code"]) == (403, "link_revoked")
    finally:
        own.installation.change(restore)
    assert own.log_in(DREW).status_code == 200


def test_deactivated_account_is_refused(own: Service) -> None:
    session = own.token(DREW, SOUTH)
    north = own.switch_account(session, NORTH)
    link = own.link(north, NORTH)
    own.installation.change(_inactive)
    try:
        assert own.request_file(north, NORTH).json()["code"] == "account_inactive"
        assert own.get(link).json()["code"] == "link_revoked"
        assert own.request_file(session, SOUTH).status_code == 302, "the other account is not affected"
        listed = own.get(f"{AUTH}/context", token=north).json()["data"]
        assert [context["client_id"] for context in listed] == [SOUTH]
    finally:
        own.installation.change(_active)


def test_expired_session_ends_its_links(own: Service) -> None:
    session = own.token(DREW, NORTH)
    link = own.link(session, NORTH)
    own.installation.expire_sessions(DREW)
    found = own.request_file(session, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "session_ended")
    assert own.get(link).json()["code"] == "link_revoked"


def test_new_second_factor_requirement_ends_access(own: Service) -> None:
    session = own.token(DREW, NORTH)
    south = own.switch_account(session, SOUTH)
    secret, _ = own.installation.create_token(DREW, NORTH)
    link = own.link(session, NORTH)
    stricter = replace(ACCOUNTS[NORTH], second_factor_required=True)
    own.installation.change(lambda stores: stores.directory.put_accounts(stricter))
    try:
        for found in (
            own.request_file(session, NORTH),
            own.get(f"/download/v1/files/{NORTH}", token=session),
            own.get(f"/download/v1/audit/{NORTH}", token=session),
            own.request("PUT", f"{AUTH}/context", token=south, json={"context": NORTH}),
        ):
            assert (found.status_code, found.json()["code"]) == (403, "second_factor_required")
        assert own.get(link).json()["code"] == "link_revoked"
        assert own.request_file(south, SOUTH).status_code == 302, "the other account is not affected"
        assert own.request_file(secret, NORTH).status_code == 302, "API tokens need no second factor"
        assert own.log_in(DREW).json().keys() == {"seat_id", "token"}
    finally:
        own.installation.change(_active)
    assert own.request_file(session, NORTH).status_code == 302


def test_new_password_ends_sessions_and_links(own: Service) -> None:
    session = own.token(DREW, NORTH)
    link = own.link(session, NORTH)
    new_hash = passwords.hash_password("another long password")
    old = own.installation.state()
    try:
        seat = old.read(lambda stores: stores.seats.by_email(DREW))
    finally:
        old.close()
    assert isinstance(seat, Seat)
    now = datetime.now(UTC)

    def change(stores: Stores) -> None:
        stores.seats.set_password_hash(seat.seat_id, new_hash, now)
        stores.sessions.end_all(seat.seat_id, now, "password changed")

    own.installation.change(change)
    try:
        assert own.request_file(session, NORTH).status_code == 401
        assert own.get(link).status_code == 403
        assert own.log_in(DREW).status_code == 401
        assert own.log_in(DREW, password="another long password").status_code == 200
    finally:
        own.installation.change(
            lambda stores: stores.seats.set_password_hash(seat.seat_id, seat.password_hash or "", now)
        )


def test_revoked_and_expired_tokens_are_refused(own: Service) -> None:
    secret, token_id = own.installation.create_token(DREW, NORTH)
    link = own.link(secret, NORTH)
    own.installation.change(lambda stores: stores.api_tokens.revoke(token_id, datetime.now(UTC), "test"))
    found = own.request_file(secret, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "token_revoked")
    assert own.get(link).json()["code"] == "link_revoked"
    expired, _ = own.installation.create_token(DREW, NORTH, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    found = own.request_file(expired, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "token_expired")


def test_logout_takes_effect_in_every_worker(own: Service) -> None:
    first = own.token(DREW, NORTH)
    tokens = [(first, NORTH), (own.switch_account(first, SOUTH), SOUTH)]
    links = [own.link(token, client_id) for token, client_id in tokens]
    assert own.request("DELETE", f"{AUTH}/logout", token=first).status_code == 204

    def send(number: int) -> list[int]:
        token, client_id = tokens[number % 2]
        return [
            status
            for _ in range(25)
            for status in (own.request_file(token, client_id).status_code, own.get(links[number % 2]).status_code)
        ]

    statuses = [status for found in run_in_parallel(send, 8) for status in found]
    assert len(statuses) == 400
    assert set(statuses) == {401, 403}


def test_parallel_uses_of_one_code_log_in_once(own: Service) -> None:
    own.installation.reset_attempts(TWIN)
    pending = [own.log_in(TWIN).json()["token"] for _ in range(20)]
    # The code of the next step is valid for at least a whole step, also on a slow machine.
    code = totp_code(ahead=1)
    found = run_in_parallel(lambda number: own.answer_second_factor(pending[number], code).status_code, 20)
    assert found.count(200) == 1, found
    assert set(found) <= {200, 401, 429}
    again = own.answer_second_factor(pending[0], code)
    assert again.status_code in {401, 429}


def test_at_most_five_parallel_guesses_are_verified(own: Service) -> None:
    pending = own.log_in(GUESS).json()["token"]
    found = run_in_parallel(lambda number: own.answer_second_factor(pending, f"{number:06d}"), 50)
    statuses = [answer.status_code for answer in found]
    assert statuses.count(401) <= 5, statuses
    assert set(statuses) <= {401, 429}
    limited = next(answer for answer in found if answer.status_code == 429)
    assert limited.json()["code"] == "rate_limited"
    assert 1 <= int(limited.headers["Retry-After"]) <= 310
    assert limited.headers["RateLimit"].startswith('"attempts";r=0')
    right = own.answer_second_factor(pending, totp_code(ahead=0))
    assert right.status_code == 429, "the correct code has to wait as well"
