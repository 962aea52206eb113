"""HTTP: the credential goes to the service alone, what passes by itself is tried again, refusals are errors."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx

from daybreak_client.errors import ClientError, NotPublished, Refused, Unreachable, WrongUse

Answer = TypeVar("Answer")

_TRIES = 5
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 60.0
_TIMEOUT = httpx.Timeout(60.0, connect=15.0)
_TO_COME_BACK = frozenset({429, 502, 503, 504})


class Connection:
    """Requests to one service. Several threads may use it at once; to be closed."""

    def __init__(self, address: str, *, plain_http: bool = False) -> None:
        """`address` is the service's, such as `https://export.example.org`. Raises WrongUse when it is none, or when
        it would send credentials over a network in the clear and `plain_http` does not allow that.
        """
        from importlib.metadata import version

        self.address = _checked(address, plain_http=plain_http)
        headers = {"User-Agent": f"daybreak/{version('daybreak')}", "Accept-Encoding": "identity"}
        self._http = httpx.Client(headers=headers, timeout=_TIMEOUT)

    def close(self) -> None:
        """Closes what is open."""
        self._http.close()

    def ask(
        self,
        method: str,
        path: str,
        read: Callable[[Any], Answer],
        *,
        token: str | None = None,
        body: Mapping[str, object] | None = None,
    ) -> Answer:
        """What `read` makes of the JSON that the service answers with, of None when it has nothing to say. A redirect
        is not followed: its own body is what counts.

        Raises Refused, Unreachable, and WrongUse when the answer is none of the service's.
        """
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        url = self.address + path
        for tries_left in reversed(range(_TRIES)):
            try:
                answer = self._http.request(method, url, headers=headers, json=body)
            except httpx.RequestError as fault:
                # What may have arrived is asked for again only where twice is the same as once.
                if not tries_left or not (method == "GET" or isinstance(fault, httpx.ConnectError)):
                    raise Unreachable(f"{self.address} does not answer: {_said(fault)}.") from fault
                time.sleep(_back_off(tries_left))
                continue
            if answer.is_success or answer.is_redirect:
                return _read(answer, read)
            wait = _wait_of(answer, tries_left)
            if wait is None:
                raise _refusal(answer)
            time.sleep(wait)
        raise AssertionError("the last try answers or raises")

    @contextlib.contextmanager
    def octets(self, url: str, offset: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """What a signed link opens, from `offset` on if that is served: where the octets begin, and the octets.

        The link is credential enough: no other goes with it, to whatever store it leads. Raises Refused, Unreachable.
        """
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        link = self._link(url)
        try:
            with self._http.stream("GET", link, headers=headers, follow_redirects=True) as answer:
                if answer.is_success:
                    yield offset if answer.status_code == httpx.codes.PARTIAL_CONTENT else 0, answer.iter_raw()
                    return
                answer.read()
                raise _refusal(answer)
        except (httpx.RequestError, httpx.InvalidURL) as fault:
            raise Unreachable(f"The transfer broke off: {_said(fault)}.") from fault

    def _link(self, url: str) -> str:
        """The link as an address. Raises Unreachable when it would travel in the clear though the service does not."""
        try:
            absolute = urljoin(self.address, url)
        except ValueError as fault:
            raise Unreachable("The service gives links that are no addresses. Tell who runs it.") from fault
        if self.address.startswith("https:") and not absolute.startswith("https:"):
            raise Unreachable("The service gives links without https: its base_url is wrong. Tell who runs it.")
        return absolute


def _checked(address: str, *, plain_http: bool) -> str:
    try:
        parts = urlsplit(address.strip())
        # Read for their errors alone: a port that is none, a name that nobody could be asked about.
        _, _ = parts.port, httpx.URL(address.strip()).host.encode("idna")
    except (ValueError, httpx.InvalidURL):
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.username:
        raise WrongUse(f"{address!r} is no address of a service: write one such as https://export.example.org.")
    if parts.scheme == "http" and not plain_http and not _is_near(parts.hostname):
        raise WrongUse(
            f"{address} would send passwords and tokens over the network in the clear. Write https://, or allow it "
            "(--plain-http, DAYBREAK_PLAIN_HTTP=1) where nobody listens."
        )
    return address.strip().rstrip("/")


def _is_near(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _wait_of(answer: httpx.Response, tries_left: int) -> float | None:
    """Seconds after which to ask again; None when asking again soon would not help."""
    if answer.status_code not in _TO_COME_BACK or not tries_left:
        return None
    told = _retry_after(answer)
    wait = _back_off(tries_left) if told is None else told
    return wait if wait <= _LONGEST_WAIT_SECONDS else None


def _back_off(tries_left: int) -> float:
    return _FIRST_WAIT_SECONDS * 2.0 ** (_TRIES - 1 - tries_left)


def _retry_after(answer: httpx.Response) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None


def _refusal(answer: httpx.Response) -> ClientError:
    """The error of an answer that is none of what was asked for."""
    try:
        problem = answer.json()
        code, detail = problem["code"], problem["detail"]
        request_id = problem.get("request_id", "")
    except (ValueError, TypeError, KeyError):
        said = f"{answer.url.host} answered {answer.status_code} {answer.reason_phrase}"
        if answer.status_code in _TO_COME_BACK or answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            return Unreachable(f"{said}. Try again later.")
        return WrongUse(f"{said}: is this the address of the service?")
    again = _retry_after(answer)
    if code == "snapshot_not_ready":
        return NotPublished(detail, request_id=request_id, retry_after_seconds=60.0 if again is None else again)
    if answer.status_code in _TO_COME_BACK:
        return Unreachable(detail if again is None else f"{detail} Try again in {again:.0f} seconds.")
    return Refused(detail, code=code, status=answer.status_code, request_id=request_id)


def _read(answer: httpx.Response, read: Callable[[Any], Answer]) -> Answer:
    try:
        return read(answer.json() if answer.content else None)
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        raise WrongUse(f"{answer.url.host} does not answer as the service does: is this its address?") from fault


def _said(fault: Exception) -> str:
    return str(fault).rstrip(".") or type(fault).__name__
