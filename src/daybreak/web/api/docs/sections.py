"""Sections of the documentation page, generated from the operations of the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from daybreak.web.api.examples import HEADER_FILE
from daybreak.web.api.openapi import REQUEST_ID, VARIANT_EXTENSION
from daybreak.web.http.problems import PROBLEM_TYPE

JsonObject = Mapping[str, Any]
_TOKENS = {"session": "session token", "api_token": "API token", "pending_login": "token of a pending login"}

PENDING_HEADER_FILE = "daybreak-login.txt"
"""File with the Authorization header of a login that waits for its second factor."""
_JSON_LINES = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Row:
    """Parameter, header, or field of a body. The name of a nested field is a path: `data.resources[].rows`."""

    name: str
    kind: str
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Section:
    """One operation. Operations that are variants of one route share a section. `paths` has their paths by title.

    `responses` are status, description and fields of those that are not problems. `samples` are status, title and body
    of example responses, "" without a body.
    """

    anchor: str
    method: str
    path: str
    title: str
    description: str
    tokens: str
    parameters: Sequence[Row]
    body: Sequence[Row]
    responses: Sequence[tuple[str, str, Sequence[Row]]]
    problems: Mapping[str, Sequence[str]]
    curl: str
    samples: Sequence[tuple[str, str, str]]
    paths: dict[str, list[str]]


class Sections:
    """Operations of a document. HEAD operations are omitted, because they repeat GET."""

    def __init__(self, document: JsonObject) -> None:
        self._document = document
        self._operations = [
            (path, method.upper(), operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if method != "head"
        ]
        self.common_problems = set.intersection(
            *(
                {code for _, codes in _problems(operation) for code in codes}
                for _path, _method, operation in self._operations
            )
        )

    def tagged(self, tag: str) -> list[Section]:
        """Return the sections of a tag, without the errors that every operation can return."""
        found: dict[str, Section] = {}
        for path, method, operation in self._operations:
            if tag not in operation["tags"]:
                continue
            route = operation.get(VARIANT_EXTENSION)
            anchor = (route or operation)["operationId"]
            if anchor not in found:
                found[anchor] = self._section(path, method, operation)
            if route is not None:
                variant = path.removeprefix(route["path"].rpartition("{")[0])
                found[anchor].paths.setdefault(operation["summary"], []).append(variant)
        return list(found.values())

    def _section(self, path: str, method: str, operation: JsonObject) -> Section:
        texts = {"path": path, **operation, **operation.get(VARIANT_EXTENSION, {})}
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        problems = (
            (status, [code for code in codes if code not in self.common_problems])
            for status, codes in _problems(operation)
        )
        return Section(
            anchor=texts["operationId"],
            method=method,
            path=texts["path"],
            title=texts["summary"],
            description=texts["description"],
            tokens=" or ".join(_TOKENS[name] for scheme in operation["security"] for name in scheme),
            parameters=[
                Row(entry["name"], f"{entry['in']}, {_kind(entry['schema'])}", entry["required"], entry["description"])
                for entry in operation["parameters"]
            ],
            body=list(self._fields(body["schema"])) if body else [],
            responses=[
                (status, response["description"], list(self._response_rows(response)))
                for status, response in operation["responses"].items()
                if PROBLEM_TYPE not in response.get("content", {})
            ],
            problems={status: codes for status, codes in problems if codes},
            curl=curl_command(self._document["servers"][0]["url"], method, path, operation),
            samples=list(response_samples(operation)),
            paths={},
        )

    def _response_rows(self, response: JsonObject) -> Iterator[Row]:
        for name, header in response["headers"].items():
            if name != REQUEST_ID.name:
                yield Row(name, "header", required=False, description=header["description"])
        # All media types of a response have the same fields.
        for content in list(response.get("content", {}).values())[:1]:
            yield from self._fields(content["schema"])

    def _fields(self, schema: JsonObject, prefix: str = "") -> Iterator[Row]:
        """Yield the fields of an object, including those of nested objects."""
        if "items" in schema:
            yield from self._fields(schema["items"], f"{prefix}[]")
        resolved = self._resolved(schema)
        for name, field in resolved.get("properties", {}).items():
            path = f"{prefix}.{name}" if prefix else name
            description = field.get("description") or self._resolved(field).get("description", "")
            yield Row(path, _kind(field), name in resolved.get("required", ()), description)
            for option in field.get("anyOf", [field]):
                yield from self._fields(option, path)

    def _resolved(self, schema: JsonObject) -> JsonObject:
        if "$ref" not in schema:
            return schema
        found: JsonObject = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found


def _problems(operation: JsonObject) -> Iterator[tuple[str, Sequence[str]]]:
    for status, response in operation["responses"].items():
        problem = response.get("content", {}).get(PROBLEM_TYPE)
        if problem is not None:
            yield status, list(problem["examples"])


def _kind(schema: JsonObject) -> str:
    """Return the type of a value in words: `string (uuid)`, `array of objects`."""
    if "anyOf" in schema:
        return " or ".join(_kind(option) for option in schema["anyOf"])
    if "$ref" in schema:
        return "object"
    if "items" in schema:
        return f"array of {_kind(schema['items'])}s"
    kind: str = schema["type"]
    return f"{kind} ({schema['format']})" if "format" in schema else kind


def curl_command(base_url: str, method: str, path: str, operation: JsonObject) -> str:
    """Return a curl command with the example values of the operation. The command prints errors and fails."""
    query = {}
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(parameter["example"]))
        elif parameter["in"] == "query":
            query[parameter["name"]] = parameter["example"]
    url = f"'{base_url}{path}?{urlencode(query, safe=':.')}'" if query else f"{base_url}{path}"
    # --fail-with-body would save a problem document as the file.
    options = ["curl -sSfL -O" if _is_download(operation) else "curl -sS --fail-with-body"]
    if method != "GET":
        options[0] += f" -X {method}"
    schemes = {name for scheme in operation["security"] for name in scheme}
    if schemes:
        options.append(f"-H @{PENDING_HEADER_FILE if schemes == {'pending_login'} else HEADER_FILE}")
    if "requestBody" not in operation:
        return _joined(*options, url)
    body = json.dumps(operation["requestBody"]["content"]["application/json"]["example"])
    return "\n".join([_joined(*options, url, "--json @- <<'END'"), body, "END"])


def response_samples(operation: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Yield the example responses of the success statuses."""
    for status, response in operation["responses"].items():
        if status < "400":
            shown: list[JsonObject] = []
            for media_type, content in response.get("content", {}).items():
                # Several media types may have the same body.
                if content not in shown:
                    shown.append(content)
                    for title, body in _examples(content):
                        yield status, title, _text(body, media_type)


def _examples(content: JsonObject) -> Iterator[tuple[str, object]]:
    if "example" in content:
        yield "", content["example"]
    for title, example in content.get("examples", {}).items():
        yield title, example["value"]


def _is_download(operation: JsonObject) -> bool:
    if "302" in operation["responses"]:
        return True
    content = operation["responses"].get("200", {}).get("content", {})
    return any(not entry.keys() & {"example", "examples"} for entry in content.values())


def _joined(*parts: str) -> str:
    return " \\\n  ".join(parts)


def _text(body: object, media_type: str) -> str:
    if media_type == "text/plain":
        return str(body)
    return json.dumps(body, indent=None if media_type == _JSON_LINES else 2, ensure_ascii=False)
