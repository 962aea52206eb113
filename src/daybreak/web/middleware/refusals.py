"""Refusal of requests by their head: what the server leaves to the application, and plain HTTP."""

import re
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.domain.errors import DaybreakError, Forbidden, InvalidRequest, NotFound, RequestError
from daybreak.web.errors import error_response
from daybreak.web.request_state import client_of, record_refusal

# RFC 9110 §4.1 recommends at least 8,000 octets.
MAX_TARGET_BYTES = 8 * 1024
MAX_HEADER_BYTES = 64 * 1024
# The longest registered method has 17 characters (IANA HTTP Method Registry).
MAX_METHOD_LENGTH = 32
_HOST = re.compile(rb"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
# Used by health checks on the same machine.
_PLAIN_HTTP_PATHS = frozenset({"/healthz", "/readyz"})

FindError = Callable[[Scope], DaybreakError | None]


class RefusalMiddleware:
    """Refuse requests for which `find_error` returns an error. The response has further `headers`."""

    def __init__(
        self, app: ASGIApp, *, find_error: FindError, base_url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._app = app
        self._find_error = find_error
        self._base_url = base_url
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._find_error(scope)
        if error is None:
            await self._app(scope, receive, send)
            return
        record_refusal(scope, error.code)
        response = error_response(scope, error, base_url=self._base_url, headers=self._headers)
        await response(scope, receive, send)


def head_error(scope: Scope) -> DaybreakError | None:
    """Return the error in the head of a request, None when it is valid."""
    query = scope["query_string"]
    target_length = len(scope.get("raw_path") or b"") + (len(query) + 1 if query else 0)
    if target_length > MAX_TARGET_BYTES:
        return RequestError(f"The URL is longer than {MAX_TARGET_BYTES} bytes.", code="uri_too_long")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        return RequestError(f"The headers are longer than {MAX_HEADER_BYTES} bytes.", code="head_too_large")
    if len(scope["method"]) > MAX_METHOD_LENGTH:
        return InvalidRequest(f"The method is longer than {MAX_METHOD_LENGTH} characters.")
    hosts = _values(scope, b"host")
    # RFC 9112 §3.2.
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return InvalidRequest("Send exactly one Host header with the name of the service.", code="invalid_host")
    codings = _values(scope, b"transfer-encoding")
    # RFC 9112 §6.1: any other coding is a compressed body, or makes the end of the body ambiguous.
    if codings and (len(codings) > 1 or codings[0].lower() != b"chunked"):
        return InvalidRequest("Send no Transfer-Encoding header, or one with the value chunked.")
    # RFC 9112 §3.2.3 and §3.2.4: this service is not a tunnel and has no resource named `*`.
    if scope["method"] == "CONNECT" or not scope["path"].startswith("/"):
        return InvalidRequest("Send the path of a resource as the request target.")
    # Databases treat NUL in different ways.
    if "\x00" in scope["path"] or b"%00" in query:
        return NotFound("The URL contains a NUL character. Remove it.")
    return None


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for found, value in scope["headers"] if found == name]


def plain_http_error(scope: Scope) -> DaybreakError | None:
    """Return the error of a request over plain HTTP. Health checks from this machine are permitted.

    A redirect would hide that the client has already sent its credential in clear text.
    """
    client = client_of(scope)
    if client.secure or (client.loopback and scope["path"] in _PLAIN_HTTP_PATHS):
        return None
    return Forbidden(
        "This service accepts HTTPS only. Change any credential that you sent over plain HTTP: others may have read "
        "it.",
        code="https_required",
    )
