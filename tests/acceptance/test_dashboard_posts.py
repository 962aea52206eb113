"""Input from browsers: forms of every POST route, cookies, and the target of a redirect.

Tests of the pages are in `dashboard/`.
"""

import base64
import html
import json
import os
import re
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock
from urllib.parse import urlencode, urlsplit

import pytest
import requests

from daybreak.access import throttle
from daybreak.credentials import keyring, passwords, signed_text, totp
from daybreak.domain.identity import Grant, Seat, Session
from daybreak.state.stores import Stores
from daybreak.web.dashboard.context import create_dashboard_context
from daybreak.web.dashboard.routes import dashboard_routes
from tests.acceptance.browser import SECOND_FACTOR, SIGN_IN, Browser, form_token
from tests.acceptance.installation import NORTH, PASSWORD, SEED, seat_id
from tests.acceptance.service import PATIENCE_SECONDS, Service

OLGA = "olga@example.org"  # an operator
OTTO = "otto@example.org"  # has a second factor
OSKAR = "oskar@example.org"  # has a second factor; one test changes the password
CODES = [f"{number:04d}-aaaa-bbbb-cccc" for number in range(2, 6)]
# Their own tests cover these: a link in a mail is the permission, or the form has a separate cookie.
WITHOUT_SESSION = ("/dashboard/unsubscribe", "/dashboard/forgot-password", "/dashboard/reset-password")
FORMS = "application/x-www-form-urlencoded"


def post_paths() -> list[str]:
    """Return the paths of POST routes for signed-in users, for North. Other parts of them are unknown ids."""
    routes = dashboard_routes(create_dashboard_context(Mock(), Mock(), Mock()))
    found = [
        re.sub(r"\{(\w+)\}", lambda part: NORTH if part[1] == "client_id" else str(uuid.uuid4()), route.path)
        for route in routes
        if "POST" in (route.methods or ()) and not route.path.startswith(WITHOUT_SESSION)
    ]
    assert len(found) > 10
    return found


def add_seats(service: Service) -> None:
    """Add three seats for these tests."""
    ring = keyring.load(service.installation.keyring_file)
    hashed = passwords.hash_password(PASSWORD)
    now = datetime.now(UTC)

    def add(stores: Stores) -> None:
        for email in (OLGA, OTTO, OSKAR):
            stores.directory.put_seats(Seat(seat_id(email), email, hashed, operator=email == OLGA))
            stores.directory.put_grants(Grant(seat_id(email), NORTH, ("owner",), data_export=True, async_rest_api=True))
        for seat in map(seat_id, (OTTO, OSKAR)):
            encrypted = totp.encrypt_seed(SEED, seat_id=seat, keyring=ring, random=os.urandom)
            stores.seats.begin_second_factor(seat, encrypted, now)
            stores.seats.confirm_second_factor(seat, 1, [totp.recovery_digest(c, seat_id=seat) for c in CODES], now)

    service.installation.change(add)


@pytest.fixture(scope="module")
def service_with_seats(service: Service) -> Service:
    """Return the shared service with the seats of these tests."""
    add_seats(service)
    return service


@pytest.fixture
def browser(service_with_seats: Service) -> Iterator[Browser]:
    """Return a browser that is not signed in."""
    with Browser(service_with_seats) as found:
        yield found


@pytest.fixture
def other_browser(service_with_seats: Service) -> Iterator[Browser]:
    """Return a second browser that is not signed in."""
    with Browser(service_with_seats) as found:
        yield found


