"""Malformed, oversized, slow and ambiguous requests are refused without harm to other clients."""

import json
import re
import socket
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse

import psutil
import pytest

from daybreak.web.server import MAX_HEADERS
from tests.acceptance.browser import signed_in
from tests.acceptance.installation import MAYA, NORTH
from tests.acceptance.service import AUTH, PATIENCE_SECONDS, Service

LOGIN = f"{AUTH}/login"
# Slow clients are disconnected after 20 s. A loaded machine may take longer.
DISCONNECTED_WITHIN_SECONDS = 90


def raw(service: Service, octets: bytes) -> tuple[int, bytes]:
    """Send bytes unchanged. Return the status and body of the first response; 0 without one."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(octets)
        answer = HTTPResponse(connection, method=octets.partition(b" ")[0].decode("latin-1"))
        try:
            answer.begin()
        except HTTPException:
            return 0, b""
        return answer.status, answer.read()


def answers_to(service: Service, octets: bytes) -> bytes:
    """Return all bytes that the service sends on one connection until it closes the connection."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(octets)
        answers = b""
        while piece := connection.recv(65536):
            answers += piece
    return answers


@pytest.mark.parametrize(
    "octets",
    [
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: user@a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n",
    ],
)
def test_request_has_exactly_one_valid_host(service: Service, octets: bytes) -> None:
    status, answer = raw(service, octets)
    assert status == 400
    assert b'"code":"invalid_host"' in answer


@pytest.mark.parametrize(
    "octets",
    [
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
        b"BREW /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\rHost: a\r\r",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST " + LOGIN.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST " + LOGIN.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}",
        b"POST " + LOGIN.encode() + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_malformed_and_oversized_heads_are_refused(service: Service, octets: bytes) -> None:
    try:
        status, _ = raw(service, octets)
    except (ConnectionResetError, BrokenPipeError):
        status = 0
    # The service sends an error, or closes the connection.
    assert status == 0 or 400 <= status < 500
    assert service.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "octets",
    [
        b"GET /healthz HTTP/1.1\nHost: a\n\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: y\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\n",
    ],
)
def test_bare_line_feed_ends_a_line(service: Service, octets: bytes) -> None:
    """RFC 9112 §2.2 permits this."""
    assert raw(service, octets)[0] == 200


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (b"\x00\x01\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
        (b"GET /" + b"a" * 66_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"414"),
    ],
)
def test_server_refuses_requests_that_it_cannot_parse(service: Service, octets: bytes, status: bytes) -> None:
    """The application receives no request, so the response has no body and the log has no line."""
    head, _, body = answers_to(service, octets).partition(b"\r\n\r\n")
    assert head.split()[1] == status
    assert b"connection: close" in head.lower()
    assert body == b""


def test_number_of_headers_is_limited(service: Service) -> None:
    for number, status in ((MAX_HEADERS, b"200"), (MAX_HEADERS + 1, b"431")):
        lines = b"Host: a\r\nConnection: close\r\n" + b"X: y\r\n" * (number - 2)
        assert answers_to(service, b"GET /healthz HTTP/1.1\r\n" + lines + b"\r\n").split()[1] == status


@pytest.mark.parametrize(
    ("octets", "status", "code"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 65_600 + b"\r\n\r\n", 431, "head_too_large"),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414, "uri_too_long"),
    ],
)
def test_long_head_is_a_problem_that_is_logged(service: Service, octets: bytes, status: int, code: str) -> None:
    problem = json.loads(answers_to(service, octets).partition(b"\r\n\r\n")[2])
    assert (problem["status"], problem["code"]) == (status, code)
    line = service.logged(problem["request_id"])
    assert (line["event"], line["status"], line["address"]) == ("request", status, "127.0.0.1")


SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
BODY = b'{"email": "x", "password": "y"}'
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


def statuses_until_closed(service: Service, octets: bytes) -> list[bytes]:
    """Return the statuses of all responses on one connection until the service closes it."""
    return re.findall(rb"HTTP/1\.1 (\d{3})", answers_to(service, octets))


def post(*lines: bytes) -> bytes:
    """Return the head of a login with additional lines."""
    head = (b"POST " + LOGIN.encode() + b" HTTP/1.1", b"Host: a", b"Content-Type: application/json", *lines)
    return b"\r\n".join(head) + b"\r\n\r\n"


