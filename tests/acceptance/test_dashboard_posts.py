"""What the dashboard takes from a browser: forms, cookies and the address to go on to. Every route that takes a post is
tried; its pages are under `dashboard/`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock
from urllib.parse import urlencode, urlsplit

import pytest
import requests

from daybreak.credentials import keyring, passwords, totp
from daybreak.domain.identity import Grant, Seat
from daybreak.ports.state import Stores
from daybreak.web.dashboard import session_cookie
from daybreak.web.dashboard.desk import open_desk
from daybreak.web.dashboard.routes import dashboard_routes
from tests.acceptance.service import PATIENCE_SECONDS, Service
from tests.acceptance.test_waiting_login import form_token
from tests.acceptance.world import NORTH, PASSWORD, SEED, seat_id

OLGA = "olga@example.org"  # an operator
OTTO = "otto@example.org"  # has a second factor
CODES = [f"{number:04d}-aaaa-bbbb-cccc" for number in range(2, 6)]
SIGN_IN = "/dashboard/sign-in"
SECOND_FACTOR = "/dashboard/second-factor"
FORMS = "application/x-www-form-urlencoded"


def post_paths() -> list[str]:
    """Every path that takes a post, on North."""
    named = {"client_id": NORTH, **dict.fromkeys(("token_id", "snapshot_id", "reference"), str(uuid.uuid4()))}
    routes = dashboard_routes(open_desk(Mock()))
    found = [route.path.format(**named) for route in routes if "POST" in route.handlers]
    assert len(found) > 10
    return found


def add_people(service: Service) -> None:
    """Two seats of these tests' own."""
    ring = keyring.load(service.world.keyring_file)
    sealed = totp.seal(SEED, seat_id=seat_id(OTTO), keyring=ring, random=os.urandom)
    hashed = passwords.hash_password(PASSWORD)
    now = datetime.now(UTC)

    def add(stores: Stores) -> None:
        for email in (OLGA, OTTO):
            stores.directory.put_seats(Seat(seat_id(email), email, hashed, operator=email == OLGA))
            stores.directory.put_grants(Grant(seat_id(email), NORTH, ("owner",), data_export=True, async_rest_api=True))
        stores.seats.begin_second_factor(seat_id(OTTO), sealed, now)
        stores.seats.confirm_second_factor(
            seat_id(OTTO), 1, [totp.recovery_digest(c, seat_id=seat_id(OTTO)) for c in CODES], now
        )

    service.world.change(add)


@pytest.fixture(scope="module")
def peopled(service: Service) -> Service:
    """The shared service with these tests' people."""
    add_people(service)
    return service