def test_every_form_requires_a_valid_csrf_token(
    browser: Browser, other_browser: Browser, service_with_seats: Service
) -> None:
    other_browser.sign_in(OLGA)
    foreign = form_token(other_browser.get(f"/dashboard/{NORTH}/settings/security"))
    visitors = {}
    for email, form_path, paths in (
        (None, SIGN_IN, [SIGN_IN]),
        (
            OTTO,
            SECOND_FACTOR,
            [SECOND_FACTOR, f"{SECOND_FACTOR}/passkey", f"{SECOND_FACTOR}/passkey/options", "/dashboard/enrol"],
        ),
    ):
        visitor = Browser(service_with_seats)
        if email is not None:
            assert visitor.sign_in(email).status_code == 303
        token = form_token(visitor.get(form_path))
        visitors.update(dict.fromkeys(paths, (visitor, token)))
    assert browser.sign_in(OLGA).status_code == 303
    service_with_seats.installation.add_second_factor_to_sessions(OLGA)
    token = form_token(browser.get(f"/dashboard/{NORTH}/settings/security"))
    accepted = []
    for path in post_paths():
        visitor, valid = visitors.get(path, (browser, token))
        for csrf, headers in (
            ("", {}),
            (foreign, {}),
            (valid[:-1] + ("0" if valid[-1] != "0" else "1"), {}),
            (valid, {"Origin": "https://evil.example"}),
            (valid, {"Origin": "null"}),
            (valid, {"Origin": f"https://{urlsplit(service_with_seats.address).netloc}"}),
            (valid, {"Sec-Fetch-Site": "cross-site"}),
            (valid, {"Sec-Fetch-Site": "same-site"}),
            (valid, {"Sec-Fetch-Site": "cross-site", "Origin": service_with_seats.address}),
        ):
            fields = {"csrf": csrf, "email": OLGA, "password": PASSWORD, "name": "forged", "current": PASSWORD}
            found = visitor.post(path, fields, headers)
            if found.status_code != 403 or "Form rejected" not in found.text:
                accepted.append((path, csrf[:8], headers, found.status_code))
    assert accepted == []
    assert browser.get(f"/dashboard/{NORTH}/settings/security").status_code == 200, "the session has not ended"
    assert "forged" not in browser.get(f"/dashboard/{NORTH}/settings/tokens").text
    for headers in (
        {"Sec-Fetch-Site": "same-origin", "Origin": service_with_seats.address},
        {"Origin": service_with_seats.address},
    ):
        token = form_token(browser.get(f"/dashboard/{NORTH}/settings/security"))
        found = browser.post("/dashboard/sign-out", {"csrf": token}, headers)
        assert found.headers["Location"] == "/dashboard/sign-in?ended=out"
        browser.sign_in(OLGA)
    for visitor, _ in visitors.values():
        visitor.session.close()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (urlencode([("a", ""), *((f"a{number}", "") for number in range(50))]).encode(), {}, 400),
        (b"email=a&email=b", {}, 400),
        (b"email=a%00b", {}, 400),
        (b"email=%ff", {}, 400),
        (b"email=\xff", {}, 400),
        (b"email=" + b"a" * 17_000, {}, 413),
        (b"email=a", {"Content-Encoding": "gzip"}, 415),
        (b"email=a", {"Content-Type": "text/plain"}, 415),
        (b'{"email": "a"}', {"Content-Type": "application/json"}, 415),
        (b"email=a", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
        # Valid form without a token.
        (b"email=a", {}, 403),
    ],
)
def test_malformed_forms_are_refused(browser: Browser, body: bytes, headers: dict[str, str], status: int) -> None:
    browser.get(SIGN_IN)
    found = browser.post(SIGN_IN, body, {"Content-Type": FORMS, **headers})
    assert found.status_code == status
    assert found.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example/",
        "\\\\evil.example/",
        "javascript:alert(1)",
        "evil.example",
        ".evil.example/",
        "@evil.example/",
        "/dashboardevil",
        "/healthz",
        "/dashboard/../healthz",
        "/dashboard/./../healthz",
        "/dashboard/\t/evil.example",
        "/dashboard/\r\nSet-Cookie: a=b",
        " /dashboard/",
        "/dashboard//evil.example",
        "/dashboard/\\evil.example",
        "/dashboard/sign-out",
        "/dashboard/" + "a" * 7500,
    ],
)
def test_next_ignores_foreign_targets(browser: Browser, other_browser: Browser, target: str) -> None:
    query = urlencode({"next": target})
    files = f"/dashboard/{NORTH}/files"
    assert 'name="next" value=""' in browser.get(f"{SIGN_IN}?{query}").text
    found = browser.sign_in(OLGA, target)
    assert (found.status_code, found.headers["Location"]) == (303, files)
    # A signed-in user is redirected immediately.
    assert browser.get(f"{SIGN_IN}?{query}").headers["Location"] == "/dashboard/"
    # The same with a second factor.
    assert other_browser.sign_in(OTTO, target).headers["Location"] == SECOND_FACTOR
    assert 'name="next" value=""' in other_browser.get(f"{SECOND_FACTOR}?{query}").text
    enrol = other_browser.get(f"/dashboard/enrol?{query}")
    assert enrol.headers["Location"] == f"{SECOND_FACTOR}?next="


