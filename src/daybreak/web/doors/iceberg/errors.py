"""Errors in the form of the protocol."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from daybreak.web.http.problems import Problem

ICEBERG_PATH = "/iceberg/v1"
TOKENS_PATH = ICEBERG_PATH + "/oauth/tokens"
_JSON = "application/json"
_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    429: "TooManyRequestsException",
    503: "ServiceUnavailableException",
}


def iceberg_error(path: str, problem: Problem, headers: Mapping[str, str]) -> Response:
    """Return the response to an error, for requests of tokens in the form of RFC 6749 §5.2."""
    if path == TOKENS_PATH:
        code = "invalid_client" if problem.status == 401 else "invalid_request"
        body = {"error": code, "error_description": problem.detail}
        return Response(msgspec.json.encode(body), problem.status, headers, _JSON)
    kind = _type_of_missing(path) if problem.status == 404 else _TYPES.get(problem.status, "ServiceFailureException")
    return error_model(problem.status, kind, problem.detail, headers)


def error_model(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response. Clients raise an exception by its status and type."""
    body = {"error": {"message": message, "type": kind, "code": status}}
    return Response(msgspec.json.encode(body), status, headers, _JSON)


def _type_of_missing(path: str) -> str:
    if "/tables/" in path:
        return "NoSuchTableException"
    return "NoSuchNamespaceException" if "/namespaces" in path else "NoSuchWarehouseException"
