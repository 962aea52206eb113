"""Login, second factor, contexts and logout."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from daybreak.credentials import passwords
from daybreak.domain.identity import Seat
from daybreak.state.stores import Stores
from tests.acceptance.installation import (
    ACCOUNTS,
    CARL,
    FOREIGN,
    MAYA,
    NORTH,
    NOT_EXPORTED,
    PASSWORD,
    SOUTH,
    TRACE,
    VAULT,
    VIC,
    seat_id,
    totp_code,
)
from tests.acceptance.service import AUTH, Service


def test_login_returns_seat_account_device_and_token(service: Service) -> None:
    found = service.log_in(MAYA)
    assert found.status_code == 200
    assert found.headers["Content-Type"] == "application/json"
    assert found.headers["Cache-Control"] == "no-store"
    body = found.json()
    assert body.keys() == {"seat_id", "client_id", "device_id", "token"}
    assert body["seat_id"] == seat_id(MAYA)
    assert body["client_id"] in ACCOUNTS
    assert str(uuid.UUID(body["device_id"])) == body["device_id"]
    assert body["token"].count(".") == 2


def test_device_id_is_kept(service: Service) -> None:
    first = service.log_in(MAYA).json()["device_id"]
    again = service.log_in(MAYA, headers={"X-Device-Id": first}).json()["device_id"]
    other = service.log_in(MAYA, headers={"X-Device-Id": str(uuid.uuid4())}).json()["device_id"]
    assert again == first
    assert other != first


def test_contexts_are_the_active_accounts_by_name(service: Service) -> None:
    token = service.token(MAYA, SOUTH)
    found = service.get(f"{AUTH}/context", token=token)
    assert found.status_code == 200
    data = found.json()["data"]
    assert [context["client_id"] for context in data] == [NORTH, NOT_EXPORTED, SOUTH]
    assert [context["client_id"] for context in data if context["current_context"]] == [SOUTH]
    assert data[0] == {
        "client_id": NORTH,
        "current_context": False,
        "first_name": "North",
        "last_name": "Light",
        "phone_number": "+12125550100",
        "phone_number_type": "toll_free",
        "campaign_messages_monthly_threshold": 1000,
        "campaign_messages_monthly_used": 25,
        "roles": ["owner"],
        "onboarding_billing_state": {
            "billing_provided": True,
            "billing_required": True,
            "trial_length_days": 14,
            "trial_started": True,
        },
    }


def test_switch_returns_a_token_and_keeps_the_old_one(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    found = service.request("PUT", f"{AUTH}/context", token=token, json={"context": SOUTH})
    assert found.status_code == 200
    data = found.json()["data"]
    assert (data["id"], data["seat_id"]) == (SOUTH, seat_id(MAYA))
    assert service.request_file(data["token"], SOUTH).status_code == 302
    assert service.request_file(data["token"], NORTH).status_code == 403
    assert service.request_file(token, NORTH).status_code == 302
    assert service.log_in(MAYA).json()["client_id"] == SOUTH, "the next login opens the most recently used account"


def test_logout_ends_all_tokens_of_the_login(service: Service) -> None:
    first = service.token(MAYA, NORTH)
    second = service.switch_account(first, SOUTH)
    found = service.request("DELETE", f"{AUTH}/logout", token=second)
    assert (found.status_code, found.content) == (204, b"")
    for token, client_id in ((first, NORTH), (second, SOUTH)):
        for answer in (
            service.request("DELETE", f"{AUTH}/logout", token=token),
            service.get(f"{AUTH}/context", token=token),
            service.request_file(token, client_id),
        ):
            assert (answer.status_code, answer.json()["code"]) == (401, "session_ended")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer ")


def test_failed_logins_have_the_same_response(service: Service) -> None:
    hashed = passwords.hash_password(PASSWORD)

    def add(stores: Stores) -> None:
        disabled, no_password = "disabled@example.org", "without@example.org"
        stores.directory.put_seats(Seat(seat_id(disabled), disabled, hashed, disabled=True))
        stores.directory.put_seats(Seat(seat_id(no_password), no_password))

    service.installation.change(add)
    answers = [
        service.log_in(MAYA, password="wrong one"),
        service.log_in(MAYA.upper(), password="wrong one"),
        service.log_in("nobody@example.org", password="wrong one"),
        service.log_in("nobody", password=""),
        service.log_in("\0", password="\0"),
        service.log_in("disabled@example.org"),
        service.log_in("without@example.org"),
        service.log_in("without@example.org", password=""),
    ]
    bodies = [{**answer.json(), "request_id": ""} for answer in answers]
    heads = [
        {name: value for name, value in answer.headers.items() if name.lower() not in {"date", "x-request-id"}}
        for answer in answers
    ]
    assert all(body == bodies[0] for body in bodies)
    assert all(head == heads[0] for head in heads)
    assert {answer.status_code for answer in answers} == {401}
    assert bodies[0]["code"] == "invalid_credentials"


@pytest.mark.release
def test_flood_of_logins_does_not_block_downloads(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    with ThreadPoolExecutor(120) as clients:
        flood = [clients.submit(service.log_in, f"flood{number}@example.org") for number in range(120)]
        downloads = [service.request_file(token, NORTH).status_code for _ in range(20)]
        answers = [login.result() for login in flood]
    assert set(downloads) == {302}
    assert {answer.status_code for answer in answers} == {401, 503}
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert busy.json()["code"] == "busy"
    assert int(busy.headers["Retry-After"]) >= 1
    assert service.log_in(MAYA).status_code == 200, "logins work again after the flood"


def test_sql_in_parameters_is_treated_as_text(each_service: Service) -> None:
    service = each_service
    token = service.token(MAYA, NORTH)
    for text in ("' OR '1'='1", "x'; DROP TABLE seats; --", "%", "\\", "maya@example.org' --"):
        assert service.log_in(text, password=text).status_code == 401
        switched = service.request("PUT", f"{AUTH}/context", token=token, json={"context": text})
        assert (switched.status_code, switched.json()["code"]) == (403, "not_your_account")
        assert service.request_file(token, quote(text, safe="")).status_code in {403, 404}
        listed = service.get(f"/download/v1/audit/{NORTH}", token=token, params={"action": text})
        assert (listed.status_code, listed.text) == (200, "")
    assert service.request_file(token, NORTH).status_code == 302


def test_every_step_of_a_login_is_audited(each_service: Service) -> None:
    service = each_service
    service.installation.reset_attempts(TRACE)
    before = len(service.installation.events(seat_id=seat_id(TRACE)))
    agent = {"User-Agent": "trail-reader/1.0 \N{SNOWMAN}".encode().decode("latin-1")}
    refused = service.log_in(TRACE, password="wrong", headers=agent)
    pending = service.log_in(TRACE, headers=agent).json()["token"]
    service.answer_second_factor(pending, "000000")
    token = service.answer_second_factor(pending, totp_code(ahead=1)).json()["token"]
    for client_id in (SOUTH, FOREIGN):
        service.request("PUT", f"{AUTH}/context", token=token, json={"context": client_id})
    service.request("DELETE", f"{AUTH}/logout", token=token)
    events = service.installation.events(seat_id=seat_id(TRACE))[before:]
    assert [(event.action, event.result) for event in events] == [
        ("login", "invalid_credentials"),
        ("login", "second_factor_required"),
        ("second_factor", "invalid_code"),
        ("second_factor", "ok"),
        ("context.switched", "ok"),
        ("context.switched", "not_your_account"),
        ("logout", "ok"),
    ]
    assert {(event.actor, event.address) for event in events} == {(TRACE, "127.0.0.1")}
    assert events[0].request_id == refused.headers["X-Request-Id"]
    assert events[0].user_agent == agent["User-Agent"]
    assert len({event.request_id for event in events}) == len(events)
    # The second factor replaces the session that waited for it.
    (waiting,), (session,) = ({event.subject for event in part} for part in (events[1:4], events[4:]))
    assert waiting != session == events[3].details["session"]
    assert FOREIGN not in {event.client_id for event in events}, "the foreign account gets no event"


def test_pending_login_needs_the_second_factor(service: Service) -> None:
    service.installation.reset_attempts(CARL)
    body = service.log_in(CARL).json()
    assert body.keys() == {"seat_id", "token"}
    pending = body["token"]
    for answer in (
        service.get(f"{AUTH}/context", token=pending),
        service.request("PUT", f"{AUTH}/context", token=pending, json={"context": NORTH}),
        service.request("DELETE", f"{AUTH}/logout", token=pending),
        service.request("POST", f"{AUTH}/second-factor", token=pending),
        service.request_file(pending, NORTH),
        service.get(f"/download/v1/files/{NORTH}", token=pending),
        service.get(f"/download/v1/audit/{NORTH}", token=pending),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_required")
    wrong = service.answer_second_factor(pending, "000000x")
    assert (wrong.status_code, wrong.json()["code"]) == (401, "invalid_code")
    found = service.answer_second_factor(pending)
    assert found.status_code == 200
    assert found.json().keys() == {"seat_id", "client_id", "device_id", "token"}
    token = found.json()["token"]
    assert service.request_file(service.switch_account(token, VAULT), VAULT).status_code == 302
    # A pending token completes one login.
    assert service.answer_second_factor(pending).status_code == 401


def test_second_factor_can_be_set_up_through_the_api(service: Service) -> None:
    token = service.token(VIC)
    begun = service.request("POST", f"{AUTH}/second-factor", token=token)
    assert begun.status_code == 200
    data = begun.json()["data"]
    assert data["otpauth_uri"].startswith("otpauth://totp/")
    assert data["qr_svg"].startswith("<svg")
    wrong = service.request("POST", f"{AUTH}/second-factor/confirm", token=token, json={"totp": "none"})
    assert (wrong.status_code, wrong.json()["code"]) == (401, "invalid_code")
    again = service.request("POST", f"{AUTH}/reauthenticate", token=token, json={"password": "wrong"})
    assert (again.status_code, again.json()["code"]) == (401, "invalid_credentials")