def test_next_redirects_to_a_dashboard_page(browser: Browser) -> None:
    wanted = f"/dashboard/{NORTH}/activity?action=login"
    found = browser.sign_in(OLGA, wanted)
    assert found.headers["Location"] == wanted
    cookies = "; ".join(f"{name}={value}" for name, value in browser.session.cookies.items())
    forged = browser.get(f"{SIGN_IN}?{urlencode({'next': wanted})}", Host="evil.example", Cookie=cookies)
    assert forged.headers["Location"] == wanted, "a path without the host of the request"


@pytest.mark.parametrize("text", ["字" * 1000, "😀%&+ " * 400, "x" * 12_000])
def test_long_fields_survive_sign_in(browser: Browser, service_with_seats: Service, text: str) -> None:
    """A URL of more than 8 KiB is refused, and each redirect encodes the path of the page again."""
    browser.sign_in(OLGA)
    page = f"/dashboard/{NORTH}/settings/tokens/new"
    fields = {"csrf": form_token(browser.get(page)), "name": "Nightly", "networks": text}
    service_with_seats.installation.change(
        lambda stores: stores.sessions.end_all(seat_id(OLGA), datetime.now(UTC), "test")
    )
    signed_in = browser.sign_in(OLGA, next_of(browser, browser.post(page, fields).headers["Location"]))
    assert signed_in.headers["Location"].startswith(f"{page}?")
    form = browser.get(signed_in.headers["Location"])
    assert html.escape(text[:300]) in form.text
    assert "…" in form.text
    with Browser(service_with_seats) as anonymous:
        assert next_of(anonymous, anonymous.get(f"{page}?{urlencode({'name': 'ж' * 1200})}").headers["Location"]) == ""


def test_form_that_is_not_processed_keeps_its_text(browser: Browser, service_with_seats: Service) -> None:
    page = f"/dashboard/{NORTH}/settings/tokens/new"
    (rule,) = throttle.change_rules(seat_id=seat_id(OLGA), accounts=1)

    def send(token: str, status: int) -> str:
        """Send a form that is refused, follow the link to the form, and return its new token."""
        found = browser.post(page, {"csrf": token, "name": "Nightly", "networks": "203.0.113.0/24"})
        assert found.status_code == status
        link = re.search('href="([^"]*)">Return to the form', found.text)
        assert link is not None
        form = browser.get(html.unescape(link[1]))
        assert 'value="Nightly"' in form.text
        assert "203.0.113.0/24</textarea>" in form.text
        return form_token(form)

    browser.sign_in(OLGA)
    token = form_token(browser.get(page))
    assert browser.post("/dashboard/sign-out", {"csrf": token}).status_code == 303
    # Another tab of the browser.
    browser.sign_in(OLGA)
    token = send(token, 403)
    now = datetime.now(UTC)
    service_with_seats.installation.change(lambda stores: stores.throttle.count([rule], now, attempts=rule.limit))
    send(token, 429)
    service_with_seats.installation.change(lambda stores: stores.throttle.clear(rule.key))


def next_of(browser: Browser, location: str) -> str:
    """Follow a redirect to the sign-in page, and return the page that it continues to."""
    found = browser.get(location)
    assert found.status_code == 200, found.text
    next_path = re.search('name="next" value="([^"]*)"', found.text)
    assert next_path is not None
    return html.unescape(next_path[1])


def test_cookies_are_http_only_and_same_site(browser: Browser) -> None:
    page = browser.get(SIGN_IN)
    signed_in = browser.sign_in(OLGA)
    cookies = [*cookie_lines(page), *cookie_lines(signed_in)]
    assert {line.partition("=")[0] for line in cookies} == {"daybreak-form", "daybreak-session", "daybreak-device"}
    for line in cookies:
        words = {word.strip().lower() for word in line.split(";")[1:]}
        assert {"httponly", "path=/", "samesite=lax"} <= words, line
        # This service uses plain HTTP on the loopback interface.
        assert not {word for word in words if word.startswith(("domain", "secure"))}, line


