"""Login, second factor, contexts and logout, as the specification has them."""

import os
import signal
import statistics
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import quote

import pytest
import requests

from daybreak.credentials import passwords
from daybreak.domain.audit import AuditEvent
from daybreak.domain.identity import Seat
from daybreak.ports.state import Stores
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service
from tests.acceptance.world import (
    ACCOUNTS,
    CARL,
    CLOSED,
    FOREIGN,
    IVAN,
    MAYA,
    NEWT,
    NOBODYS,
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


def test_a_login_gives_seat_client_device_and_token(service: Service) -> None:
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


def test_a_device_that_names_itself_stays_the_same(service: Service) -> None:
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


def test_a_switch_gives_a_token_for_the_account_and_the_old_one_stays(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    found = service.request("PUT", f"{AUTH}/context", token=token, json={"context": SOUTH})
    assert found.status_code == 200
    data = found.json()["data"]
    assert (data["id"], data["seat_id"]) == (SOUTH, seat_id(MAYA))
    assert service.ask(data["token"], SOUTH).status_code == 302
    assert service.ask(data["token"], NORTH).status_code == 403
    assert service.ask(token, NORTH).status_code == 302
    assert service.log_in(MAYA).json()["client_id"] == SOUTH, "the account used last comes first"


@pytest.mark.parametrize("client_id", [FOREIGN, NOBODYS, "", "x", "../../etc"])
def test_no_switch_to_what_is_not_yours(service: Service, client_id: str) -> None:
    found = service.request("PUT", f"{AUTH}/context", token=service.token(VIC), json={"context": client_id})
    assert (found.status_code, found.json()["code"]) == (403, "not_your_account")


def test_no_switch_to_an_inactive_account(service: Service) -> None:
    found = service.request("PUT", f"{AUTH}/context", token=service.token(MAYA), json={"context": CLOSED})
    assert (found.status_code, found.json()["code"]) == (403, "account_inactive")


def test_logout_ends_every_token_of_the_login(service: Service) -> None:
    first = service.token(MAYA, NORTH)
    second = service.switched(first, SOUTH)
    found = service.request("DELETE", f"{AUTH}/logout", token=second)
    assert (found.status_code, found.content) == (204, b"")
    for token, client_id in ((first, NORTH), (second, SOUTH)):
        for answer in (
            service.request("DELETE", f"{AUTH}/logout", token=token),
            service.get(f"{AUTH}/context", token=token),
            service.ask(token, client_id),
        ):
            assert (answer.status_code, answer.json()["code"]) == (401, "session_ended")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer ")


def test_a_wrong_password_and_an_unknown_seat_look_the_same(service: Service) -> None:
    hashed = passwords.hash_password(PASSWORD)

    def add(stores: Stores) -> None:
        disabled, without = "disabled@example.org", "without@example.org"
        stores.directory.put_seats(Seat(seat_id(disabled), disabled, hashed, disabled=True))
        stores.directory.put_seats(Seat(seat_id(without), without))

    service.world.change(add)
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


def test_an_unknown_seat_takes_as_long_as_a_wrong_password(service: Service) -> None:
    """Asked in turns on one connection, so that whatever else the machine does falls on both; and on until the
    machine's own unrest is small enough to say so.
    """
    with requests.Session() as caller:

        def seconds(email: str) -> float:
            body = {"email": email, "password": "not the password"}
            began = time.perf_counter()
            found = caller.post(f"{service.address}{AUTH}/login", json=body, timeout=PATIENCE_SECONDS)
            taken = time.perf_counter() - began
            assert found.status_code == 401
            return taken

        known: list[float] = []
        later: list[float] = []
        apart = 1.0
        while apart > 0.05 and len(known) < 300:
            for number in range(20):
                order = (MAYA, "nobody@example.org") if number % 2 else ("nobody@example.org", MAYA)
                taken = {email: seconds(email) for email in order}
                known.append(taken[MAYA])
                later.append(taken["nobody@example.org"] - taken[MAYA])
            apart = abs(statistics.median(later)) / statistics.median(known)
    assert apart <= 0.05, f"an unknown seat is told {statistics.median(later) * 1000:.1f} ms later"


def test_a_flood_of_logins_is_told_to_come_back_and_downloads_go_on(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    with ThreadPoolExecutor(120) as crowd:
        flood = [crowd.submit(service.log_in, f"flood{number}@example.org") for number in range(120)]
        downloads = [service.ask(token, NORTH).status_code for _ in range(20)]
        answers = [login.result() for login in flood]
    assert set(downloads) == {302}
    assert {answer.status_code for answer in answers} == {401, 503}
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert busy.json()["code"] == "busy"
    assert int(busy.headers["Retry-After"]) >= 1
    assert service.log_in(MAYA).status_code == 200, "and it is over when the flood is"


def test_all_workers_share_two_places_for_hashing(service: Service) -> None:
    """While the two are stopped no worker hashes anything: more at once would take the processor from downloads."""
    token = service.token(MAYA, NORTH)
    places = service.processes("hashing")
    assert len(places) == 2
    with ThreadPoolExecutor(8) as crowd, ExitStack() as held:
        for place in places:
            os.killpg(place, signal.SIGSTOP)
            held.callback(os.killpg, place, signal.SIGCONT)
        logins = [crowd.submit(service.log_in, MAYA) for _ in range(8)]
        # Far more than these logins would take.
        served = [service.get(service.link(token, NORTH)).status_code for _ in range(60)]
        early = [login for login in logins if login.done() and login.result().status_code != 503]
        held.close()
        statuses = {login.result().status_code for login in logins}
    assert set(served) == {200}
    assert early == []
    # On a machine that is slow beyond measure they gave up waiting.
    assert statuses <= {200, 503}


def test_what_looks_like_a_statement_is_a_text(each_service: Service) -> None:
    service = each_service
    token = service.token(MAYA, NORTH)
    for text in ("' OR '1'='1", "x'; DROP TABLE seats; --", "%", "\\", "maya@example.org' --"):
        assert service.log_in(text, password=text).status_code == 401
        switched = service.request("PUT", f"{AUTH}/context", token=token, json={"context": text})
        assert (switched.status_code, switched.json()["code"]) == (403, "not_your_account")
        assert service.ask(token, quote(text, safe="")).status_code in {403, 404}
        listed = service.get(f"/download/v1/audit/{NORTH}", token=token, params={"action": text})
        assert (listed.status_code, listed.text) == (200, "")
    assert service.ask(token, NORTH).status_code == 302


def test_every_step_of_a_login_is_on_the_trail(each_service: Service) -> None:
    service = each_service
    service.world.begin_again(TRACE)
    before = len(_trail_of(service, TRACE))
    agent = {"User-Agent": "trail-reader/1.0 \N{SNOWMAN}".encode().decode("latin-1")}
    refused = service.log_in(TRACE, password="wrong", headers=agent)
    waiting = service.log_in(TRACE, headers=agent).json()["token"]
    service.answer_second_factor(waiting, "000000")
    token = service.answer_second_factor(waiting, totp_code(ahead=1)).json()["token"]
    for client_id in (SOUTH, FOREIGN):
        service.request("PUT", f"{AUTH}/context", token=token, json={"context": client_id})
    service.request("DELETE", f"{AUTH}/logout", token=token)
    events = _trail_of(service, TRACE)[before:]
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
    assert len({event.subject for event in events[1:]}) == 1, "one session"
    assert FOREIGN not in {event.client_id for event in events}, "it is no business of theirs"


def _trail_of(service: Service, email: str) -> list[AuditEvent]:
    state = service.world.state()
    try:
        return state.read(lambda stores: stores.audit.read(seat_id=seat_id(email)))
    finally:
        state.close()


def test_no_active_account(service: Service) -> None:
    found = service.log_in(IVAN)
    assert (found.status_code, found.json()["code"]) == (403, "no_active_account")
    assert service.log_in(IVAN, password="wrong").json()["code"] == "invalid_credentials"


def test_the_second_factor_opens_what_the_password_alone_does_not(service: Service) -> None:
    service.world.begin_again(CARL)
    body = service.log_in(CARL).json()
    assert body.keys() == {"seat_id", "token"}
    waiting = body["token"]
    for answer in (
        service.get(f"{AUTH}/context", token=waiting),
        service.request("PUT", f"{AUTH}/context", token=waiting, json={"context": NORTH}),
        service.request("DELETE", f"{AUTH}/logout", token=waiting),
        service.request("POST", f"{AUTH}/second-factor", token=waiting),
        service.ask(waiting, NORTH),
        service.get(f"/download/v1/files/{NORTH}", token=waiting),
        service.get(f"/download/v1/audit/{NORTH}", token=waiting),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "second_factor_required")
    wrong = service.answer_second_factor(waiting, "000000x")
    assert (wrong.status_code, wrong.json()["code"]) == (401, "invalid_code")
    found = service.answer_second_factor(waiting)
    assert found.status_code == 200
    assert found.json().keys() == {"seat_id", "client_id", "device_id", "token"}
    token = found.json()["token"]
    assert service.ask(service.switched(token, VAULT), VAULT).status_code == 302
    # The waiting token is good for one success.
    assert service.answer_second_factor(waiting).status_code == 401


def test_a_factor_that_is_owed_and_not_enrolled_says_where(service: Service) -> None:
    waiting = service.log_in(NEWT).json()["token"]
    found = service.answer_second_factor(waiting, "123456")
    assert (found.status_code, found.json()["code"]) == (403, "second_factor_not_enrolled")
    assert "/dashboard" in found.json()["detail"]


def test_a_session_token_is_no_waiting_token(service: Service) -> None:
    found = service.answer_second_factor(service.token(VIC), "123456")
    assert (found.status_code, found.json()["code"]) == (401, "invalid_token")


def test_enrolment_over_the_api(service: Service) -> None:
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
