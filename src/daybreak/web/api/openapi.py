"""The OpenAPI 3.1 document, generated from the routes, their operations and the types of bodies.

https://spec.openapis.org/oas/v3.1.1.html
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType, NoneType
from typing import Any

import msgspec
from starlette.convertors import PathConvertor

import daybreak
from daybreak.access.login import PENDING_LOGIN_LIFETIME
from daybreak.access.sessions import REAUTHENTICATION_LIFETIME
from daybreak.settings import Settings
from daybreak.settings.text_forms import duration_in_words
from daybreak.web.api import examples
from daybreak.web.api.operation import JSON, TAGS, AnyOperation, ApiRoute, Header, Parameter
from daybreak.web.http.problems import PROBLEM_TYPE, PROBLEMS, Problem

JsonObject = dict[str, Any]
VARIANT_EXTENSION = "x-daybreak-variant-of"
"""OpenAPI extension of operations that are variants of one route. Its value has the path and texts of the route."""

_INTRODUCTION = """\
Daybreak publishes files with an account's data every day at {publish_time}.

Send a token as `Authorization: Bearer <token>`: an API token from the dashboard, or a session token. The response to
a request for a file is a redirect to a signed link, which works for {link_lifetime}. Replace `csv` with `json` in a
link to get the JSON version of the file.