def cookie_lines(found: requests.Response) -> list[str]:
    """Return the Set-Cookie headers of a response."""
    return list(found.raw.headers.getlist("set-cookie"))


def test_forged_and_duplicate_cookies_are_refused(browser: Browser, other_browser: Browser) -> None:
    browser.sign_in(OLGA)
    files = f"/dashboard/{NORTH}/files"
    assert browser.get(files).status_code == 200
    cookies = dict(browser.session.cookies.items())
    valid = cookies["daybreak-session"]
    kid, payload, mac = valid.split(".")
    device = cookies["daybreak-device"].split(".")
    for value in (
        f"{kid}.{payload}.{'0' * 64}",
        f"{kid}.{payload}.{mac[:-1]}{'0' if mac[-1] != '0' else '1'}",
        f"deadbeef.{payload}.{mac}",
        f"{kid}.{uuid.uuid4()}.{mac}",
        # Signed by the service for another cookie.
        f"{device[0]}.{device[1]}.{device[2]}",
        f"{kid}.{payload}.{device[2]}",
        payload,
        "",
    ):
        found = other_browser.get(files, Cookie=f"daybreak-session={value}")
        assert found.status_code == 303, value
        assert urlsplit(found.headers["Location"]).path == SIGN_IN
    # Two cookies of the same name are refused.
    for both in (f"daybreak-session={valid}; daybreak-session=x", f"daybreak-session=x; daybreak-session={valid}"):
        assert other_browser.get(files, Cookie=both).status_code == 303
    assert other_browser.get(files, Cookie=f"daybreak-session={valid}").status_code == 200


def test_api_session_is_not_a_dashboard_session(browser: Browser, service_with_seats: Service) -> None:
    """The cookie is signed as if the dashboard had written it."""
    claims = service_with_seats.token(OLGA).split(".")[1]
    sid = json.loads(base64.urlsafe_b64decode(claims + "=="))["sid"]
    ring = keyring.load(service_with_seats.installation.keyring_file)
    value = signed_text.sign(sid, "session", purpose="dashboard-cookie", keyring=ring)
    for path in (f"/dashboard/{NORTH}/files", "/dashboard/"):
        found = browser.get(path, Cookie=f"daybreak-session={value}")
        assert urlsplit(found.headers["Location"]).path == SIGN_IN, path


def test_refused_confirmation_at_the_provider_returns_to_a_page(browser: Browser, service_with_seats: Service) -> None:
    browser.sign_in(OLGA)
    service_with_seats.installation.add_second_factor_to_sessions(OLGA)
    for folder in (NORTH, "operator"):
        found = browser.get(f"/dashboard/{folder}/confirm/oidc", **{"Sec-Fetch-Site": "cross-site"})
        assert browser.get(found.headers["Location"]).status_code == 200, folder


def test_changing_secrets_requires_the_password(browser: Browser, service_with_seats: Service) -> None:
    browser.sign_in(OLGA)
    settings = f"/dashboard/{NORTH}/settings"
    page = browser.get(f"{settings}/security")
    token = form_token(page)
    factor = f"{settings}/security/second-factor"
    assert browser.post(factor, {"csrf": token}).headers["Location"] == factor
    assert browser.get(factor).status_code == 200
    service_with_seats.installation.change(_age_authentication)
    responses = [
        browser.get(factor),
        browser.get(f"{settings}/tokens/new"),
        browser.post(factor, {"csrf": token}),
        browser.post(f"{factor}/confirm", {"csrf": token, "code": "000000"}),
        browser.post(f"{settings}/security/recovery-codes", {"csrf": token}),
        browser.post(f"{settings}/tokens/new", {"csrf": token, "name": "unseen", "expiry": "30"}),
    ]
    for found in responses:
        assert found.status_code == 303, found.url
        assert found.headers["Location"].startswith(f"/dashboard/{NORTH}/confirm?"), found.url
    assert "unseen" not in browser.get(f"{settings}/tokens").text


