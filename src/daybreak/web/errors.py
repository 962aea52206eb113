"""Responses to errors, in the form that the path requires."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from starlette.responses import Response
from starlette.types import Scope

from daybreak.domain.errors import DaybreakError
from daybreak.web.doors.iceberg.errors import iceberg_error, is_iceberg_path
from daybreak.web.doors.s3.errors import is_s3_request, s3_error
from daybreak.web.doors.sharing.errors import is_sharing_path, sharing_error
from daybreak.web.http.problems import problem_response
from daybreak.web.request_state import request_id_of


class ErrorForm(Protocol):
    """Returns the response to an error in the form of a protocol."""

    def __call__(
        self, error: DaybreakError, *, request_id: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> Response: ...


def protocol_form(scope: Scope) -> ErrorForm | None:
    """Return the form of errors of the protocol that a request uses, None for that of the API."""
    path = scope["path"]
    if is_sharing_path(path):
        return sharing_error
    if is_iceberg_path(path):
        return partial(iceberg_error, path=path)
    return s3_error if is_s3_request(scope) else None


def error_response(
    scope: Scope, error: DaybreakError, *, base_url: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response to an error: a problem document, or an error of the protocol of the request."""
    form = protocol_form(scope) or problem_response
    return form(error, request_id=request_id_of(scope), base_url=base_url, headers=headers)
