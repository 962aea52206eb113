"""A dashboard login without its second factor: every page, by cookie and by bearer token."""

from datetime import UTC, datetime

from tests.acceptance.browser import SECOND_FACTOR, Browser, form_token, signed_in
from tests.acceptance.installation import CARL, NEWT, NORTH, PASSWORD, VAULT, seat_id, totp_code
from tests.acceptance.service import Service

PATHS = (
    "/dashboard/",
    *(f"/dashboard/{client_id}/{page}" for client_id in (NORTH, VAULT) for page in (
        "files", "insight", "insight/messages.csv", "activity", "activity.jsonl", "accounts", "settings/tokens",
        "settings/security",
    )),
    *(f"/dashboard/operator/{page}" for page in ("", "runs", "freshness", "people", "nodes")),
)  # fmt: skip


def test_cookie_of_a_pending_login_opens_no_page(service: Service) -> None:
    with signed_in(service, CARL, SECOND_FACTOR) as browser:
        for path in PATHS:
            answer = browser.get(path)
            assert answer.status_code in {303, 404}, (path, answer.status_code)
            if answer.status_code == 303:
                assert answer.headers["Location"].partition("?")[0].endswith(SECOND_FACTOR), path
        token = form_token(browser.get(SECOND_FACTOR))
        for path in (f"/dashboard/{VAULT}/settings/tokens", f"/dashboard/{VAULT}/settings/security/password"):
            fields = {"csrf": token, "name": "mine", "current": PASSWORD, "new": "harvest moon 88 boat"}
            answer = browser.post(path, fields)
            assert answer.status_code in {303, 404, 405}, (path, answer.status_code)
        # The password alone does not replace an enrolled factor.
        enrol = browser.get("/dashboard/enrol")
        assert enrol.status_code == 303
        assert SECOND_FACTOR in enrol.headers["Location"]
        assert browser.post("/dashboard/enrol", {"csrf": token, "code": totp_code()}).status_code != 200


def test_ended_pending_login_shows_no_seed(service: Service) -> None:
    with signed_in(service, NEWT, "/enrol") as browser:
        assert browser.get("/dashboard/enrol").status_code == 200
        now = datetime.now(UTC)
        service.installation.change(lambda stores: stores.sessions.end_all(seat_id(NEWT), now, "test"))
        for path in ("enrol", "second-factor", ""):
            answer = browser.get(f"/dashboard/{path}")
            assert answer.status_code == 303, path
            assert "/dashboard/sign-in" in answer.headers["Location"], path


def test_cookies_and_bearer_tokens_are_not_exchangeable(service: Service) -> None:
    with signed_in(service, CARL, SECOND_FACTOR) as browser:
        cookie = next(value for name, value in browser.session.cookies.items() if name.endswith("session"))
    assert service.request_file(cookie, NORTH).status_code == 401
    token = service.log_in(CARL).json()["token"]
    for value in (token, f"{token}.x"):
        with Browser(service) as other:
            answer = other.get(f"/dashboard/{NORTH}/files", Cookie=f"daybreak-session={value}")
        assert answer.status_code == 303
        assert "/dashboard/sign-in" in answer.headers["Location"]
