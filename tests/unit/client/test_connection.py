"""Requests to the service: credentials, retries, errors."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daybreak_client import Daybreak
from daybreak_client import connection as connections
from daybreak_client.connection import Connection
from daybreak_client.errors import Damaged, NotPublished, Refused, Unreachable, WrongUse
from daybreak_client.published import parse_accounts, parse_link, parse_manifest
from tests.parts.certificates import own_certificate
from tests.parts.ports import free_port
from tests.parts.scripted_service import DISCONNECT, Reply, Request, ScriptedService, scripted_service


@pytest.fixture(autouse=True)
def without_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_FIRST_WAIT_SECONDS", 0.001)


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with scripted_service() as found:
        yield found


@pytest.fixture
def connection(service: ScriptedService) -> Iterator[Connection]:
    found = Connection(service.url)
    yield found
    found.close()


def test_token_is_not_sent_to_a_redirect_target(service: ScriptedService, connection: Connection) -> None:
    with scripted_service() as store:
        store.script = lambda _: Reply(200, b"octets")
        service.script = lambda request: {
            "/download/v1/files/north/members.csv.gz": Reply(
                302, {"data": {"url": f"{service.url}/link"}}, {"Location": "/link"}
            ),
            "/link": Reply(302, headers={"Location": f"{store.url}/bucket/members"}),
        }[request.path]
        issued = connection.request("GET", "/download/v1/files/north/members.csv.gz", dict, token="secret")
        with connection.download(issued["data"]["url"], 0) as (start, content):
            assert (start, b"".join(content)) == (0, b"octets")
    first, link = service.requests
    assert (first.path, first.headers["authorization"]) == ("/download/v1/files/north/members.csv.gz", "Bearer secret")
    (stored,) = store.requests
    for request in (link, stored):
        assert "authorization" not in request.headers
        assert "cookie" not in request.headers
        assert "secret" not in request.path


@pytest.mark.parametrize("token", ["secret\n", "secret secret", "secret\u00f6", ""])
def test_invalid_token_is_never_sent_or_printed(service: ScriptedService, connection: Connection, token: str) -> None:
    with pytest.raises(WrongUse, match="invalid character") as caught:
        connection.request("GET", "/x", dict, token=token)
    assert "secret" not in caught.value.message
    assert service.requests == []


@pytest.mark.parametrize("etag", ["secret\n", "secret\u00f6"])
def test_invalid_header_is_wrong_use(service: ScriptedService, connection: Connection, etag: str) -> None:
    with pytest.raises(WrongUse, match="invalid character") as caught:
        connection.request_if_changed("/x", lambda *_: None, token="secret", etag=etag)
    assert "secret" not in caught.value.message
    assert caught.value.__cause__ is None
    assert service.requests == []


def test_busy_service_is_retried(service: ScriptedService, connection: Connection) -> None:
    problem = {"code": "busy", "detail": "Busy."}
    answers = iter([Reply(503, problem, {"Retry-After": "0"}), Reply(502, b"<html>"), Reply(200, {"data": 7})])
    service.script = lambda _: next(answers)
    assert connection.request("GET", "/x", dict) == {"data": 7}
    assert len(service.requests) == 3


def test_retries_of_a_busy_service_end(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Reply(503, {"code": "busy", "detail": "Busy."}, {"Retry-After": "0"})
    with pytest.raises(Unreachable, match="Busy"):
        connection.request("GET", "/x", dict)
    assert len(service.requests) == 5


def test_retry_after_of_a_rate_limit_is_waited_for(
    service: ScriptedService, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("daybreak_client.connection.time", SimpleNamespace(sleep=waits.append, monotonic=lambda: 0.0))
    limited = Reply(429, {"code": "rate_limited", "detail": "Too many links."}, {"Retry-After": "62"})
    answers = iter([limited, Reply(200, {"data": 7}), limited, Reply(200, b"octets")])
    service.script = lambda _: next(answers)
    assert connection.request("GET", "/x", dict) == {"data": 7}
    with connection.download("/link", 0) as (_, content):
        assert b"".join(content) == b"octets"
    assert waits == [62, 62]


def test_long_retry_after_fails_immediately(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Reply(429, {"code": "rate_limited", "detail": "Too many."}, {"Retry-After": "290"})
    with pytest.raises(Unreachable, match=r"Too many\. Try again in 290 seconds"):
        connection.request("POST", "/login", dict, body={})
    assert len(service.requests) == 1


@pytest.mark.parametrize(("method", "times"), [("GET", 5), ("POST", 1), ("PUT", 1), ("DELETE", 1)])
def test_only_idempotent_requests_are_repeated(
    service: ScriptedService, connection: Connection, method: str, times: int
) -> None:
    service.script = lambda _: Reply(DISCONNECT)
    with pytest.raises(Unreachable, match="does not answer"):
        connection.request(method, "/x", dict)
    assert len(service.requests) == times


def test_unreachable_service_is_named() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    connection = Connection(address)
    with pytest.raises(Unreachable, match=f"^{address} does not answer: Connection refused.$"):
        connection.request("POST", "/x", dict)
    connection.close()


def test_refusal_has_the_message_of_the_service(service: ScriptedService, connection: Connection) -> None:
    problem = {"code": "not_your_account", "detail": "No access.", "request_id": "r1"}
    service.script = lambda _: Reply(403, problem)
    with pytest.raises(Refused, match=r"No access\.") as caught:
        connection.request("GET", "/x", dict)
    assert (caught.value.code, caught.value.status, caught.value.request_id) == ("not_your_account", 403, "r1")
    assert len(service.requests) == 1


def test_endpoint_that_is_not_enabled_is_refused(service: ScriptedService) -> None:
    service.script = lambda _: Reply(404, {"code": "not_found", "detail": "There is no resource at this URL."})
    with Daybreak(service.url, "service_api_x") as client, pytest.raises(Refused, match="operator to enable") as caught:
        client.s3_credentials()
    assert caught.value.code == "not_found"


def test_unpublished_files_have_a_retry_time(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Reply(404, {"code": "snapshot_not_ready", "detail": "None yet."}, {"Retry-After": "90"})
    with pytest.raises(NotPublished, match="None yet") as caught:
        connection.request("GET", "/x", dict)
    assert caught.value.retry_after_seconds == 90


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, b"<html>no such page"),
        Reply(404, {"error": "no such page"}),
        Reply(301, b"<html>moved"),
        Reply(200, b"<html>welcome"),
        Reply(200),
        Reply(200, [1]),
        Reply(200, {"data": [1]}),
        Reply(200, {"data": {"client_id": "north", "as_of": "today"}}),
    ],
    ids=["not found", "not found as JSON", "moved", "a page", "nothing", "a list", "other data", "other values"],
)
def test_response_of_another_service_is_refused(service: ScriptedService, connection: Connection, reply: Reply) -> None:
    service.script = lambda _: reply
    for read in (parse_manifest, parse_accounts, lambda value: parse_link(value, service.url)):
        with pytest.raises(WrongUse, match="Check the URL"):
            connection.request("GET", "/x", read)


def test_invalid_links_are_errors(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda request: Reply(302, headers={"Location": request.path + "x"})
    for link in ("/link", "http://[::1", "http://127.0.0.1:x/", "ftp://127.0.0.1/x"):
        with pytest.raises(Unreachable), connection.download(link, 0):
            pass


def test_server_error_is_transient(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Reply(500, b"<html>")
    with pytest.raises(Unreachable, match="500"):
        connection.request("GET", "/x", dict)


def test_content_is_not_decoded(service: ScriptedService, connection: Connection) -> None:
    def script(request: Request) -> Reply:
        assert request.headers["accept-encoding"] == "identity"
        if "range" not in request.headers:
            return Reply(200, b"\x1f\x8bpacked", {"Content-Encoding": "gzip"})
        return Reply(206, b"packed", {"Content-Range": "bytes 2-7/8"})

    service.script = script
    with connection.download("/link", 0) as (start, content):
        assert (start, b"".join(content)) == (0, b"\x1f\x8bpacked")
    with connection.download("/link", 2) as (start, content):
        assert (start, b"".join(content)) == (2, b"packed")


WHOLE = Reply(200, b"whole")


@pytest.mark.parametrize(
    ("reply", "offset"),
    [
        (WHOLE, 0),
        (Reply(206, b"le", {"Content-Range": "bytes 3-4/5"}), 3),
        (Reply(206, b"whole", {"Content-Range": "bytes 0-4/*"}), 0),
        (Reply(206, b"e", {"Content-Range": "bytes 4-4/5"}), None),
        (Reply(206, b"le"), None),
        (Reply(206, b"--x", {"Content-Type": "multipart/byteranges; boundary=x"}), None),
        (Reply(206, b"le", {"Content-Range": "items 3-4/5"}), None),
        (Reply(416, headers={"Content-Range": "bytes */2"}), None),
    ],
)
def test_only_the_requested_range_is_accepted(
    service: ScriptedService, connection: Connection, reply: Reply, offset: int | None
) -> None:
    """Else the whole file is requested, and a part of it is refused."""
    service.script = lambda request: reply if "range" in request.headers else WHOLE
    with connection.download("/link", 3) as (start, content):
        assert (start, b"".join(content)) == ((0, WHOLE.body) if offset is None else (offset, reply.body))
    service.script = lambda _: reply
    if offset is None and reply.status == 206:
        with pytest.raises(Damaged, match="a part of a file"), connection.download("/link", 3):
            pass


def test_interrupted_transfer_is_an_error(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Reply(200, b"half", {"Content-Length": "8"})
    with pytest.raises(Unreachable, match="interrupted"), connection.download("/link", 0) as (_, content):
        b"".join(content)


def test_https_is_not_downgraded(service: ScriptedService) -> None:
    connection = Connection(f"https://127.0.0.1:{free_port()}")
    with pytest.raises(Unreachable, match="a link has no https"), connection.download(f"{service.url}/link", 0):
        pass
    assert service.requests == []
    connection.close()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "export.example.org",
        "ftp://export.example.org",
        "https://",
        "https://a:hunter2@example.org",
        "https://example.org/?token=hunter2",
        "https://e.org/?a=b",
        "https://e.org?",
        "https://e.org/#token=hunter2",
        "https://@e.org",
        "https://example.org:x",
        "https://example.org:99999",
        "https://example..org",
        "https://xn--example-.org",
        "http://[::1",
    ],
)
def test_invalid_url_is_refused(address: str) -> None:
    with pytest.raises(WrongUse, match="is not the URL") as refused:
        Connection(address)
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (" HTTPS://Export.Example.org:443/Exports// ", "https://export.example.org/Exports"),
        ("http://LOCALHOST:80", "http://localhost"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("https://example.org:80", "https://example.org:80"),
    ],
)
def test_spellings_of_one_url_are_one_service(address: str, expected: str) -> None:
    connection = Connection(address)
    connection.close()
    assert connection.address == expected


def test_failed_tls_is_explained(service: ScriptedService) -> None:
    connection = Connection(service.url.replace("http:", "https:"))
    with pytest.raises(Unreachable, match=r"does not answer: TLS failed, .*\. Check https:// and the port\.$"):
        connection.request("POST", "/x", dict)
    connection.close()


@pytest.mark.parametrize(("excluded", "named"), [("", True), ("localhost", True), ("127.0.0.1", False)])
def test_proxy_that_may_be_the_cause_is_named(monkeypatch: pytest.MonkeyPatch, excluded: str, *, named: bool) -> None:
    monkeypatch.setenv("http_proxy", f"http://ana:secret@127.0.0.1:{free_port()}")
    monkeypatch.setenv("no_proxy", excluded)
    connection = Connection(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unreachable) as unreachable:
        connection.request("POST", "/x", dict)
    with pytest.raises(Unreachable) as interrupted, connection.download("/link", 0):
        pass
    connection.close()
    for caught in (unreachable, interrupted):
        assert ("A proxy is set, in HTTP_PROXY" in caught.value.message) == named
        assert "secret" not in caught.value.message


def test_plain_http_over_a_network_needs_permission() -> None:
    with pytest.raises(WrongUse, match="unencrypted"):
        Connection("http://export.example.org")
    for address in ("http://localhost:8400", "http://127.0.0.9:1/", "http://[::1]:8400/exports/"):
        connection = Connection(address)
        assert connection.address == address.rstrip("/")
        connection.close()
    Connection("http://export.example.org", plain_http=True).close()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", r"pip install 'httpx\[socks\]'"),
        ("ALL_PROXY", "socks4://127.0.0.1:1", "is not valid"),
        ("HTTPS_PROXY", "ftp://127.0.0.1", "is not valid"),
        ("HTTP_PROXY", "http://ana:secret@127.0.0.1:x", "is not valid"),
        ("ALL_PROXY", "http://[::1", "is not valid"),
        ("SSL_CERT_FILE", "/nonexistent", "SSL_CERT_FILE or SSL_CERT_DIR does not contain certificates: No such file"),
        ("SSL_CERT_FILE", "/etc/passwd", "does not contain certificates: no certificate or crl found"),
        ("SSL_CERT_FILE", "/", "does not contain certificates"),
    ],
)
def test_invalid_proxy_or_certificate_file_is_wrong_use(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(WrongUse, match=message) as caught:
        Connection("https://export.example.org")
    assert "secret" not in caught.value.message


@pytest.mark.parametrize("trusted", [False, True])
def test_certificate_of_an_unknown_ca_is_wrong_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, trusted: bool
) -> None:
    certificate = tmp_path / "certificate.pem"
    own_certificate(certificate)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with scripted_service(certificate) as service:
        service.script = lambda _: Reply(200, {"data": 7})
        connection = Connection(service.url)
        if trusted:
            assert connection.request("GET", "/x", dict) == {"data": 7}
        else:
            with pytest.raises(WrongUse, match=r"is not accepted: self-signed certificate\. Add the CA"):
                connection.request("GET", "/x", dict)
            with pytest.raises(WrongUse, match="is not accepted"), connection.download("/x", 0):
                pass
        connection.close()


@pytest.mark.parametrize(
    ("certificate", "advice"),
    [({"expired": True}, "has expired. Check the clock"), ({"address": "127.0.0.9"}, "'127.0.0.1'. Check the URL")],
)
def test_refused_certificate_has_fitting_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: dict[str, Any], advice: str
) -> None:
    file = tmp_path / "certificate.pem"
    own_certificate(file, **certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with (
        scripted_service(file) as service,
        closing(Connection(service.url)) as connection,
        pytest.raises(WrongUse) as caught,
    ):
        connection.request("GET", "/x", dict)
    assert advice in caught.value.message
