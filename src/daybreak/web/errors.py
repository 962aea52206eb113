"""Responses to errors, in the form that the path requires."""

from collections.abc import Callable, Mapping
from functools import partial

from starlette.responses import Response
from starlette.types import Scope

from daybreak.domain.errors import DaybreakError
from daybreak.sharing import SHARING_PATH
from daybreak.web.doors.iceberg.errors import ICEBERG_PATH, iceberg_error
from daybreak.web.doors.s3.errors import is_s3_request, s3_error
from daybreak.web.doors.sharing.errors import sharing_error
from daybreak.web.http.problems import Problem, problem_headers, problem_of, problem_response
from daybreak.web.request_state import request_id_of

ErrorForm = Callable[[Problem, Mapping[str, str]], Response]
"""Returns the response to an error in the form of a protocol, with some headers."""


def protocol_form(scope: Scope) -> ErrorForm | None:
    """Return the form of errors of the protocol that a request uses, None for that of the API."""
    path = scope["path"]
    if path == SHARING_PATH or path.startswith(f"{SHARING_PATH}/"):
        return sharing_error
    if path.startswith(f"{ICEBERG_PATH}/"):
        return partial(iceberg_error, path)
    return s3_error if is_s3_request(scope) else None


def error_response(
    scope: Scope, error: DaybreakError, *, base_url: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response to an error: a problem document, or an error of the protocol of the request."""
    problem = problem_of(error, request_id=request_id_of(scope), base_url=base_url)
    form = protocol_form(scope) or problem_response
    return form(problem, {**problem_headers(error), **(headers or {})})
