"""Where credentials go, what is asked again, and what refusals become."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from daybreak_client import connection as connections
from daybreak_client.connection import Connection
from daybreak_client.errors import NotPublished, Refused, Unreachable, WrongUse
from daybreak_client.published import accounts_of, issued_of, published_of
from tests.parts.scripted_service import HANG_UP, Asked, Said, ScriptedService, scripted_service
from tests.parts.waiting import free_port


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


def in_turn(*answers: Said) -> Iterator[Said]:
    return iter(answers)


def test_the_token_goes_to_the_service_and_not_where_it_redirects_to(
    service: ScriptedService, connection: Connection
) -> None:
    with scripted_service() as store:
        store.script = lambda _: Said(200, b"octets")
        service.script = lambda asked: {
            "/download/v1/files/north/members.csv.gz": Said(
                302, {"data": {"url": f"{service.url}/link"}}, {"Location": "/link"}
            ),
            "/link": Said(302, headers={"Location": f"{store.url}/bucket/members"}),
        }[asked.path]
        issued = connection.ask("GET", "/download/v1/files/north/members.csv.gz", dict, token="secret")
        with connection.octets(issued["data"]["url"], 0) as (begin, octets):
            assert (begin, b"".join(octets)) == (0, b"octets")
    first, link = service.asked
    assert (first.path, first.headers["authorization"]) == ("/download/v1/files/north/members.csv.gz", "Bearer secret")
    (stored,) = store.asked
    for asked in (link, stored):
        assert "authorization" not in asked.headers
        assert "cookie" not in asked.headers
        assert "secret" not in asked.path


def test_a_service_that_is_busy_is_asked_again(service: ScriptedService, connection: Connection) -> None:
    problem = {"code": "busy", "detail": "Busy."}
    answers = in_turn(Said(503, problem, {"Retry-After": "0"}), Said(502, b"<html>"), Said(200, {"data": 7}))
    service.script = lambda _: next(answers)
    assert connection.ask("GET", "/x", dict) == {"data": 7}
    assert len(service.asked) == 3


def test_a_service_that_stays_busy_is_left_alone_in_the_end(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Said(503, {"code": "busy", "detail": "Busy."}, {"Retry-After": "0"})
    with pytest.raises(Unreachable, match="Busy"):
        connection.ask("GET", "/x", dict)
    assert len(service.asked) == 5


def test_who_is_told_to_wait_long_is_not_kept_waiting(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Said(429, {"code": "rate_limited", "detail": "Too many."}, {"Retry-After": "290"})
    with pytest.raises(Unreachable, match=r"Too many\. Try again in 290 seconds"):
        connection.ask("POST", "/login", dict, body={})
    assert len(service.asked) == 1


@pytest.mark.parametrize(("method", "times"), [("GET", 5), ("POST", 1), ("PUT", 1), ("DELETE", 1)])
def test_only_what_may_come_twice_is_sent_again_after_a_connection_broke(
    service: ScriptedService, connection: Connection, method: str, times: int
) -> None:
    service.script = lambda _: Said(HANG_UP)
    with pytest.raises(Unreachable, match="does not answer"):
        connection.ask(method, "/x", dict)
    assert len(service.asked) == times


def test_a_service_that_is_not_there_is_told_with_its_address() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    connection = Connection(address)
    with pytest.raises(Unreachable, match=address):
        connection.ask("POST", "/x", dict)
    connection.close()


def test_a_refusal_is_told_in_the_services_words(service: ScriptedService, connection: Connection) -> None:
    problem = {"code": "not_your_account", "detail": "No access.", "request_id": "r1"}
    service.script = lambda _: Said(403, problem)
    with pytest.raises(Refused, match=r"No access\.") as told:
        connection.ask("GET", "/x", dict)
    assert (told.value.code, told.value.status, told.value.request_id) == ("not_your_account", 403, "r1")
    assert len(service.asked) == 1


def test_files_that_are_not_there_yet_are_told_with_the_time_to_come_back(
    service: ScriptedService, connection: Connection
) -> None:
    service.script = lambda _: Said(404, {"code": "snapshot_not_ready", "detail": "None yet."}, {"Retry-After": "90"})
    with pytest.raises(NotPublished, match="None yet") as told:
        connection.ask("GET", "/x", dict)
    assert told.value.retry_after_seconds == 90


@pytest.mark.parametrize(
    "said",
    [
        Said(404, b"<html>no such page"),
        Said(404, {"error": "no such page"}),
        Said(301, b"<html>moved"),
        Said(200, b"<html>welcome"),
        Said(200),
        Said(200, [1]),
        Said(200, {"data": [1]}),
        Said(200, {"data": {"client_id": "north", "as_of": "today"}}),
    ],
    ids=["not found", "its not found", "moved", "a page", "nothing", "a list", "other data", "other values"],
)
def test_another_service_is_told_as_such(service: ScriptedService, connection: Connection, said: Said) -> None:
    service.script = lambda _: said
    for read in (published_of, accounts_of, issued_of):
        with pytest.raises(WrongUse, match="is this"):
            connection.ask("GET", "/x", read)


def test_links_that_lead_nowhere_are_an_error(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda asked: Said(302, headers={"Location": asked.path + "x"})
    for link in ("/link", "http://[::1", "http://127.0.0.1:x/", "ftp://127.0.0.1/x"):
        with pytest.raises(Unreachable), connection.octets(link, 0):
            pass


def test_a_fault_without_words_is_worth_another_try_later(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Said(500, b"<html>")
    with pytest.raises(Unreachable, match="500"):
        connection.ask("GET", "/x", dict)


def test_octets_are_as_they_are_stored(service: ScriptedService, connection: Connection) -> None:
    def script(asked: Asked) -> Said:
        assert asked.headers["accept-encoding"] == "identity"
        if "range" not in asked.headers:
            return Said(200, b"\x1f\x8bpacked", {"Content-Encoding": "gzip"})
        return Said(206, b"packed", {"Content-Range": "bytes 2-7/8"})

    service.script = script
    with connection.octets("/link", 0) as (begin, octets):
        assert (begin, b"".join(octets)) == (0, b"\x1f\x8bpacked")
    with connection.octets("/link", 2) as (begin, octets):
        assert (begin, b"".join(octets)) == (2, b"packed")


def test_a_transfer_that_breaks_off_is_an_error(service: ScriptedService, connection: Connection) -> None:
    service.script = lambda _: Said(200, b"half", {"Content-Length": "8"})
    with pytest.raises(Unreachable, match="broke off"), connection.octets("/link", 0) as (_, octets):
        b"".join(octets)


def test_a_link_that_would_travel_in_the_clear_is_not_followed(service: ScriptedService) -> None:
    connection = Connection(f"https://127.0.0.1:{free_port()}")
    with pytest.raises(Unreachable, match="without https"), connection.octets(f"{service.url}/link", 0):
        pass
    assert service.asked == []
    connection.close()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "export.example.org",
        "ftp://export.example.org",
        "https://",
        "https://a:b@example.org",
        "https://e.org/?a=b",
        "https://example.org:x",
        "https://example.org:99999",
        "https://example..org",
        "https://xn--example-.org",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(WrongUse, match="no address"):
        Connection(address)


def test_plain_http_over_a_network_needs_to_be_allowed() -> None:
    with pytest.raises(WrongUse, match="in the clear"):
        Connection("http://export.example.org")
    for address in ("http://localhost:8400", "http://127.0.0.9:1/", "http://[::1]:8400/exports/"):
        connection = Connection(address)
        assert connection.address == address.rstrip("/")
        connection.close()
    Connection("http://export.example.org", plain_http=True).close()
