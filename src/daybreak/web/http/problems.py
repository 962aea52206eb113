"""Errors as HTTP responses: the status of each error code, and problem documents (RFC 9457).

A problem document describes the error without internal details.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from daybreak.credentials.redaction import redact
from daybreak.domain.errors import (
    ChainClosed,
    DaybreakError,
    InvalidRequest,
    NotFound,
    RateLimited,
    RequestError,
    Unavailable,
)

PROBLEM_TYPE = "application/problem+json"

PROBLEMS: Mapping[str, tuple[int, str]] = {
    "invalid_request": (400, "Invalid request"),
    "version_not_kept": (400, "Version not kept"),
    "weak_password": (400, "Password too easy to guess"),
    "invalid_host": (400, "Invalid Host header"),
    "invalid_credentials": (401, "Wrong email or password"),
    "missing_token": (401, "Bearer token required"),
    "invalid_token": (401, "Invalid token"),
    "session_ended": (401, "Session ended"),
    "token_revoked": (401, "Token revoked"),
    "token_expired": (401, "Token expired"),
    "invalid_code": (401, "Invalid code"),
    "invalid_passkey": (401, "Passkey refused"),
    "invalid_reset_link": (403, "Link expired or used"),
    "passkey_cloned": (401, "Passkey possibly copied"),
    "not_your_account": (403, "No access to this account"),
    "wrong_context": (403, "Token of another account"),
    "account_inactive": (403, "Account inactive"),
    "password_login_disabled": (403, "Password login disabled"),
    "sign_in_refused": (403, "Sign-in refused"),
    "no_active_account": (403, "No active account"),
    "second_factor_required": (403, "Second factor required"),
    "second_factor_not_enrolled": (403, "No second factor set up"),
    "data_export_required": (403, "No Data Export access"),
    "async_rest_api_required": (403, "No Async REST API access"),
    "session_required": (403, "Session token required"),
    "api_tokens_disabled": (403, "API tokens disabled"),
    "address_not_allowed": (403, "Address not allowed"),
    "invalid_link": (403, "Invalid link"),
    "link_expired": (403, "Link expired"),
    "link_revoked": (403, "Link revoked"),
    "cross_site": (403, "Request from another site"),
    "https_required": (403, "HTTPS required"),
    "reauthentication_required": (403, "Password confirmation required"),
    "not_an_operator": (403, "Operators only"),
    "owner_or_admin_required": (403, "Owners and admins only"),
    "not_found": (404, "Not found"),
    "unknown_file": (404, "Unknown file"),
    "file_gone": (404, "Snapshot deleted"),
    "snapshot_not_ready": (404, "No files yet"),
    "no_delta": (404, "No such delta"),
    "no_statement": (404, "No such statement"),
    "method_not_allowed": (405, "Method not allowed"),
    "request_timeout": (408, "Request timed out"),
    "conflict": (409, "Conflict with the current state"),
    "too_many_tokens": (409, "Too many tokens"),
    "too_many_passkeys": (409, "Too many passkeys"),
    "chain_closed": (410, "Version not in the chain"),
    "too_many_webhooks": (409, "Too many webhooks"),
    "precondition_failed": (412, "File changed"),
    "body_too_large": (413, "Request body too large"),
    "uri_too_long": (414, "URL too long"),
    "unsupported_media_type": (415, "Unsupported media type"),
    "range_not_satisfiable": (416, "Range outside the file"),
    "rate_limited": (429, "Too many requests"),
    "head_too_large": (431, "Request headers too large"),
    "internal_error": (500, "Internal error"),
    "file_damaged": (500, "Stored file damaged"),
    "file_store_fault": (503, "Files unavailable"),
    "files_unavailable": (503, "Files unavailable"),
    "state_unavailable": (503, "State database unavailable"),
    "busy": (503, "Service busy"),
    "provider_unavailable": (503, "Sign-in provider unavailable"),
    "second_factor_unreadable": (503, "Second factor cannot be checked"),
    "unavailable": (503, "Temporarily unavailable"),
}
"""Status and title of each code. `/docs` shows the same table."""

# The rest of the body is not read. Close the connection, so that it is not parsed as the next request.
_CLOSING = frozenset({"request_timeout", "body_too_large"})
# Public details of internal errors, whose own messages are only logged.
_PUBLIC_DETAILS = {
    "file_damaged": "The stored file does not match its digest and is not served. "
    "The operator has to restore it or build all files again.",
    "file_store_fault": "The stored file cannot be read at the moment. Try again.",
    "files_unavailable": "The file store does not respond. Try again shortly.",
    "state_unavailable": "The state database does not respond. Try again shortly.",
    "internal_error": "The request failed. Search the logs for its request id.",
}


class MethodNotAllowed(RequestError):
    """The path has other methods (405). `allowed` is the Allow header (RFC 9110 §10.2.1)."""

    code = "method_not_allowed"

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = ", ".join(allowed)
        super().__init__(f"Use {self.allowed}.")


class RangeNotSatisfiable(RequestError):
    """No requested part is in the file (416). `size` is in the Content-Range header."""

    code = "range_not_satisfiable"

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


class FieldProblem(msgspec.Struct, frozen=True):
    """Invalid field."""

    pointer: Annotated[str, Meta(description="JSON pointer to the field (RFC 6901), or `?name` of a query parameter.")]
    detail: Annotated[str, Meta(description="What to send instead.")]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Problem document (RFC 9457)."""

    type: Annotated[str, Meta(description="URL of the documentation of the code.")]
    title: Annotated[str, Meta(description="Short description of the code.")]
    status: Annotated[int, Meta(description="HTTP status.")]
    detail: Annotated[str, Meta(description="What happened, and what to do.")]
    code: Annotated[str, Meta(description="Stable code. Later versions may add codes.")]
    request_id: Annotated[str, Meta(description="Id of the request in the logs of the service.")]
    errors: Annotated[tuple[FieldProblem, ...], Meta(description="Invalid fields of the request.")] = ()
    reason: Annotated[str, Meta(description="Why deltas do not continue from this version, for `chain_closed`.")] = ""
    manifest: Annotated[str, Meta(description="Path of the manifest of the full files, for `chain_closed`.")] = ""


