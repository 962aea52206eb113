"""Behind a TLS proxy: HTTPS, forwarded headers, and rate limits by client address."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.acceptance.browser import form_token
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import DREW, FREYA, MAYA, NORTH, PASSWORD, Installation, seat_id
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service, serving
from tests.acceptance.test_dashboard_posts import cookie_lines
from tests.acceptance.test_link_tools import new_token

HTTPS = {"X-Forwarded-Proto": "https"}
BASE_URL = "https://export.example.org/data"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service with an https base URL, a trusted proxy on this machine and low rate limits."""
    settings = {
        "base_url": BASE_URL,
        "require_https": True,
        "trusted_proxies": ["127.0.0.1/32"],
        "access.login_per_seat": "4/5m",
        "access.login_per_address": "8/5m",
    }
    with serving(new_installation(Path(tmp_path_factory.mktemp("proxied"))), settings=settings) as found:
        yield found


def test_plain_http_is_refused_and_not_redirected(proxied: Service) -> None:
    for found in (
        proxied.log_in(MAYA),
        proxied.get("/openapi.json"),
        proxied.get(f"/download/v1/files/{NORTH}/campaigns.csv.gz", token="x"),
        proxied.get("/download/v1/links/a/b/c", headers={"X-Forwarded-Proto": "http"}),
    ):
        assert (found.status_code, found.json()["code"]) == (403, "https_required")
        assert "Location" not in found.headers
    assert proxied.get("/healthz").status_code == 200, "health checks from the machine itself need no https"
    assert proxied.get("/healthz", headers={"X-Forwarded-For": "203.0.113.5"}).status_code == 403


def test_https_requests_get_hsts_and_links_with_the_base_url(proxied: Service) -> None:
    found = proxied.log_in(MAYA, headers=HTTPS)
    assert found.status_code == 200
    assert found.headers["Strict-Transport-Security"].startswith("max-age=")
    token = found.json()["token"]
    redirect = proxied.request_file(token, found.json()["client_id"], headers=HTTPS)
    assert redirect.headers["Location"].startswith(f"{BASE_URL}/download/v1/links/")
    path = redirect.headers["Location"].removeprefix("https://export.example.org")
    # The proxy may send the path with or without the path of base_url.
    for sent_path in (path, path.removeprefix("/data")):
        assert proxied.get(sent_path, headers=HTTPS).status_code == 200


def test_metrics_are_not_visible_through_a_proxy(proxied: Service) -> None:
    """Metrics have a separate listener, so the address of the client does not matter."""
    for path in ("/metrics", "/metrics/", "/data/metrics", "/data/metrics?name[]=up", "//metrics"):
        for forwarded in ({}, {"X-Forwarded-For": "127.0.0.1"}, {"X-Forwarded-For": "203.0.113.5"}):
            found = proxied.get(path, headers=HTTPS | forwarded)
            assert found.status_code == 404, (path, forwarded)
            assert "daybreak_http" not in found.text
        status, _ = request_from_untrusted_address(proxied, path, {"X-Forwarded-For": "127.0.0.1", **HTTPS})
        assert status in {403, 404}, path
    assert "daybreak_http_requests_total" in proxied.metrics()


