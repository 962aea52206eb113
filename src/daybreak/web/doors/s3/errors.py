"""Errors in the form of S3.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from collections.abc import Mapping
from xml.sax.saxutils import escape

from starlette.responses import Response
from starlette.types import Scope

from daybreak.credentials.sigv4 import is_signed
from daybreak.web.http.problems import Problem

XML_TYPE = "application/xml"
XML_START = '<?xml version="1.0" encoding="UTF-8"?>\n'
S3_ROUTE = "s3"
_STATUS: Mapping[str, int] = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "ExpiredToken": 403,  # S3 answers 400. DuckDB loads new credentials on 403 only.
    "InvalidArgument": 400,
    "InvalidPartNumber": 416,
    "InvalidRequest": 400,
    "InvalidToken": 400,
    "NoSuchVersion": 404,
    "NotImplemented": 501,
    "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403,
}
# Code and status of other errors, by the status that the API answers with.
_OTHERS: Mapping[int, tuple[str, int]] = {
    401: ("AccessDenied", 403),
    403: ("AccessDenied", 403),
    404: ("NoSuchKey", 404),
    412: ("PreconditionFailed", 412),
    416: ("InvalidRange", 416),
    429: ("SlowDown", 503),
    500: ("InternalError", 500),
    503: ("ServiceUnavailable", 503),
}


def is_s3_request(scope: Scope) -> bool:
    """Return whether errors have the form of S3: the request is signed, or its route is that of the endpoint."""
    if getattr(scope.get("route"), "name", "") == S3_ROUTE:
        return True
    authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    return is_signed(scope["query_string"], authorization)


def s3_error(problem: Problem, headers: Mapping[str, str]) -> Response:
    code, status = problem.code, _STATUS.get(problem.code)
    if status is None:
        code, status = _OTHERS.get(problem.status, ("InvalidRequest", problem.status))
    body = (
        f"{XML_START}<Error><Code>{code}</Code><Message>{escape(problem.detail)}</Message>"
        f"<RequestId>{problem.request_id}</RequestId></Error>"
    )
    sent = {name: value for name, value in headers.items() if name != "WWW-Authenticate"}
    return Response(body, status, sent, XML_TYPE)