An error is a problem document (RFC 9457) with a stable `code`.
"""
_SECURITY_SCHEMES: JsonObject = {
    "session": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Session token, from a login or a switch to another account.",
    },
    "pending_login": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Token of a login that waits for its second factor.",
    },
    "api_token": {
        "type": "http",
        "scheme": "bearer",
        "description": "API token of one account, created in the dashboard. It starts with `service_api_`.",
    },
}
REQUEST_ID = Header("X-Request-Id", "Id of the request in the logs of the service.", examples.REQUEST_ID)
_CHALLENGE = Header("WWW-Authenticate", "Challenge (RFC 6750).", 'Bearer realm="daybreak", error="invalid_token"')
_RETRY_AFTER = Header("Retry-After", "Seconds to wait before the next attempt.", "5")
_PROBLEM_HEADERS = {
    401: (_CHALLENGE,),
    404: (replace(_RETRY_AFTER, required=False),),
    429: (_RETRY_AFTER,),
    503: (_RETRY_AFTER,),
}
_SCHEMAS = "#/components/schemas/"
# Range requests are defined only for GET (RFC 9110 §14.2).
_RANGE_STATUSES = frozenset({206, 416})


def openapi_document(settings: Settings, routes: Sequence[ApiRoute]) -> JsonObject:
    """Return the OpenAPI document. Operations are grouped by tag, in the order of the routes."""
    return _Generator(settings).document(routes)


def facts(settings: Settings) -> Mapping[str, str]:
    """Return the values that the texts of operations can contain."""
    return {
        "link_lifetime": duration_in_words(settings.access.link_lifetime),
        "session_lifetime": duration_in_words(settings.access.session_lifetime),
        "pending_login_lifetime": duration_in_words(PENDING_LOGIN_LIFETIME),
        "reauthentication_lifetime": duration_in_words(REAUTHENTICATION_LIFETIME),
        "publish_time": f"{settings.snapshot.publish_at:%H:%M} UTC",
    }


def with_values(template: str, values: Mapping[str, object]) -> str:
    """Insert values into a text, and join the lines of each paragraph."""
    paragraphs = template.format_map(values).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class _Generator:
    """Generates operations and collects the schemas that they refer to."""

    def __init__(self, settings: Settings) -> None:
        self._base_url = settings.base_url
        self._facts = facts(settings)
        self._schemas: JsonObject = {}
        self._problem = self._schema(Problem)

    def document(self, routes: Sequence[ApiRoute]) -> JsonObject:
        paths: JsonObject = {}
        for route in sorted(routes, key=lambda route: TAGS.index(route.operation.tag)):
            for method in sorted(route.methods or ()):
                for path, operation in self._operations(route, head=method == "HEAD"):
                    paths.setdefault(path, {})[method.lower()] = operation
        return {
            "openapi": "3.1.1",
            "info": {
                "title": "Daybreak API",
                "version": daybreak.__version__,
                "description": self._text(_INTRODUCTION),
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": self._base_url}],
            "tags": [{"name": tag.name, "description": tag.description} for tag in TAGS],
            "paths": paths,
            "components": {
                "schemas": dict(sorted(self._schemas.items())),
                "examples": {code: self._problem_example(code) for code in PROBLEMS},
                "securitySchemes": _SECURITY_SCHEMES,
            },
        }

    def _operations(self, route: ApiRoute, *, head: bool) -> Iterator[tuple[str, JsonObject]]:
        """Yield each path of the route in the document, with its operation."""
        operation, suffix = route.operation, "Head" if head else ""
        described: JsonObject = {
            "operationId": f"{operation.operation_id}{suffix}",
            "summary": operation.summary,
            "description": self._text(operation.description),
            "tags": [operation.tag.name],
            "security": [{scheme: []} for scheme in operation.credential.schemes] if operation.credential else [],
            "parameters": [self._parameter(parameter) for parameter in operation.parameters],
            "responses": self._responses(operation, head=head),
        }
        if operation.body is not None:
            described["requestBody"] = {"required": True, "content": self._content(operation.body, JSON)}
        if not operation.variants:
            yield route.path_format, described
            return
        (name,) = (name for name, convertor in route.param_convertors.items() if isinstance(convertor, PathConvertor))
        described["parameters"] = [entry for entry in described["parameters"] if entry["name"] != name]
        whole = {key: described[key] for key in ("operationId", "summary", "description")}
        for variant in operation.variants:
            described |= {
                "operationId": f"{variant.operation_id}{suffix}",
                "summary": variant.summary,
                "description": f"{variant.description} {whole['description']}",
                VARIANT_EXTENSION: {"path": route.path_format, **whole},
            }
            yield route.path_format.replace(f"{{{name}}}", variant.value), described.copy()

    def _responses(self, operation: AnyOperation, *, head: bool) -> JsonObject:
        found: dict[int, JsonObject] = {}
        for response in (operation.response, *operation.other_responses):
            # Responses of one status differ in their media type; the first one describes them.
            described = found.setdefault(response.status, self._described(response.description, response.headers))
            if response.body_type is not NoneType:
                content = self._content(response.body_type, response.media_types, response.examples)
                described["content"] = described.get("content", {}) | content
        for status, group in groupby(sorted(operation.problem_codes, key=_status), key=_status):
            codes = list(group)
            texts = ". ".join(PROBLEMS[code][1] for code in codes)
            problem = self._described(f"{texts}.", _PROBLEM_HEADERS.get(status, ()))
            references = {code: {"$ref": f"#/components/examples/{code}"} for code in codes}
            problem["content"] = {PROBLEM_TYPE: {"schema": self._problem, "examples": references}}
            found[status] = problem
        if head:
            found = {status: described for status, described in found.items() if status not in _RANGE_STATUSES}
            for described in found.values():
                described.pop("content", None)
        return {str(status): found[status] for status in sorted(found)}

    def _described(self, description: str, headers: Sequence[Header]) -> JsonObject:
        return {
            "description": self._text(description),
            "headers": {
                header.name: {
                    "description": header.description,
                    "required": header.required,
                    "schema": {"type": "string"},
                    "example": header.example,
                }
                for header in (REQUEST_ID, *headers)
            },
        }

    def _content(
        self, body_type: object, media_types: Sequence[str], bodies: Mapping[str, object] = MappingProxyType({})
    ) -> JsonObject:
        content: JsonObject = {"schema": self._schema(body_type)}
        if bodies:
            content["examples"] = {title: {"value": msgspec.to_builtins(body)} for title, body in bodies.items()}
        elif "$ref" in content["schema"]:
            content["example"] = self._example(content["schema"])
        return dict.fromkeys(media_types, content)

    def _parameter(self, parameter: Parameter) -> JsonObject:
        return {
            "name": parameter.name,
            "in": parameter.location,
            "required": parameter.required or parameter.location == "path",
            "description": self._text(parameter.description),
            "schema": self._schema(parameter.type),
            "example": parameter.example,
        }

    def _schema(self, described_type: object) -> JsonObject:
        if described_type is bytes:
            return {"type": "string", "format": "binary"}
        (schema,), components = msgspec.json.schema_components([described_type], ref_template=f"{_SCHEMAS}{{name}}")
        self._schemas |= components
        return schema

    def _example(self, schema: JsonObject) -> object:
        """Return an example composed from the examples of the fields. Raises KeyError if a field has none."""
        if "examples" in schema:
            return schema["examples"][0]
        if "$ref" in schema:
            return self._example(self._schemas[schema["$ref"].removeprefix(_SCHEMAS)])
        if "properties" in schema:
            return {name: self._example(field) for name, field in schema["properties"].items()}
        return [self._example(schema["items"])]

    def _problem_example(self, code: str) -> JsonObject:
        status, title = PROBLEMS[code]
        problem = Problem(f"{self._base_url}/docs#{code}", title, status, f"{title}.", code, examples.REQUEST_ID)
        return {"summary": title, "value": msgspec.to_builtins(problem)}

    def _text(self, template: str) -> str:
        return with_values(template, self._facts)


def _status(code: str) -> int:
    return PROBLEMS[code][0]
