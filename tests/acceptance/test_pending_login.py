"""A dashboard login without its second factor: every page, by cookie and by bearer token."""

import re
from datetime import UTC, datetime

import requests

from tests.acceptance.installation import CARL, NEWT, NORTH, PASSWORD, VAULT, seat_id, totp_code
from tests.acceptance.service import PATIENCE_SECONDS, Service

_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def form_token(page: requests.Response) -> str:
    found = _CSRF.search(page.text)
    assert found is not None, page.text[:500]
    return found[1]


def browser_with_pending_login(
    service: Service, email: str = CARL, next_page: str = "second-factor"
) -> requests.Session:
    """Return a browser whose login waits for its second factor."""
    browser = requests.Session()
    page = browser.get(f"{service.address}/dashboard/sign-in", timeout=PATIENCE_SECONDS)
    answer = browser.post(
        f"{service.address}/dashboard/sign-in",
        data={"csrf": form_token(page), "email": email, "password": PASSWORD, "next": ""},
        allow_redirects=False,
        timeout=PATIENCE_SECONDS,
    )
    assert answer.status_code == 303, answer.text[:500]
    assert answer.headers["Location"].partition("?")[0].endswith(f"/dashboard/{next_page}")
    return browser


def paths_of(service: Service) -> list[str]:
    """Return the pages of accounts and of operators."""
    account = (
        "files", "insight", "insight/messages.csv", "activity", "activity.jsonl", "accounts", "settings/tokens",
        "settings/security",
    )  # fmt: skip
    operator = ("", "runs", "freshness", "people", "nodes")
    return [
        "/dashboard/",
        *(f"/dashboard/{client_id}/{page}" for client_id in (NORTH, VAULT) for page in account),
        *(f"/dashboard/operator/{page}" for page in operator),
    ]


def test_cookie_of_a_pending_login_opens_no_page(service: Service) -> None:
    browser = browser_with_pending_login(service)
    with browser:
        for path in paths_of(service):
            answer = browser.get(f"{service.address}{path}", allow_redirects=False, timeout=PATIENCE_SECONDS)
            assert answer.status_code in {303, 404}, (path, answer.status_code)
            if answer.status_code == 303:
                assert answer.headers["Location"].partition("?")[0].endswith("/dashboard/second-factor"), path
        code_page = browser.get(f"{service.address}/dashboard/second-factor", timeout=PATIENCE_SECONDS)
        token = form_token(code_page)
        for path in (f"/dashboard/{VAULT}/settings/tokens", f"/dashboard/{VAULT}/settings/security/password"):
            answer = browser.post(
                f"{service.address}{path}",
                data={"csrf": token, "name": "mine", "current": PASSWORD, "new": "harvest moon 88 boat"},
                allow_redirects=False,
                timeout=PATIENCE_SECONDS,
            )
            assert answer.status_code in {303, 404, 405}, (path, answer.status_code)
        # The password alone does not replace an enrolled factor.
        enrol = browser.get(f"{service.address}/dashboard/enrol", allow_redirects=False, timeout=PATIENCE_SECONDS)
        assert enrol.status_code == 303
        assert "/dashboard/second-factor" in enrol.headers["Location"]
        refused = browser.post(
            f"{service.address}/dashboard/enrol",
            data={"csrf": token, "code": totp_code()},
            allow_redirects=False,
            timeout=PATIENCE_SECONDS,
        )
        assert refused.status_code != 200


def test_ended_pending_login_shows_no_seed(service: Service) -> None:
    with browser_with_pending_login(service, NEWT, "enrol") as browser:
        page = f"{service.address}/dashboard/enrol"
        assert browser.get(page, allow_redirects=False, timeout=PATIENCE_SECONDS).status_code == 200
        now = datetime.now(UTC)
        service.installation.change(lambda stores: stores.sessions.end_all(seat_id(NEWT), now, "test"))
        for path in ("enrol", "second-factor", ""):
            answer = browser.get(f"{service.address}/dashboard/{path}", allow_redirects=False, timeout=PATIENCE_SECONDS)
            assert answer.status_code == 303, path
            assert "/dashboard/sign-in" in answer.headers["Location"], path


def test_cookies_and_bearer_tokens_are_not_exchangeable(service: Service) -> None:
    with browser_with_pending_login(service) as browser:
        cookie = next(value for name, value in browser.cookies.items() if name.endswith("session"))
    assert service.request_file(cookie, NORTH).status_code == 401
    token = service.log_in(CARL).json()["token"]
    for value in (token, f"{token}.x"):
        with requests.Session() as other:
            other.cookies.set("daybreak-session", value)
            answer = other.get(
                f"{service.address}/dashboard/{NORTH}/files", allow_redirects=False, timeout=PATIENCE_SECONDS
            )
        assert answer.status_code == 303
        assert "/dashboard/sign-in" in answer.headers["Location"]