def status_of(error: DaybreakError) -> int:
    """Return the HTTP status of an error: that of its code, else 400 for a client's error and 500 for another."""
    known = PROBLEMS.get(error.code)
    return known[0] if known is not None else 400 if isinstance(error, RequestError) else 500


def problem_of(error: DaybreakError, *, request_id: str, base_url: str) -> Problem:
    status = status_of(error)
    code = error.code if error.code in PROBLEMS or status < 500 else "internal_error"
    title = PROBLEMS[code][1] if code in PROBLEMS else code.replace("_", " ").capitalize()
    faults = error.faults if isinstance(error, InvalidRequest) else ()
    reason, manifest = (error.reason, error.manifest) if isinstance(error, ChainClosed) else ("", "")
    return Problem(
        type=f"{base_url}/docs#{code}",
        title=title,
        status=status,
        # Messages quote parameters and names of the request.
        detail=redact(_PUBLIC_DETAILS.get(code, error.message)),
        code=code,
        request_id=request_id,
        errors=tuple(FieldProblem(redact(fault.pointer), redact(fault.detail)) for fault in faults),
        reason=reason,
        manifest=manifest,
    )


def problem_headers(error: DaybreakError) -> dict[str, str]:
    """Return the headers of an error response, such as WWW-Authenticate and Retry-After."""
    headers = {}
    status = status_of(error)
    if status == 401:
        headers["WWW-Authenticate"] = _challenge(error)
    if error.code in _CLOSING:
        headers["Connection"] = "close"
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


def problem_response(problem: Problem, headers: Mapping[str, str]) -> Response:
    return Response(msgspec.json.encode(problem), problem.status, headers, PROBLEM_TYPE)


def _challenge(error: DaybreakError) -> str:
    """Return the WWW-Authenticate header. A request without a credential gets no error code (RFC 6750 §3.1)."""
    challenge = 'Bearer realm="daybreak"'
    if error.code == "missing_token":
        return challenge
    code = error.code if error.code in {"invalid_credentials", "invalid_code"} else "invalid_token"
    return f'{challenge}, error="{code}"'