class Browser:
    """Holds cookies, follows no redirect, and says nothing of where a post comes from unless told."""

    def __init__(self, service: Service) -> None:
        self.session = requests.Session()
        self._address = service.address

    def get(self, path: str, **headers: str) -> requests.Response:
        return self.session.get(self._address + path, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False)

    def head(self, path: str) -> requests.Response:
        return self.session.head(self._address + path, timeout=PATIENCE_SECONDS, allow_redirects=False)

    def post(
        self, path: str, fields: Mapping[str, str] | bytes, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        return self.session.post(
            self._address + path, data=fields, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False
        )

    def sign_in(self, email: str, onward: str = "") -> requests.Response:
        token = form_token(self.get(SIGN_IN))
        return self.post(SIGN_IN, {"csrf": token, "email": email, "password": PASSWORD, "next": onward})


@pytest.fixture
def browser(peopled: Service) -> Iterator[Browser]:
    """Nobody is signed in."""
    found = Browser(peopled)
    with found.session:
        yield found


@pytest.fixture
def other_browser(peopled: Service) -> Iterator[Browser]:
    """And one more."""
    found = Browser(peopled)
    with found.session:
        yield found


def test_every_post_has_to_come_from_an_own_page(browser: Browser, other_browser: Browser, peopled: Service) -> None:
    other_browser.sign_in(OLGA)
    foreign = form_token(other_browser.get(f"/dashboard/{NORTH}/settings/security"))
    own = {}
    for email, seen, opened in ((None, SIGN_IN, [SIGN_IN]), (OTTO, SECOND_FACTOR, [SECOND_FACTOR, "/dashboard/enrol"])):
        visitor = Browser(peopled)
        if email is not None:
            assert visitor.sign_in(email).status_code == 303
        token = form_token(visitor.get(seen))
        own.update(dict.fromkeys(opened, (visitor, token)))
    assert browser.sign_in(OLGA).status_code == 303
    token = form_token(browser.get(f"/dashboard/{NORTH}/settings/security"))
    taken = []
    for path in post_paths():
        visitor, good = own.get(path, (browser, token))
        for csrf, headers in (
            ("", {}),
            (foreign, {}),
            (good[:-1] + ("0" if good[-1] != "0" else "1"), {}),
            (good, {"Origin": "https://evil.example"}),
            (good, {"Origin": "null"}),
            (good, {"Origin": f"https://{urlsplit(peopled.address).netloc}"}),
            (good, {"Sec-Fetch-Site": "cross-site"}),
            (good, {"Sec-Fetch-Site": "same-site"}),
            (good, {"Sec-Fetch-Site": "cross-site", "Origin": peopled.address}),
        ):
            fields = {"csrf": csrf, "email": OLGA, "password": PASSWORD, "name": "forged", "current": PASSWORD}
            found = visitor.post(path, fields, headers)
            if found.status_code != 403 or "The form was not accepted" not in found.text:
                taken.append((path, csrf[:8], headers, found.status_code))
    assert taken == []
    assert browser.get(f"/dashboard/{NORTH}/settings/security").status_code == 200, "nobody was signed out"
    assert "forged" not in browser.get(f"/dashboard/{NORTH}/settings/tokens").text
    for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": peopled.address}, {"Origin": peopled.address}):
        token = form_token(browser.get(f"/dashboard/{NORTH}/settings/security"))
        found = browser.post("/dashboard/sign-out", {"csrf": token}, headers)
        assert found.headers["Location"] == "/dashboard/sign-in?ended=out"
        browser.sign_in(OLGA)
    for visitor, _ in own.values():
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
        # Read to its end, and then without a token.
        (b"email=a", {}, 403),
    ],
)
def test_forms(browser: Browser, body: bytes, headers: dict[str, str], status: int) -> None:
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
        "/dashboard/" + "a" * 1000,
    ],
)
def test_next_leads_nowhere_else(browser: Browser, other_browser: Browser, target: str) -> None:
    query = urlencode({"next": target})
    files = f"/dashboard/{NORTH}/files"
    assert 'name="next" value=""' in browser.get(f"{SIGN_IN}?{query}").text
    found = browser.sign_in(OLGA, target)
    assert (found.status_code, found.headers["Location"]) == (303, files)
    # Signed in already: the page goes on at once.
    assert browser.get(f"{SIGN_IN}?{query}").headers["Location"] == "/dashboard/"
    # And on the way through the second factor.
    assert other_browser.sign_in(OTTO, target).headers["Location"] == SECOND_FACTOR
    assert 'name="next" value=""' in other_browser.get(f"{SECOND_FACTOR}?{query}").text
    enrol = other_browser.get(f"/dashboard/enrol?{query}")
    assert enrol.headers["Location"] == f"{SECOND_FACTOR}?next="


def test_next_leads_to_an_own_page(browser: Browser) -> None:
    wanted = f"/dashboard/{NORTH}/activity?action=login"
    found = browser.sign_in(OLGA, wanted)
    assert found.headers["Location"] == wanted
    cookies = "; ".join(f"{name}={value}" for name, value in browser.session.cookies.items())
    forged = browser.get(f"{SIGN_IN}?{urlencode({'next': wanted})}", Host="evil.example", Cookie=cookies)
    assert forged.headers["Location"] == wanted, "a path alone: the host is nobody's to choose"


def test_cookies_are_for_the_server_alone(browser: Browser) -> None:
    page = browser.get(SIGN_IN)
    signed_in = browser.sign_in(OLGA)
    given = [*cookie_lines(page), *cookie_lines(signed_in)]
    assert {line.partition("=")[0] for line in given} == {"daybreak-form", "daybreak-session", "daybreak-device"}
    for line in given:
        words = {word.strip().lower() for word in line.split(";")[1:]}
        assert {"httponly", "path=/", "samesite=lax"} <= words, line
        # This one is reached by plain http, on the loopback.
        assert not {word for word in words if word.startswith(("domain", "secure"))}, line


def cookie_lines(found: requests.Response) -> list[str]:
    """The Set-Cookie lines of an answer, whole."""
    return list(found.raw.headers.getlist("set-cookie"))


def test_a_cookie_that_was_made_up_or_moved_is_nobodys(browser: Browser, other_browser: Browser) -> None:
    browser.sign_in(OLGA)
    files = f"/dashboard/{NORTH}/files"
    assert browser.get(files).status_code == 200
    held = dict(browser.session.cookies.items())
    good = held["daybreak-session"]
    kid, payload, mac = good.split(".")
    device = held["daybreak-device"].split(".")
    for value in (
        f"{kid}.{payload}.{'0' * 64}",
        f"{kid}.{payload}.{mac[:-1]}{'0' if mac[-1] != '0' else '1'}",
        f"deadbeef.{payload}.{mac}",
        f"{kid}.{uuid.uuid4()}.{mac}",
        # What the service wrote for another purpose.
        f"{device[0]}.{device[1]}.{device[2]}",
        f"{kid}.{payload}.{device[2]}",
        payload,
        "",
    ):
        found = other_browser.get(files, Cookie=f"daybreak-session={value}")
        assert found.status_code == 303, value
        assert urlsplit(found.headers["Location"]).path == SIGN_IN
    # One of two: which counts is for nobody to choose.
    for both in (f"daybreak-session={good}; daybreak-session=x", f"daybreak-session=x; daybreak-session={good}"):
        assert other_browser.get(files, Cookie=both).status_code == 303
    assert other_browser.get(files, Cookie=f"daybreak-session={good}").status_code == 200


