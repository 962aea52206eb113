"""Errors in the form of the protocol."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from daybreak.web.http.problems import Problem


def sharing_error(problem: Problem, headers: Mapping[str, str]) -> Response:
    """Return the response to an error. The codes are those of the API."""
    # A field's detail is part of the message of some errors.
    fixes = [field.detail for field in problem.errors if field.detail not in problem.detail]
    body = {"errorCode": problem.code, "message": " ".join([problem.detail, *fixes])}
    return Response(msgspec.json.encode(body), problem.status, headers, "application/json")
