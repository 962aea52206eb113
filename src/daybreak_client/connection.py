"""HTTP requests to the service: retries of transient failures, and refusals as errors.

The token is sent to the service only, never to a file store that a link redirects to.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from http.cookiejar import DefaultCookiePolicy
from ipaddress import ip_address
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from daybreak_client import wire
from daybreak_client.errors import ClientError, Damaged, NotPublished, Refused, Unreachable, WrongUse
from daybreak_client.http_client import cause_of, check_certificate, make_client

T = TypeVar("T")

_MAX_ATTEMPTS = 5
_FIRST_WAIT_SECONDS = 0.5
# Longer than the one minute of the service's limit on links.
_MAX_WAIT_SECONDS = 90.0
# A link leads to the service, which may redirect to a file store, which may redirect to another of its hosts.
_MAX_REDIRECTS = 5
_MAX_RESPONSE_SECONDS = 300.0
_POLL_SECONDS = 1.0
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,13})-[0-9]{1,13}/(?:[0-9]{1,13}|\*)")
# Refusals of a link that do not apply to the next one: its file was replaced, or the clocks of two servers differ.
_REFUSALS_OF_LINKS = frozenset({"invalid_link", "link_expired", "link_revoked"})
_TRANSIENT_STATUSES = frozenset({429, 502, 503, 504})
# What to do about a refusal, where the service's own text describes requests of its API.
_WAYS_OUT = {
    "wrong_context": "This token is for another of your accounts. Select that account with --account or "
    "DAYBREAK_ACCOUNT, or use a token of this account.",
    "not_found": "The service has no such endpoint. Check its URL, or ask its operator to enable the endpoint.",
    "session_required": "Sign in with `daybreak login`, with email and password: an API token cannot do this.",
}


class Connection:
    """Connections to one service. Thread-safe. Must be closed."""

    def __init__(self, address: str, *, plain_http: bool = False) -> None:
        """Create connections to a URL such as `https://export.example.org`.

        Raises WrongUse for an invalid URL, and for plain HTTP over a network unless `plain_http` allows it.
        """
        from importlib.metadata import version

        self.address = _validated(address, plain_http=plain_http)
        headers = {"User-Agent": f"daybreak/{version('daybreak')}", "Accept-Encoding": "identity"}
        self._http = make_client(headers)
        # A file store must not receive cookies of the service, nor the other way around. No service needs them.
        self._http.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        parse: Callable[[Any], T],
        *,
        token: str | None = None,
        body: Mapping[str, object] | None = None,
    ) -> T:
        """Send a request and return the parsed JSON or text of the response, `parse(None)` for an empty one.

        Redirects are not followed; their body is parsed. Raises Refused, Unreachable, and WrongUse for a response that
        does not come from Daybreak and for an invalid token.
        """
        response = self._send(method, path, {} if token is None else _bearer(token), body)
        return _parsed(response, parse)

    def request_if_changed(
        self, path: str, parse: Callable[[Any, str], T], *, token: str, etag: str | None
    ) -> T | None:
        """Request JSON unless it still has this entity tag, and return `parse(JSON, entity tag)`, else None.

        Raises Refused, Unreachable, WrongUse.
        """
        condition = {} if etag is None else {"If-None-Match": etag}
        response = self._send("GET", path, {**_bearer(token), **condition}, None)
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return None
        return _parsed(response, lambda value: parse(value, wire.etag(response.headers.get("ETag", ""))))

    def content(self, path: str, *, token: str | None = None) -> bytes | None:
        """Request a small file and return it byte for byte, None if it does not exist.

        Raises NotPublished, Refused, Unreachable, WrongUse.
        """
        try:
            response = self._send("GET", path, {} if token is None else _bearer(token), None)
        except Refused as refusal:
            if isinstance(refusal, NotPublished) or refusal.status not in {httpx.codes.NOT_FOUND, httpx.codes.GONE}:
                raise
            return None
        if not response.is_success:
            raise WrongUse(f"{self.address} redirects {path}. Check the URL of the service.")
        return response.content

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, object] | None
    ) -> httpx.Response:
        url = self.address + path
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            try:
                response = _in_time(lambda: self._exchange(method, url, headers, body))
            except (httpx.LocalProtocolError, httpx.InvalidURL, UnicodeError):
                # The error may quote a header with the token.
                raise WrongUse("The request contains an invalid character. Check the account and the URL.") from None
            except httpx.RequestError as fault:
                check_certificate(fault)
                # A request that may have arrived is repeated only if it is idempotent.
                if not attempts_left or not (method == "GET" or isinstance(fault, httpx.ConnectError)):
                    raise Unreachable(f"{self.address} does not answer: {cause_of(fault)}") from fault
                time.sleep(_backoff(attempts_left))
                continue
            if response.is_success or response.is_redirect or response.status_code == httpx.codes.NOT_MODIFIED:
                return response
            _pause_or_raise(response, attempts_left, _error_of)
        raise AssertionError("the last attempt returns or raises")

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: Mapping[str, object] | None
    ) -> httpx.Response:
        with self._http.stream(method, url, headers=headers, json=body) as response:
            return _read_bounded(response)

    @contextlib.contextmanager
    def download(self, url: str, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Download a signed link from `offset`. Yields the first byte's offset (0 if ranges are ignored) and the bytes.

        No token is sent: the link is the credential, and it may redirect to a file store. After the response to another
        range, the whole file is requested. Raises Refused, Damaged, and Unreachable, also when another link may help.
        """
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            with _redirected(self._http, self.address, url, headers) as response:
                start = _first_byte(response)
                if start in {0, offset}:
                    yield start, response.iter_raw()
                    return
            if offset and (response.is_success or response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE):
                with self.download(url, 0) as content:
                    yield content
                return
            if response.is_success:
                raise Damaged(f"{response.url.host} returned a part of a file instead of the file. Try again later.")
            _pause_or_raise(response, attempts_left, _error_of_link)