def test_a_session_of_the_api_is_none_of_the_dashboard(browser: Browser, peopled: Service) -> None:
    """Even were its cookie ever written."""
    claims = peopled.token(OLGA).split(".")[1]
    sid = json.loads(base64.urlsafe_b64decode(claims + "=="))["sid"]
    value = session_cookie.seal(sid, kind="session", keyring=keyring.load(peopled.world.keyring_file))
    for path in (f"/dashboard/{NORTH}/files", "/dashboard/"):
        found = browser.get(path, Cookie=f"daybreak-session={value}")
        assert urlsplit(found.headers["Location"]).path == SIGN_IN, path


def test_an_operator_who_has_a_second_factor_shows_it(browser: Browser, peopled: Service) -> None:
    browser.sign_in(OLGA)
    assert browser.get("/dashboard/operator/runs").status_code == 200
    sealed = totp.seal(SEED, seat_id=seat_id(OLGA), keyring=keyring.load(peopled.world.keyring_file), random=os.urandom)

    def enrol(stores: Stores) -> None:
        stores.seats.begin_second_factor(seat_id(OLGA), sealed, datetime.now(UTC))
        stores.seats.confirm_second_factor(seat_id(OLGA), 1, [], datetime.now(UTC))

    peopled.world.change(enrol)
    try:
        found = browser.get("/dashboard/operator/runs")
        assert found.status_code == 403
        assert "Sign in again with your second factor" in found.text
    finally:
        peopled.world.change(lambda stores: stores.seats.reset_second_factor(seat_id(OLGA)))


def test_secrets_change_after_the_password_alone(browser: Browser, peopled: Service) -> None:
    browser.sign_in(OLGA)
    settings = f"/dashboard/{NORTH}/settings"
    page = browser.get(f"{settings}/security")
    token, once = form_token(page), "0" * 32
    factor = f"{settings}/security/second-factor"
    assert browser.post(factor, {"csrf": token}).headers["Location"] == factor
    assert browser.get(factor).status_code == 200
    peopled.world.change(_forget_passwords_shown)
    asked = [
        browser.get(factor),
        browser.get(f"{settings}/tokens/new"),
        browser.post(factor, {"csrf": token}),
        browser.post(f"{factor}/confirm", {"csrf": token, "code": "000000"}),
        browser.post(f"{settings}/security/recovery-codes", {"csrf": token, "once": once}),
        browser.post(f"{settings}/tokens/new", {"csrf": token, "once": once, "name": "unseen", "expiry": "30"}),
    ]
    for found in asked:
        assert found.status_code == 303, found.url
        assert found.headers["Location"].startswith(f"/dashboard/{NORTH}/confirm?"), found.url
    assert "unseen" not in browser.get(f"{settings}/tokens").text


def _forget_passwords_shown(stores: Stores) -> None:
    for session, _ in stores.sessions.list_open(seat_id(OLGA), datetime.now(UTC)):
        stores.sessions.mark_reauthenticated(session.sid, datetime.now(UTC) - timedelta(hours=1))


def test_a_waiting_login_is_completed_once_however_many_good_codes_come(each_service: Service) -> None:
    add_people(each_service)
    browser = Browser(each_service)
    with browser.session:
        browser.sign_in(OTTO)
        token = form_token(browser.get(SECOND_FACTOR))
        cookies = "; ".join(f"{name}={value}" for name, value in browser.session.cookies.items())

    answers = all_but_an_octet_then_the_rest(
        each_service, [answer_of(each_service, cookies, token, code) for code in CODES]
    )
    assert [f"location: /dashboard/{NORTH}/files".encode() in answer for answer in answers].count(True) == 1, answers


def answer_of(service: Service, cookies: str, token: str, code: str) -> bytes:
    """A whole request with a recovery code."""
    body = urlencode({"csrf": token, "code": code, "kind": "recovery", "next": ""})
    return (
        f"POST {SECOND_FACTOR} HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nCookie: {cookies}\r\n"
        f"Content-Type: {FORMS}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    ).encode()


def all_but_an_octet_then_the_rest(service: Service, requests_sent: Sequence[bytes]) -> list[bytes]:
    """The heads of the answers to requests that end at one moment."""
    with contextlib.ExitStack() as stack:
        connections = []
        for octets in requests_sent:
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE_SECONDS))
            connection.sendall(octets[:-1])
            connections.append(connection)
        # A round trip, in which what came is read as far as it goes.
        assert service.get("/healthz").status_code == 200
        for connection, octets in zip(connections, requests_sent, strict=True):
            connection.sendall(octets[-1:])
        return [connection.makefile("rb").read().partition(b"\r\n\r\n")[0] for connection in connections]