def test_ending_sessions_requires_the_password(browser: Browser, service_with_seats: Service) -> None:
    browser.sign_in(OLGA)
    with Browser(service_with_seats) as other:
        other.sign_in(OLGA)
        service_with_seats.installation.change(_age_authentication)
        security = f"/dashboard/{NORTH}/settings/security"
        page = browser.get(security)
        token, reference = form_token(page), re.search(r"/sessions/([0-9a-f]{32})/end", page.text)
        assert reference is not None
        for path in (f"{security}/sessions/{reference[1]}/end", f"{security}/sign-out-everywhere"):
            found = browser.post(path, {"csrf": token})
            assert found.headers["Location"].startswith(f"/dashboard/{NORTH}/confirm?"), path
        assert other.get(security).status_code == 200


def test_sessions_are_listed_in_pages(browser: Browser, service_with_seats: Service) -> None:
    now = datetime.now(UTC)

    def add_sessions(stores: Stores) -> None:
        stores.sessions.end_all(seat_id(OLGA), now, "test")
        for _ in range(25):
            stores.sessions.start(Session(str(uuid.uuid4()), seat_id(OLGA), now, now + timedelta(hours=1), ("pwd",)))

    service_with_seats.installation.change(add_sessions)
    browser.sign_in(OLGA)
    page = f"/dashboard/{NORTH}/settings/security"
    first, second = browser.get(page).text, browser.get(f"{page}?page=2").text
    assert (first.count(">End</button>"), second.count(">End</button>")) == (19, 6)
    assert "this session" in first
    assert "and 6 more" in browser.get(f"{page}/sign-out-everywhere").text


def test_sign_out_clears_what_the_browser_has_stored(browser: Browser) -> None:
    security = f"/dashboard/{NORTH}/settings/security"
    for path in ("/dashboard/sign-out", f"{security}/sign-out-everywhere"):
        signed_in = browser.sign_in(OLGA)
        page = browser.get(security)
        assert "Clear-Site-Data" not in {*signed_in.headers, *page.headers}
        found = browser.post(path, {"csrf": form_token(page)})
        assert found.status_code == 303, path
        assert found.headers["Clear-Site-Data"] == '"cache", "storage"', path
        assert found.headers["Cache-Control"] == "no-store", path
        assert browser.get(security).headers["Location"].startswith("/dashboard/sign-in"), path


def test_operators_enter_the_password_before_every_change(browser: Browser, service_with_seats: Service) -> None:
    browser.sign_in(OLGA)
    service_with_seats.installation.add_second_factor_to_sessions(OLGA)
    service_with_seats.installation.change(_age_authentication)
    (run,) = service_with_seats.installation.read(lambda stores: stores.snapshots.recent(1))
    known = {"accounts": NORTH, "seats": seat_id(OTTO), "runs": run.snapshot_id}
    paths = [
        path.replace("/dashboard/operator/", "")
        for path in post_paths()
        if path.startswith("/dashboard/operator/") and not path.endswith("/confirm")
    ]
    assert len(paths) > 8
    for path in [re.sub(r"^(\w+)/[0-9a-f-]{36}", lambda part: f"{part[1]}/{known[part[1]]}", each) for each in paths]:
        token = form_token(browser.get(f"/dashboard/{NORTH}/settings/security"))
        found = browser.post(f"/dashboard/operator/{path}", {"csrf": token, "reason": "x"})
        assert found.headers.get("Location", "").startswith("/dashboard/operator/confirm?"), path


def test_reduction_of_access_adds_no_permission(browser: Browser, service_with_seats: Service) -> None:
    """The page may have been opened before another operator changed them, or through a link."""
    browser.sign_in(OLGA)
    installation, guest = service_with_seats.installation, Seat(seat_id("guest@example.org"), "guest@example.org")
    installation.add_second_factor_to_sessions(OLGA)
    account = f"/dashboard/operator/accounts/{NORTH}"
    path = f"{account}/grants/{guest.seat_id}/reduce?role=owner&data_export=yes"
    token = form_token(browser.get(account))
    for present in (None, Grant(guest.seat_id, NORTH, ("analyst",), data_export=True)):

        def prepare(stores: Stores, present: Grant | None = present) -> None:
            stores.directory.put_seats(guest)
            if present is not None:
                stores.directory.put_grants(present)

        installation.change(prepare)
        for found in (
            browser.get(path),
            browser.post(path, {"csrf": token, "role": "owner", "data_export": "yes"}),
        ):
            assert found.headers["Location"].startswith(f"{account}?")
        granted = installation.read(lambda stores: stores.seats.granted_accounts(guest.seat_id))
        assert [each.grant for each in granted] == [each for each in (present,) if each is not None]