def request_from_untrusted_address(service: Service, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Send a request from a local address that is not a trusted proxy. Return its status and body."""
    connection = HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS, source_address=("127.0.0.2", 0))
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has several loopback addresses")
def test_forwarded_https_is_trusted_from_the_proxy_only(proxied: Service) -> None:
    forwarded = {**HTTPS, "X-Forwarded-For": "203.0.113.5", "X-Request-Id": "front-0123456789"}
    assert proxied.get("/openapi.json", headers=forwarded).status_code == 200
    status, body = request_from_untrusted_address(proxied, "/openapi.json", forwarded)
    assert status == 403
    assert '"code":"https_required"' in body
    assert "front-0123456789" not in body


def test_allowed_addresses_of_tokens_are_those_behind_the_proxy(proxied: Service) -> None:
    token = new_token(proxied, "--allow", "203.0.113.0/24")
    allowed, other = ({**HTTPS, "X-Forwarded-For": address} for address in ("203.0.113.5", "198.51.100.7"))
    found = proxied.request_file(token, NORTH, headers=allowed)
    assert found.status_code == 302
    path = found.headers["Location"].removeprefix(BASE_URL)
    assert proxied.get(path, headers=allowed).status_code == 200
    forged = {**HTTPS, "X-Forwarded-For": "203.0.113.5, 198.51.100.7"}
    for headers in (other, forged, HTTPS):
        for refused in (proxied.request_file(token, NORTH, headers=headers), proxied.get(path, headers=headers)):
            assert (refused.status_code, refused.json()["code"]) == (403, "address_not_allowed")
    assert "198.51.100.7" in proxied.request_file(token, NORTH, headers=other).json()["detail"]
    events = proxied.installation.events(client_id=NORTH, action="token.refused")
    assert {event.address for event in events} == {"198.51.100.7", "127.0.0.1"}


def test_cookies_are_limited_to_https_and_this_host(proxied: Service) -> None:
    found = proxied.get("/dashboard/sign-in", headers=HTTPS)
    sent = {"csrf": form_token(found), "email": MAYA, "password": PASSWORD, "next": ""}
    form_cookie = {"Cookie": found.headers["Set-Cookie"].partition(";")[0]}
    signed_in = proxied.request("POST", "/dashboard/sign-in", data=sent, headers={**HTTPS, **form_cookie})
    assert signed_in.status_code == 303
    assert signed_in.headers["Location"].startswith("/data/dashboard/"), "a path below base_url, without a host"
    cookies = [*cookie_lines(found), *cookie_lines(signed_in)]
    assert {line.partition("=")[0] for line in cookies} == {
        "__Host-daybreak-form", "__Host-daybreak-session", "__Host-daybreak-device"
    }  # fmt: skip
    for line in cookies:
        words = {word.strip().lower() for word in line.split(";")[1:]}
        assert {"secure", "httponly", "path=/", "samesite=lax"} <= words, line
        assert "domain" not in line.lower()
    # A cookie that plain HTTP could have set is ignored.
    session = next(line for line in cookies if "session=" in line).partition(";")[0]
    for cookie, status in ((session, 200), (session.removeprefix("__Host-"), 303)):
        assert proxied.get(f"/dashboard/{NORTH}/files", headers={**HTTPS, "Cookie": cookie}).status_code == status


def test_audit_trail_has_the_address_of_the_client(proxied: Service, service: Service) -> None:
    forwarded = {**HTTPS, "X-Forwarded-For": "198.51.100.66, 203.0.113.9"}
    for each, address in ((proxied, "203.0.113.9"), (service, "127.0.0.1")):
        refused = each.log_in(MAYA, password="wrong", headers=forwarded)
        assert refused.status_code == 401
        events = each.installation.events(seat_id=seat_id(MAYA))
        assert [event.address for event in events if event.request_id == refused.headers["X-Request-Id"]] == [address]


def test_request_ids_of_the_proxy_are_kept(proxied: Service) -> None:
    found = proxied.get("/nowhere", headers={**HTTPS, "X-Request-Id": "front-0123456789"})
    assert found.headers["X-Request-Id"] == found.json()["request_id"] == "front-0123456789"


def test_guesses_from_one_address_do_not_block_others(proxied: Service) -> None:
    proxied.installation.reset_attempts()
    guesser = {**HTTPS, "X-Forwarded-For": "198.51.100.7"}
    statuses = [proxied.log_in(FREYA, password=f"guess {number}", headers=guesser).status_code for number in range(6)]
    assert statuses[:4] == [401] * 4
    assert statuses[4:] == [429, 429]
    limited = proxied.log_in(FREYA, headers=guesser)
    assert (limited.status_code, limited.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(limited.headers["Retry-After"]) <= 310
    assert limited.headers["RateLimit-Remaining"] == "0"
    # An address that the client forges is left of the one that the proxy adds.
    forged = {**HTTPS, "X-Forwarded-For": "203.0.113.77, 198.51.100.7"}
    assert proxied.log_in(FREYA, headers=forged).status_code == 429
    owner = {**HTTPS, "X-Forwarded-For": "192.0.2.55"}
    assert proxied.log_in(FREYA, headers=owner).status_code == 200
    assert proxied.log_in(FREYA, headers={**HTTPS, "X-Forwarded-For": "2001:db8::1"}).status_code == 200


@pytest.mark.release
def test_known_device_logs_in_during_a_flood(make_installation: Callable[[], Installation]) -> None:
    settings = {"trusted_proxies": ["127.0.0.1/32"], "access.login_overall": "12/5m"}
    with serving(make_installation(), settings=settings) as service:

        def from_address(number: int) -> dict[str, str]:
            return {"X-Forwarded-For": f"203.0.113.{number}"}

        device = service.log_in(DREW, headers=from_address(1)).json()["device_id"]
        flood = [service.log_in(f"{number}@example.org", headers=from_address(number)) for number in range(2, 16)]
        assert [answer.status_code for answer in flood] == [401] * 11 + [429] * 3
        assert service.log_in(DREW, headers=from_address(1)).status_code == 429
        assert service.log_in(DREW, headers={**from_address(1), "X-Device-Id": device}).status_code == 200


def test_log_has_the_address_and_no_query(proxied: Service) -> None:
    found = proxied.get("/nowhere?secret=abcdef0123", headers={**HTTPS, "X-Forwarded-For": "203.0.113.99"})
    line = proxied.logged(found.headers["X-Request-Id"])
    assert (line["address"], line["path"]) == ("203.0.113.99", "/nowhere")
    assert "abcdef0123" not in proxied.program.log()


def test_forwarded_headers_of_untrusted_clients_are_ignored(service: Service) -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.5"}
    line = service.logged(service.get("/nowhere", headers=forwarded).headers["X-Request-Id"])
    assert line["address"] == "127.0.0.1", "the address of the connection"
    assert service.request("DELETE", f"{AUTH}/logout", headers={"X-Forwarded-For": "203.0.113.5"}).status_code == 401
