"""Sample requests and responses, composed from the examples in an operation of the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from daybreak.web.api.examples import HEADER_FILE

JsonObject = Mapping[str, Any]
PENDING_HEADER_FILE = "daybreak-login.txt"
"""File with the Authorization header of a login that waits for its second factor."""
_JSON_LINES = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class ResponseSample:
    """Example response. `body` is empty for a response without one."""

    status: str
    title: str
    body: str


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


def response_samples(operation: JsonObject) -> Iterator[ResponseSample]:
    """Yield the example responses of the success statuses."""
    for status, response in operation["responses"].items():
        if status < "400":
            shown: list[JsonObject] = []
            for media_type, content in response.get("content", {}).items():
                # Several media types may have the same body.
                if content not in shown:
                    shown.append(content)
                    for title, body in _examples(content):
                        yield ResponseSample(status, title, _text(body, media_type))


def problem_sample(example: JsonObject) -> str:
    """Return the text of an example problem."""
    return _text(example["value"], "")


def _examples(content: JsonObject) -> Iterator[tuple[str, object]]:
    if "example" in content:
        yield "", content["example"]
    for title, example in content.get("examples", {}).items():
        yield title, example["value"]


def _is_download(operation: JsonObject) -> bool:
    if "302" in operation["responses"]:
        return True
    content = operation["responses"].get("200", {}).get("content", {})
    return any(entry["schema"].get("format") == "binary" for entry in content.values())


def _joined(*parts: str) -> str:
    return " \\\n  ".join(parts)


def _text(body: object, media_type: str) -> str:
    if media_type == "text/plain":
        return str(body)
    return json.dumps(body, indent=None if media_type == _JSON_LINES else 2, ensure_ascii=False)
