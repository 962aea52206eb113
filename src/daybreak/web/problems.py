"""Errors as HTTP answers: one table from code to status, and problem bodies (RFC 9457).

A body says what happened to the person who asked and nothing about the inside of the service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from starlette.responses import Response

from daybreak.domain.errors import (
    Conflict,
    DaybreakError,
    Forbidden,
    InvalidRequest,
    NotFound,
    RateLimited,
    RequestError,
    Unauthenticated,
    Unavailable,
)

PROBLEM_TYPE = "application/problem+json"

PROBLEMS: Mapping[str, tuple[int, str]] = {
    "invalid_request": (400, "The request is malformed"),
    "weak_password": (400, "The password is too easy to guess"),
    "invalid_host": (400, "The Host header is missing or malformed"),
    "invalid_credentials": (401, "Email or password is wrong"),
    "missing_token": (401, "A bearer token is needed"),
    "invalid_token": (401, "The token is not good"),
    "session_ended": (401, "The session has ended"),
    "token_revoked": (401, "The token was revoked"),
    "token_expired": (401, "The token has expired"),
    "invalid_code": (401, "The code is not good"),
    "not_your_account": (403, "This account is not in your reach"),
    "account_inactive": (403, "The account is inactive"),
    "no_active_account": (403, "No active account in reach"),
    "second_factor_required": (403, "A second factor is owed"),
    "second_factor_not_enrolled": (403, "No second factor is enrolled"),
    "data_export_required": (403, "Data Export is not enabled"),
    "async_rest_api_required": (403, "Async REST API is not enabled"),
    "session_required": (403, "A session is needed, not an API token"),
    "api_tokens_disabled": (403, "API tokens are not enabled"),
    "invalid_link": (403, "The link is not good"),
    "link_expired": (403, "The link has expired"),
    "link_revoked": (403, "The link was revoked"),
    "cross_site": (403, "The request came from another site"),
    "https_required": (403, "Plain HTTP is refused"),
    "reauthentication_required": (403, "The password is needed again"),
    "not_an_operator": (403, "Operators only"),
    "not_found": (404, "Nothing is here"),
    "unknown_file": (404, "There is no such file"),
    "file_gone": (404, "The snapshot is no longer kept"),
    "snapshot_not_ready": (404, "There is no snapshot yet"),
    "method_not_allowed": (405, "The method is not allowed here"),
    "request_timeout": (408, "The request took too long to arrive"),
    "conflict": (409, "It is there already, or decided already"),
    "too_many_tokens": (409, "There are too many tokens"),
    "precondition_failed": (412, "The file is another one now"),
    "body_too_large": (413, "The body is too large"),
    "unsupported_media_type": (415, "Send JSON"),
    "range_not_satisfiable": (416, "The range is not in the file"),
    "rate_limited": (429, "Too many attempts"),
    "head_too_large": (431, "The head of the request is too large"),
    "internal_error": (500, "Something went wrong here"),
    "file_damaged": (500, "The stored file is damaged"),
    "file_store_fault": (503, "The files are away"),
    "files_unavailable": (503, "The files are away"),
    "state_unavailable": (503, "The state database is away"),
    "busy": (503, "The service is busy"),
    "second_factor_unreadable": (503, "The second factor cannot be checked"),
    "unavailable": (503, "A part of the service is away"),
}
"""Code -> status and title. What a code means to a client; /docs shows the same table."""

# A code that a later version adds still gets the status of its branch of the tree.
_BRANCHES: tuple[tuple[type[DaybreakError], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (RateLimited, 429),
    (RequestError, 400),
    (Unavailable, 503),
)

# Of the inside of the service, whatever the message says.
_UNTOLD = {
    "file_damaged": "The stored file does not match its digest and is not served. "
    "The operator has to restore it or make all files anew.",
    "file_store_fault": "The stored file cannot be read at the moment. Try again.",
    "files_unavailable": "The files do not answer at the moment. Try again shortly.",
    "state_unavailable": "The state database does not answer. Try again shortly.",
    "internal_error": "The request could not be answered. The request id finds it in the logs.",
}


class MethodNotAllowed(RequestError):
    """The path takes other methods (405); `allowed` goes into Allow (RFC 9110 §10.2.1)."""

    code = "method_not_allowed"

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = ", ".join(allowed)
        super().__init__(f"This path takes {self.allowed}.")


class RangeNotSatisfiable(RequestError):
    """No part that was asked for is in the file (416); `size` goes into Content-Range."""

    code = "range_not_satisfiable"

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class FieldProblem(msgspec.Struct, frozen=True):
    """One field at fault: where it is (RFC 6901) and what to send."""

    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem body, RFC 9457 §3."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: tuple[FieldProblem, ...] = ()


def status_of(error: DaybreakError) -> int:
    """The HTTP status of an error: by its code, else by its branch of the tree, else 500."""
    known = PROBLEMS.get(error.code)
    if known is not None:
        return known[0]
    for branch, status in _BRANCHES:
        if isinstance(error, branch):
            return status
    return 500


def problem_of(error: DaybreakError, *, request_id: str, base_url: str) -> Problem:
    """The body of an error's answer."""
    status = status_of(error)
    code = error.code if error.code in PROBLEMS or status < 500 else "internal_error"
    title = PROBLEMS[code][1] if code in PROBLEMS else code.replace("_", " ").capitalize()
    faults = error.faults if isinstance(error, InvalidRequest) else ()
    return Problem(
        type=f"{base_url}/docs#{code}",
        title=title,
        status=status,
        detail=_UNTOLD.get(code, error.message),
        code=code,
        request_id=request_id,
        errors=tuple(FieldProblem(fault.pointer, fault.detail) for fault in faults),
    )


def problem_headers(error: DaybreakError) -> dict[str, str]:
    """The headers that go with an error: how to ask, and when to ask again."""
    headers = {}
    status = status_of(error)
    if status == 401:
        headers["WWW-Authenticate"] = f'Bearer realm="daybreak", error="{_bearer_error(error)}"'
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = error.allowed
    elif isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
        headers["Accept-Ranges"] = "bytes"
    elif isinstance(error, RateLimited):
        wait = max(1, error.retry_after_seconds)
        headers["Retry-After"] = str(wait)
        if error.limit:
            headers["RateLimit-Limit"] = str(error.limit)
            headers["RateLimit-Remaining"] = "0"
            headers["RateLimit-Reset"] = str(wait)
            headers["RateLimit-Policy"] = f'"attempts";q={error.limit};w={error.window_seconds}'
            headers["RateLimit"] = f'"attempts";r=0;t={wait}'
    elif isinstance(error, Unavailable | NotFound):
        if error.retry_after_seconds is not None:
            headers["Retry-After"] = str(max(1, error.retry_after_seconds))
    elif status == 503:
        headers["Retry-After"] = "5"
    return headers


def problem_response(
    error: DaybreakError,
    *,
    request_id: str,
    base_url: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The whole answer to an error."""
    problem = problem_of(error, request_id=request_id, base_url=base_url)
    return Response(
        msgspec.json.encode(problem),
        status_code=problem.status,
        media_type=PROBLEM_TYPE,
        headers={**problem_headers(error), **(headers or {})},
    )


def _bearer_error(error: DaybreakError) -> str:
    """RFC 6750 §3.1: everything that is wrong with a token is `invalid_token`."""
    if error.code in {"invalid_credentials", "invalid_code"}:
        return error.code
    return "invalid_token"
