"""Errors in the form of the protocol."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from daybreak.domain.errors import DaybreakError
from daybreak.sharing import SHARING_PATH
from daybreak.web.http.problems import problem_headers, problem_of


def is_sharing_path(path: str) -> bool:
    """Return whether errors of the path have the form of the protocol."""
    return path == SHARING_PATH or path.startswith(SHARING_PATH + "/")


def sharing_error(
    error: DaybreakError, *, request_id: str, base_url: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response to an error. The codes are those of the API."""
    problem = problem_of(error, request_id=request_id, base_url=base_url)
    # A field's detail is part of the message of some errors.
    fixes = [field.detail for field in problem.errors if field.detail not in problem.detail]
    body = {"errorCode": problem.code, "message": " ".join([problem.detail, *fixes])}
    return Response(
        msgspec.json.encode(body), problem.status, {**problem_headers(error), **(headers or {})}, "application/json"
    )