@pytest.mark.parametrize("action", ["disable", "reset-second-factor", "remove"])
def test_operator_is_not_locked_out_of_the_own_seat(browser: Browser, service_with_seats: Service, action: str) -> None:
    browser.sign_in(OLGA)
    service_with_seats.installation.add_second_factor_to_sessions(OLGA)
    own = f"/dashboard/operator/seats/{seat_id(OLGA)}"
    token = form_token(browser.get(f"/dashboard/{NORTH}/settings/security"))
    grant = f"/dashboard/operator/accounts/{NORTH}/grants/{seat_id(OLGA)}/remove"
    found = browser.post(grant if action == "remove" else f"{own}/{action}", {"csrf": token})
    assert found.status_code == 409
    assert "own" in found.text
    assert browser.get(own).status_code == 200


def _age_authentication(stores: Stores) -> None:
    for session, _ in stores.sessions.list_open(seat_id(OLGA), datetime.now(UTC)):
        stores.sessions.mark_reauthenticated(session.sid, datetime.now(UTC) - timedelta(hours=1))


def test_session_id_changes_at_every_step(each_service: Service) -> None:
    add_seats(each_service)
    browser = Browser(each_service)
    security = f"/dashboard/{NORTH}/settings/security"

    def is_signed_in(cookies: dict[str, str]) -> bool:
        with Browser(each_service) as visitor:
            visitor.session.cookies.update(cookies)
            return visitor.get(security).status_code == 200

    def send(path: str, form_path: str, **fields: str) -> dict[str, str]:
        token = form_token(browser.get(form_path))
        answer = browser.post(path, {"csrf": token, **fields})
        assert answer.status_code == 303, answer.text
        assert "sign-in" not in answer.headers["Location"]
        return session_cookie_of(browser)

    browser.sign_in(OSKAR)
    held = [session_cookie_of(browser)]
    code = totp.code_at(SEED, int(time.time()) // totp.STEP_SECONDS)
    held.append(send(SECOND_FACTOR, SECOND_FACTOR, code=code, next=""))
    assert is_signed_in(held[-1])
    link = browser.get(f"/dashboard/{NORTH}/files/members/csv").headers["Location"]
    assert requests.head(link, timeout=PATIENCE_SECONDS).status_code == 200
    prompt = f"/dashboard/{NORTH}/confirm"
    held.append(send(prompt, prompt, password=PASSWORD, next=security))
    assert requests.head(link, timeout=PATIENCE_SECONDS).status_code == 403, "links end with the old session id"
    held.append(
        send(
            f"{security}/password",
            security,
            current=PASSWORD,
            new="harvest moon 88 boat",
            repeated="harvest moon 88 boat",
        )
    )
    assert len({next(iter(cookies.values())) for cookies in held}) == 4
    assert [is_signed_in(cookies) for cookies in held] == [False, False, False, True]
    browser.session.close()


def test_new_sign_in_ends_the_session_of_the_browser(
    browser: Browser, other_browser: Browser, service_with_seats: Service
) -> None:
    for visitor in (browser, other_browser):
        visitor.sign_in(OLGA)
    held = session_cookie_of(browser)
    # The page shows its form to a browser with a session only after that session ended in another tab.
    token = form_token(browser.get(f"{SIGN_IN}?ended=yes"))
    answer = browser.post(SIGN_IN, {"csrf": token, "email": OTTO, "password": PASSWORD, "next": ""})
    assert answer.headers["Location"] == SECOND_FACTOR
    with Browser(service_with_seats) as visitor:
        visitor.session.cookies.update(held)
        assert "sign-in" in visitor.get(f"/dashboard/{NORTH}/files").headers["Location"]
    assert other_browser.get(f"/dashboard/{NORTH}/files").status_code == 200


def session_cookie_of(browser: Browser) -> dict[str, str]:
    """Return the session cookie of a browser."""
    return {name: value for name, value in browser.session.cookies.items() if name.endswith("session")}