@pytest.mark.parametrize("length_first", [True, False])
def test_chunks_override_a_length_and_close_the_connection(service: Service, length_first: bool) -> None:
    """RFC 9112 §6.1 permits this. The bytes that follow are never read as a request."""
    lines = [b"Content-Length: %d" % len(CHUNKS + SMUGGLED), b"Transfer-Encoding: chunked"]
    head = post(*(lines if length_first else reversed(lines)))
    assert statuses_until_closed(service, head + CHUNKS + SMUGGLED) == [b"401"]


@pytest.mark.parametrize(
    "lines",
    [
        [b"Transfer-Encoding: gzip, chunked"],
        [b"Transfer-Encoding: chunked, chunked"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: identity", b"Content-Length: %d" % len(CHUNKS)],
        [b"Transfer-Encoding: \x0bchunked"],
        [b"Content-Length: %d, %d" % (len(CHUNKS), len(CHUNKS))],
        [b"Content-Length: +%d" % len(CHUNKS)],
        [b"Content-Length: %d" % len(CHUNKS), b"Content-Length: 0"],
        [b"Content-Length: %d\nContent-Length: 0" % len(CHUNKS)],
        [b"X: y\nTransfer-Encoding: gzip, chunked"],
        [b"X: y\nHost: b"],
        [b"X: y\rHost: b"],
        [b"X: y\0"],
    ],
)
def test_ambiguous_end_of_a_request_is_refused(service: Service, lines: list[bytes]) -> None:
    assert statuses_until_closed(service, post(*lines) + CHUNKS + SMUGGLED) == [b"400"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/bucket/key"), ("PUT", f"{AUTH}/context"), ("POST", "/download/v1/files"), ("POST", "/dashboard/")],
)
def test_connection_of_a_refused_body_is_closed(service: Service, method: str, path: str) -> None:
    """Without the header, a client that uses the connection again may get no response."""
    found = service.request(method, path, data=b"x" * 100_000, headers={"Accept": "application/json"})
    assert 400 <= found.status_code < 500
    assert found.headers["Connection"] == "close"


def test_upgrade_cannot_smuggle_a_request(service: Service) -> None:
    offer = post(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: %d" % len(SMUGGLED))
    last = SMUGGLED.replace(b"Host: a", b"Host: a\r\nConnection: close")
    assert statuses_until_closed(service, offer + SMUGGLED + last) == [b"400", b"200"]
    # The default of the HTTP client in Java.
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAB"}
    assert service.log_in(MAYA, headers=headers).status_code == 200


def test_url_with_nul_is_not_found(service: Service) -> None:
    for path in ("/download/v1/files?action=%00", "/dashboard/sign-in?next=%00", "/healthz?a=b%00", "/healthz%00"):
        found = service.get(path)
        assert (found.status_code, found.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "chunks",
    [
        b"2\n{}\r\n0\r\n\r\n",
        b"2\r\n{}\n0\r\n\r\n",
        b"zz\r\n{}\r\n",
        b"2\r\n{}xx\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\n{}\r\n",
    ],
)
def test_malformed_chunks_are_a_bad_request(service: Service, chunks: bytes) -> None:
    head = f"POST {LOGIN} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    status, answer = raw(service, head.encode() + chunks)
    assert status == 400
    assert b'"code":"invalid_request"' in answer


@pytest.mark.parametrize(
    ("body", "headers", "status", "pointer"),
    [
        (b"", {}, 400, None),
        (b"[]", {}, 400, ""),
        (b'{"email": "x"}', {}, 400, "/password"),
        (b'{"email": 7, "password": "x"}', {}, 400, "/email"),
        (b'{"email": "x", "password": null}', {}, 400, "/password"),
        (b'{"email": "x", "password": "y"', {}, 400, None),
        (b"\xff\xfe", {}, 400, None),
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", {}, 400, None),
        # Only the depth is wrong.
        (b'{"email": "x", "password": "y", "a": ' + b"[" * 16 + b"]" * 16 + b"}", {}, 400, None),
        (b'{"email": "x", "password": "y", "a": ' + b"[" * 15 + b"]" * 15 + b"}", {}, 401, None),
        (b'{"email": "' + b"x" * 17_000 + b'"}', {}, 413, None),
        (b"email=x&password=y", {"Content-Type": "application/x-www-form-urlencoded"}, 415, None),
        (b"{}", {"Content-Type": "text/json"}, 415, None),
        (b"{}", {"Content-Type": "application/json; charset=utf-16"}, 415, None),
        (b"{}", {"Content-Type": "application/json; x=y; charset=utf-16"}, 415, None),
        (b"{}", {"Content-Type": 'application/json; charset="UTF-8"; x=y'}, 400, "/email"),
        (b"{}", {"Content-Type": ""}, 415, None),
        (b"\x1f\x8b", {"Content-Encoding": "gzip"}, 415, None),
        (b'{"email": "x", "password": "y"}', {"Content-Encoding": "br"}, 415, None),
    ],
)
def test_malformed_bodies_are_refused(
    service: Service, body: bytes, headers: dict[str, str], status: int, pointer: str | None
) -> None:
    found = service.request("POST", LOGIN, data=body, headers={"Content-Type": "application/json", **headers})
    assert found.status_code == status, found.text
    assert found.headers["Content-Type"] == "application/problem+json"
    problem = found.json()
    assert problem["status"] == status
    assert problem["request_id"] == found.headers["X-Request-Id"]
    if pointer is not None:
        assert [error["pointer"] for error in problem["errors"]] == [pointer]


def test_trailers_are_not_headers(service: Service) -> None:
    """A proxy does not check trailers as it checks headers."""
    token = service.token(MAYA, NORTH).encode()
    path = f"/download/v1/files/{NORTH}/campaigns.csv.gz".encode()
    head = b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    header = b"Authorization: Bearer " + token + b"\r\n"
    assert raw(service, head + header + b"\r\n0\r\n\r\n")[0] == 302
    assert raw(service, head + b"\r\n0\r\n" + header + b"\r\n")[0] == 401


def test_large_body_in_chunks_is_refused(service: Service) -> None:
    head = f"POST {LOGIN} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
    try:
        status, _ = raw(service, head.encode() + chunk * 8 + b"0\r\n\r\n")
    except (ConnectionResetError, BrokenPipeError):
        return
    assert status == 413


def test_large_body_is_refused_before_it_arrives(service: Service) -> None:
    status, answer = raw(service, post(b"Content-Length: 17000"))
    assert status == 413
    assert b'"code":"body_too_large"' in answer


def test_request_has_at_most_one_authorization(service: Service) -> None:
    token = b"Authorization: Bearer " + service.token(MAYA, NORTH).encode()
    head = f"GET /download/v1/files/{NORTH}/campaigns.csv.gz HTTP/1.1\r\nHost: a\r\n".encode()
    assert raw(service, head + token + b"\r\n\r\n")[0] == 302
    for lines in ([token, token], [token, b"Authorization: Bearer x"], [b"Authorization: Basic eDp5", token]):
        status, answer = raw(service, head + b"\r\n".join(lines) + b"\r\n\r\n")
        assert status == 401
        assert b'"code":"missing_token"' in answer


@pytest.mark.parametrize(
    "target",
    [
        b"/%ff%fe",
        b"/download/v1/files/%ff/campaigns.csv.gz",
        b"/download/v1/links/a/b/campaigns.csv.gz?\xff=\xfe",
        b"/download/v1/links/a/b/campaigns.csv.gz?expires=%ff&nonce=%00&" + b"a=b&" * 2000,
        b"/download/v1/audit/x?since=%ff%00",
        b"/docs?%zz",
        b"/healthz?\x7f",
        b"http://evil.example/nowhere",
        b"*",
    ],
)
def test_unusual_targets_cause_no_server_error(service: Service, target: bytes) -> None:
    for method in (b"GET", b"HEAD", b"OPTIONS"):
        status, _ = raw(service, method + b" " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert status in {0, 200} or 400 <= status < 500, (method, status)


def test_unusual_dashboard_queries_cause_no_server_error(service: Service) -> None:
    with signed_in(service, MAYA) as browser:
        for query in (
            "activity?until=9999-12-31", "activity.csv?until=9999-12-31", "activity?since=0001-01-01&until=0001-01-01",
            "activity?since=soon", "activity?action=x", "activity?actor=%ff&newest=" + "9" * 40,
            "activity?newest=%D9%A3", "activity?page=" + "9" * 40, "activity?page=2000&newest=1", "activity?result=x",
            "files?snapshot=x&section=x&q=%ff", "files/campaigns/csv?snapshot=%ff", "insight?range=" + "9" * 40,
        ):  # fmt: skip
            found = browser.get(f"/dashboard/{NORTH}/{query}")
            assert found.status_code == 200 or 400 <= found.status_code < 500, (query, found.status_code)


def test_no_anonymous_request_costs_more_than_a_login(service: Service) -> None:
    """Quadratic work would let one client block a worker."""
    marks = "a" + "\N{COMBINING ACUTE ACCENT}" * 3900 + "\N{COMBINING DOT BELOW}" * 3900
    sign_in = "/dashboard/sign-in"

    def send_body(body: str) -> None:
        sent = body.encode()
        assert len(sent) < 16 * 1024
        service.request("POST", LOGIN, data=sent, headers={"Content-Type": "application/json"})

    supervisor = psutil.Process(service.workers()[0]).parent()
    assert supervisor is not None

    def used() -> float:
        times = [process.cpu_times() for process in supervisor.children(recursive=True)]
        return sum(each.user + each.system for each in times)

    def processor_seconds(send: Callable[[], object]) -> float:
        before = used()
        for _ in range(5):
            send()
        return used() - before

    login = processor_seconds(lambda: service.log_in("nobody@example.org"))
    for name, send in {
        "quotes in a body": lambda: send_body("[" * 17 + '"' + '\\"' * 8000),
        "marks in a password": lambda: send_body(json.dumps({"email": "x", "password": marks}, ensure_ascii=False)),
        "marks in an email": lambda: send_body(json.dumps({"email": marks, "password": "x"}, ensure_ascii=False)),
        "a quoted cookie": lambda: service.get(sign_in, headers={"Cookie": 'daybreak-form="' + "\\" * 60_000 + '"'}),
        "many cookies": lambda: service.get(sign_in, headers={"Cookie": "a=b;" * 15_000}),
        "many fields": lambda: service.get(sign_in + "?" + "a=b&" * 8_000),
        "percent signs": lambda: service.get(sign_in + "?" + "%" * 30_000),
        "a long path": lambda: service.get("/dashboard/" + "a/" * 30_000),
        "many addresses": lambda: service.get(sign_in, headers={"X-Forwarded-For": "1.1.1.1," * 7_000}),
    }.items():
        assert processor_seconds(send) < 2 * login, name


def test_request_id_of_a_client_is_replaced(service: Service) -> None:
    assert service.get("/healthz", headers={"X-Request-Id": "chosen-by-me"}).headers["X-Request-Id"] != "chosen-by-me"


def half_a_form(service: Service) -> bytes:
    """Return the start of a sign-in form."""
    page = service.get("/dashboard/sign-in")
    cookies = "; ".join(f"{name}={value}" for name, value in page.cookies.items())
    return (
        f"POST /dashboard/sign-in HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nCookie: {cookies}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 4000\r\n\r\ncsrf="
    ).encode()


@pytest.mark.release
def test_slow_clients_are_disconnected_without_delaying_others(service: Service) -> None:
    beginnings = {
        "half a head": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        "nothing at all": b"",
        "half a body": post(b"Content-Length: 4000") + b"{",
        "one chunk": post(b"Transfer-Encoding: chunked") + b"1\r\n{\r\n",
        "half a size": post(b"Transfer-Encoding: chunked") + b"0",
        "half an extension": post(b"Transfer-Encoding: chunked") + b"1;",
        "second head": SMUGGLED + b"GET /healthz HT",
        "silence after an answer": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "half a form": half_a_form(service),
    }
    slow = {}
    for name, beginning in beginnings.items():
        slow[name] = socket.create_connection(("127.0.0.1", service.port))
        slow[name].sendall(beginning)
    try:
        answers, closed = dict.fromkeys(slow, b""), list[str]()
        still_open = dict(slow)
        deadline = time.monotonic() + DISCONNECTED_WITHIN_SECONDS
        while still_open:
            assert time.monotonic() < deadline, f"still open: {sorted(still_open)}"
            assert service.get("/healthz").status_code == 200
            for name, connection in list(still_open.items()):
                connection.settimeout(0.05)
                try:
                    # Occasional bytes do not extend the timeout.
                    if name.startswith("half"):
                        connection.sendall(b"0" if name == "half a size" else b"a")
                    piece = connection.recv(65536)
                except TimeoutError:
                    continue
                except OSError:
                    piece = b""
                answers[name] += piece
                if not piece:
                    closed.append(name)
                    del still_open[name]
            time.sleep(0.4)
    finally:
        for connection in slow.values():
            connection.close()
    for name in ("half a body", "one chunk", "half a size", "half an extension", "half a form"):
        assert b" 408 " in answers[name], name
        assert b"connection: close" in answers[name].lower(), name
        # The deadline of a body is 15 s, that of a head 20 s: the answer and the end come together.
        assert closed.index(name) < closed.index("silence after an answer"), name
    assert b" 200 " in answers["silence after an answer"]
    assert answers["second head"].count(b"HTTP/1.1 ") == 1
