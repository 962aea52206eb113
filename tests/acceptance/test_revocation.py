"""Revocation takes effect on the next request in every worker, including requests for issued links.

Tests undo their changes to the shared services.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from daybreak.cli.main import run
from daybreak.domain.identity import Grant
from daybreak.state.stores import Stores
from tests.acceptance.browser import signed_in
from tests.acceptance.installation import ACCOUNTS, DREW, MAYA, NORTH, SOUTH, seat_id
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
    stores.seats.set_disabled(GRANT.seat_id, disabled=True)


def _enabled(stores: Stores) -> None:
    stores.seats.set_disabled(GRANT.seat_id, disabled=False)


@pytest.mark.parametrize(
    ("revoke", "restore", "status", "code"),
    [
        (_without_grant, _restore_grant, 403, "not_your_account"),
        (_without_data_export, _restore_grant, 403, "data_export_required"),
        (_disabled, _enabled, 401, None),
    ],
)
def test_revocation_takes_effect_immediately(
    each_service: Service, revoke: Change, restore: Change, status: int, code: str | None
) -> None:
    session = each_service.token(DREW, NORTH)
    secret, _ = each_service.installation.create_token(DREW, NORTH)
    links = [each_service.link(token, NORTH, "members.csv.gz") for token in (session, secret)]
    assert [each_service.request("HEAD", link).status_code for link in links] == [200, 200]
    each_service.installation.change(revoke)
    try:
        # Often enough to reach both workers.
        for _ in range(4):
            for token in (session, secret):
                found = each_service.request_file(token, NORTH)
                assert found.status_code == status, found.text
                assert code is None or found.json()["code"] == code
            for link in links:
                refused = each_service.get(link)
                assert (refused.status_code, refused.json()["code"]) == (403, "link_revoked")
    finally:
        each_service.installation.change(restore)
    assert each_service.log_in(DREW).status_code == 200


def test_deactivated_account_is_refused(each_service: Service) -> None:
    session = each_service.token(DREW, SOUTH)
    north = each_service.switch_account(session, NORTH)
    link = each_service.link(north, NORTH)
    each_service.installation.change(_inactive)
    try:
        assert each_service.request_file(north, NORTH).json()["code"] == "account_inactive"
        assert each_service.get(link).json()["code"] == "link_revoked"
        assert each_service.request_file(session, SOUTH).status_code == 302, "the other account is not affected"
        listed = each_service.get(f"{AUTH}/context", token=north).json()["data"]
        assert [context["client_id"] for context in listed] == [SOUTH]
    finally:
        each_service.installation.change(_active)


def test_expired_session_ends_its_links(each_service: Service) -> None:
    session = each_service.token(DREW, NORTH)
    link = each_service.link(session, NORTH)
    each_service.installation.expire_sessions(DREW)
    found = each_service.request_file(session, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "session_ended")
    assert each_service.get(link).json()["code"] == "link_revoked"


def test_operator_signs_out_a_seat(
    each_service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("DAYBREAK_STATE__URL", each_service.installation.state_url)
    configuration = tmp_path / "daybreak.toml"
    configuration.write_text('[source]\nlocation = "platform.duckdb"\n', "utf-8")
    sign_out = ["seat", "sign-out", f" {DREW.upper()} ", "--config", str(configuration)]
    assert run(sign_out) == 0
    session, bystander = each_service.token(DREW, NORTH), each_service.token(MAYA, NORTH)
    secret, _ = each_service.installation.create_token(DREW, NORTH)
    link = each_service.link(session, NORTH)
    browser = signed_in(each_service, DREW)
    capsys.readouterr()
    assert run(sign_out) == 0
    assert "2 sessions ended." in capsys.readouterr().out
    # Often enough to reach both workers.
    for _ in range(4):
        assert each_service.request_file(session, NORTH).json()["code"] == "session_ended"
        assert each_service.get(link).json()["code"] == "link_revoked"
        assert each_service.request_file(secret, NORTH).status_code == 302, "API tokens stay valid"
        assert each_service.request_file(bystander, NORTH).status_code == 302
    with browser:
        page = browser.get(f"/dashboard/{NORTH}/files")
        assert "/dashboard/sign-in" in page.headers["Location"]
    *_, event = each_service.installation.events(action="seat.signed_out")
    assert (event.actor, event.seat_id, event.details["seat"]) == ("operator", seat_id(DREW), DREW)


def test_new_second_factor_requirement_ends_access(each_service: Service) -> None:
    session = each_service.token(DREW, NORTH)
    south = each_service.switch_account(session, SOUTH)
    secret, _ = each_service.installation.create_token(DREW, NORTH)
    link = each_service.link(session, NORTH)
    stricter = replace(ACCOUNTS[NORTH], second_factor_required=True)
    each_service.installation.change(lambda stores: stores.directory.put_accounts(stricter))
    try:
        for found in (
            each_service.request_file(session, NORTH),
            each_service.get(f"/download/v1/files/{NORTH}", token=session),
            each_service.get(f"/download/v1/audit/{NORTH}", token=session),
            each_service.request("PUT", f"{AUTH}/context", token=south, json={"context": NORTH}),
        ):
            assert (found.status_code, found.json()["code"]) == (403, "second_factor_required")
        assert each_service.get(link).json()["code"] == "link_revoked"
        assert each_service.request_file(south, SOUTH).status_code == 302, "the other account is not affected"
        assert each_service.request_file(secret, NORTH).status_code == 302, "API tokens need no second factor"
        assert each_service.log_in(DREW).json().keys() == {"seat_id", "token"}
    finally:
        each_service.installation.change(_active)
    assert each_service.request_file(session, NORTH).status_code == 302


def test_revoked_and_expired_tokens_are_refused(each_service: Service) -> None:
    secret, token_id = each_service.installation.create_token(DREW, NORTH)
    link = each_service.link(secret, NORTH)
    each_service.installation.change(lambda stores: stores.api_tokens.revoke(token_id, datetime.now(UTC), "test"))
    found = each_service.request_file(secret, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "token_revoked")
    assert each_service.get(link).json()["code"] == "link_revoked"
    expired, _ = each_service.installation.create_token(
        DREW, NORTH, expires_at=datetime.now(UTC) - timedelta(seconds=1)
    )
    found = each_service.request_file(expired, NORTH)
    assert (found.status_code, found.json()["code"]) == (401, "token_expired")


def test_logout_takes_effect_in_every_worker(each_service: Service) -> None:
    first = each_service.token(DREW, NORTH)
    tokens = [(first, NORTH), (each_service.switch_account(first, SOUTH), SOUTH)]
    links = [each_service.link(token, client_id) for token, client_id in tokens]
    assert each_service.request("DELETE", f"{AUTH}/logout", token=first).status_code == 204

    def send(number: int) -> list[int]:
        token, client_id = tokens[number % 2]
        return [
            status
            for _ in range(25)
            for status in (
                each_service.request_file(token, client_id).status_code,
                each_service.get(links[number % 2]).status_code,
            )
        ]

    statuses = [status for found in run_in_parallel(send, 8) for status in found]
    assert len(statuses) == 400
    assert set(statuses) == {401, 403}