@contextlib.contextmanager
def _redirected(http: httpx.Client, base: str, url: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
    """Yield the response that the redirects of a link lead to. Raises Unreachable."""
    try:
        with contextlib.closing(_in_time(lambda: _follow(http, base, url, headers))) as response:
            yield response
    except (httpx.RequestError, httpx.InvalidURL, UnicodeError) as fault:
        check_certificate(fault)
        raise Unreachable(f"The transfer was interrupted: {cause_of(fault)}") from fault


def _follow(http: httpx.Client, base: str, url: str, headers: Mapping[str, str]) -> httpx.Response:
    """Follow the redirects of a link, without a downgrade from https at any of them. Return the last response, whose
    body is read if it is not a success.
    """
    for _ in range(_MAX_REDIRECTS + 1):
        base = _next_url(base, url)
        response = http.send(http.build_request("GET", base, headers=headers), stream=True)
        if response.is_success:
            return response
        with contextlib.closing(response):
            if not response.has_redirect_location:
                return _read_bounded(response)
            url = response.headers["Location"]
    raise Unreachable("The link redirects too often. Contact the operator of the service.")


def _in_time(exchange: Callable[[], T]) -> T:
    """Return the result of an exchange with a server. Raises Unreachable after five minutes.

    Each byte of a response renews the timeout of its connection, and a response may have any number of interim ones
    (RFC 9110 section 15.2). The exchange therefore has its own thread, which is left behind when it takes too long.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(exchange())
        except BaseException as fault:  # noqa: BLE001 - raised in the thread of the caller
            result.set_exception(fault)

    thread, until = Thread(target=run, name="exchange", daemon=True), time.monotonic() + _MAX_RESPONSE_SECONDS
    thread.start()
    # In short waits, because Ctrl-C immediately before a wait does not end it.
    while thread.is_alive() and time.monotonic() < until:
        thread.join(_POLL_SECONDS)
    if not result.done():
        raise Unreachable("The service sends its response too slowly. Try again later.")
    return result.result()


def _first_byte(response: httpx.Response) -> int:
    """Return the offset of the first byte of a file in a response, -1 if it has none or does not name it."""
    if response.status_code != httpx.codes.PARTIAL_CONTENT:
        return 0 if response.is_success else -1
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return -1 if found is None else int(found[1])


def _next_url(base: str, url: str) -> str:
    """Return the absolute URL of a link. Raises Unreachable when it is invalid or would downgrade https to http."""
    try:
        return wire.link(url, base)
    except wire.InvalidValue as fault:
        raise Unreachable(f"The service returned an invalid link: {fault}. Contact its operator.") from None


def _read_bounded(response: httpx.Response) -> httpx.Response:
    """Return a response that is not a file with its body. Raises Damaged if it is too large or compressed.

    The body of an error is only an explanation. One that is compressed is left out.
    """
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        if response.is_error:
            return httpx.Response(response.status_code, request=response.request)
        raise Damaged(f"{response.url.host} returned a compressed response, which was not requested.")
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > wire.MAX_JSON_BYTES:
            raise Damaged(f"{response.url.host} returned a response of more than 16 MB.")
    return httpx.Response(response.status_code, headers=response.headers, content=bytes(body), request=response.request)


def is_token(text: str) -> bool:
    """Return whether text is possible as a token: printable ASCII characters without spaces."""
    return re.fullmatch(r"[!-~]+", text) is not None


def _bearer(token: str) -> dict[str, str]:
    if not is_token(token):
        raise WrongUse("The token is empty or contains a space or another invalid character. Copy it again.")
    return {"Authorization": f"Bearer {token}"}


def _validated(address: str, *, plain_http: bool) -> str:
    try:
        parts = urlsplit(address.strip())
        # Evaluated only to detect an invalid port or host name.
        _, _ = parts.port, httpx.URL(address.strip()).host.encode("idna")
    except (ValueError, httpx.InvalidURL):
        parts = urlsplit("")
    # A user, a query or a fragment, also an empty one.
    surplus = set("@?#").intersection(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname or surplus:
        shown = "The address" if surplus else repr(address)
        raise WrongUse(f"{shown} is not the URL of a service. Use one such as https://export.example.org.")
    if parts.scheme == "http" and not plain_http and not _is_local(parts.hostname):
        raise WrongUse(
            f"{address} would send passwords and tokens unencrypted over the network. Use https://, or allow it with "
            "--plain-http or DAYBREAK_PLAIN_HTTP=1 on a trusted network."
        )
    # One service must not look like two (RFC 3986 section 6.2).
    host = parts.netloc.lower().removesuffix({"http": ":80", "https": ":443"}[parts.scheme])
    return parts._replace(netloc=host).geturl().rstrip("/")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _pause_or_raise(
    response: httpx.Response, attempts_left: int, error_of: Callable[[httpx.Response], ClientError]
) -> None:
    """Wait before the next attempt. Raises the error of the response when another attempt would not help."""
    retry_after = _retry_after(response)
    wait = _backoff(attempts_left) if retry_after is None else retry_after
    if response.status_code not in _TRANSIENT_STATUSES or not attempts_left or wait > _MAX_WAIT_SECONDS:
        raise error_of(response)
    time.sleep(wait)


def _backoff(attempts_left: int) -> float:
    return _FIRST_WAIT_SECONDS * 2.0 ** (_MAX_ATTEMPTS - 1 - attempts_left)


def _retry_after(response: httpx.Response) -> float | None:
    return wire.retry_after(response.headers.get("Retry-After", ""), datetime.now(UTC))


def _error_of(response: httpx.Response) -> ClientError:
    """Return the error of an unsuccessful response."""
    try:
        problem = wire.mapping(wire.json_value(response.content))
        code, detail = wire.code(problem["code"]), wire.text(problem["detail"])
        request_id = wire.request_id(problem.get("request_id", ""))
    except (ValueError, KeyError):
        text = f"{response.url.host} returned {response.status_code}"
        if response.status_code in _TRANSIENT_STATUSES or response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return Unreachable(f"{text}. Try again later.")
        return WrongUse(f"{text}. Check the URL of the service.")
    retry_after = _retry_after(response)
    if code == "snapshot_not_ready":
        return NotPublished(
            detail, request_id=request_id, retry_after_seconds=60.0 if retry_after is None else max(1.0, retry_after)
        )
    if response.status_code in _TRANSIENT_STATUSES:
        return Unreachable(detail if retry_after is None else f"{detail} Try again in {retry_after:.0f} seconds.")
    message = _WAYS_OUT.get(code, detail)
    return Refused(message, code=code, status=response.status_code, request_id=request_id)


def _error_of_link(response: httpx.Response) -> ClientError:
    """Return the error of an unsuccessful response to a link: Unreachable if another link may help."""
    error = _error_of(response)
    if isinstance(error, Refused) and error.code in _REFUSALS_OF_LINKS:
        return Unreachable(error.message)
    if isinstance(error, WrongUse):
        return Unreachable(f"{response.url.host} refused a link with {response.status_code}. Try again later.")
    return error


def _parsed(response: httpx.Response, parse: Callable[[Any], T]) -> T:
    content, is_text = response.content, response.headers.get("Content-Type", "").startswith("text/plain")
    try:
        # As UTF-8, not in an encoding that the response names: Python has some that are compressions.
        return parse(content.decode() if is_text else wire.json_value(content) if content else None)
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        reason = f": {fault}" if isinstance(fault, wire.InvalidValue) else ""
        raise WrongUse(
            f"{response.url.host} did not return a Daybreak response{reason}. Check the URL of the service."
        ) from fault
