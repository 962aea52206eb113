"""Request lines: versions, targets and methods that the service refuses."""

import json
import re

import pytest

from tests.acceptance.service import Service
from tests.acceptance.test_framing import SMUGGLED, answers_to

# The connection preface of HTTP/2 (RFC 9113 §3.4) with an empty SETTINGS frame.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
STATUS = re.compile(rb"HTTP/\d\.\d (\d{3})")


@pytest.mark.parametrize(
    "version",
    ["HTTP/2.0", "HTTP/2", "HTTP/3.0", "HTTP/1.2", "HTTP/1.10", "HTTP/01.1", "HTTP/0.9", "RTSP/1.0", "SIP/2.0",
     "http/1.1", "HTTPS/1.1", "ICY", ""],
)  # fmt: skip
def test_other_versions_are_refused(service: Service, version: str) -> None:
    """The version is HTTP/1.0 or HTTP/1.1, in capitals (RFC 9112 §2.3)."""
    answers = answers_to(service, f"GET /healthz {version}\r\nHost: a\r\n\r\n".encode() + SMUGGLED)
    assert STATUS.findall(answers) == [b"400"]
    assert answers.endswith(b"\r\n\r\n"), "a response without a body"


def test_http_2_without_negotiation_is_refused(service: Service) -> None:
    assert answers_to(service, PREFACE + SMUGGLED) == b""


def test_http_1_0_ends_the_connection(service: Service) -> None:
    answers = answers_to(service, b"GET /healthz HTTP/1.0\r\nHost: a\r\n\r\n" + SMUGGLED)
    assert STATUS.findall(answers) == [b"200"]


def test_chunks_of_http_1_0_are_refused(service: Service) -> None:
    """RFC 9112 §6.1: such a message has an ambiguous end."""
    head = b"POST /healthz HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert STATUS.findall(answers_to(service, head + b"0\r\n\r\n" + SMUGGLED)) == [b"400"]


@pytest.mark.parametrize("length", [8_193, 20_000, 60_000])
@pytest.mark.parametrize("target", [b"/", b"/healthz?"])
def test_long_target_is_414(service: Service, target: bytes, length: int) -> None:
    line = b"GET " + target.ljust(length, b"a") + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    head, _, body = answers_to(service, line + SMUGGLED).partition(b"\r\n\r\n")
    assert STATUS.findall(head + body) == [b"414"]
    assert json.loads(body)["code"] == "uri_too_long"


@pytest.mark.parametrize("length", [300_000, 20_000_000])
def test_endless_target_is_refused_without_reading_it(service: Service, length: int) -> None:
    """The server parses only complete heads, so the status is that of a long head."""
    try:
        answers = answers_to(service, b"GET /" + b"a" * length + b" HTTP/1.1\r\nHost: a\r\n\r\n" + SMUGGLED)
    except (ConnectionResetError, BrokenPipeError):
        return
    assert STATUS.findall(answers) in ([b"414"], [b"431"])


def test_long_method_is_refused_and_logged_without_secrets(service: Service) -> None:
    token = b"service_api_0123456789abcdefghijABCDEFGHIJ01234567"
    body = answers_to(service, token + b" /healthz HTTP/1.1\r\nHost: a\r\n\r\n" + SMUGGLED).partition(b"\r\n\r\n")[2]
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (400, "invalid_request")
    assert service.logged(problem["request_id"])["status"] == 400
    assert token.decode() not in service.program.log()
