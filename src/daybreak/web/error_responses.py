"""Responses to errors, in the form that the path requires."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Scope

from daybreak.domain.errors import DaybreakError
from daybreak.web.doors.sharing.errors import is_sharing_path, sharing_error
from daybreak.web.http.problems import problem_response
from daybreak.web.request_state import request_id_of


def error_response(
    scope: Scope, error: DaybreakError, *, base_url: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response to an error: a problem document, or below /sharing/v1 an error of that protocol."""
    form = sharing_error if is_sharing_path(scope["path"]) else problem_response
    return form(error, request_id=request_id_of(scope), base_url=base_url, headers=headers)
