"""Building blocks of the OpenAPI document."""

from __future__ import annotations

from typing import Any

from daybreak.web.problems import PROBLEM_TYPE

JsonObject = dict[str, Any]
EXAMPLE_ID = "0b9f6c1e-2f4d-4c55-9a4e-3d1f5a7c8e21"
_UUID_SCHEMA: JsonObject = {"type": "string", "format": "uuid", "example": EXAMPLE_ID}
_REQUEST_ID: JsonObject = {
    "description": "Names the request in the logs and in problem bodies.",
    "schema": {"type": "string"},
}
_RETRY_AFTER: JsonObject = {
    "description": "Seconds until asking again makes sense.",
    "schema": {"type": "integer", "minimum": 1},
}
_STATUS_WORDS = {
    400: "Malformed: the body says which field.",
    401: "No credential, or one that is not good.",
    403: "Known, but not allowed.",
    404: "Nothing is there, or not yet.",
    405: "Another method is needed.",
    408: "The request took too long to arrive.",
    409: "It is there already, or decided already.",
    412: "The condition that was sent does not hold.",
    413: "The body is too large.",
    415: "The body is not JSON, or is compressed.",
    416: "The range is not in the file, or too many are asked for.",
    429: "Too many attempts.",
    500: "Something went wrong here.",
    503: "A part of the service is away or busy.",
}


def header(description: str, schema: JsonObject) -> JsonObject:
    """A response header."""
    return {"description": description, "schema": schema}


def path_parameter(name: str, description: str, schema: JsonObject | None = None) -> JsonObject:
    """A part of the path, a UUID unless a schema is given."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema or _UUID_SCHEMA,
    }


def json_content(schema: str) -> JsonObject:
    """`application/json` of a named shape."""
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def body(schema: str) -> JsonObject:
    """A JSON request body of a named shape."""
    return {"required": True, "content": json_content(schema)}


def answer(description: str, content: JsonObject | None = None, headers: JsonObject | None = None) -> JsonObject:
    """A response; every one carries its request id."""
    found: JsonObject = {
        "description": description,
        "headers": {"X-Request-Id": _REQUEST_ID, **(headers or {})},
    }
    if content is not None:
        found["content"] = content
    return found


def problems(*statuses: int) -> JsonObject:
    """Problem answers of these statuses, keyed by status."""
    return {
        str(status): answer(
            _STATUS_WORDS[status],
            {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            _headers_of(status),
        )
        for status in statuses
    }


def _headers_of(status: int) -> JsonObject:
    if status == 401:
        return {"WWW-Authenticate": header("RFC 6750.", {"type": "string"})}
    if status in {404, 429, 503}:
        return {"Retry-After": _RETRY_AFTER}
    return {}
