"""The OpenAPI document as a contract: every response of the API is compared with its description."""

import copy
import re
from typing import Any
from urllib.parse import urlsplit

import requests
from openapi_schema_validator import OAS31Validator, oas31_format_checker

PROBLEM = "application/problem+json"
VARIANT = "x-daybreak-variant-of"
Outcome = tuple[str, str]
"""Operation id, and status or problem code."""


class ApiContract:
    """Compares responses with a document, and records which outcomes occurred."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._base_path = urlsplit(document["servers"][0]["url"]).path
        self._paths = {
            re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))): methods
            for path, methods in document["paths"].items()
        }
        self._components = copy.deepcopy(document["components"])
        for schema in self._components["schemas"].values():
            # The service sends no field that is not described. Clients must expect new ones.
            if "properties" in schema:
                schema["additionalProperties"] = False
        self.occurred: set[Outcome] = set()
        self.described = {
            outcome
            for methods in document["paths"].values()
            for method, operation in methods.items()
            for outcome in _outcomes(operation)
            if method != "head"
        }

    def check(self, found: requests.Response) -> None:
        """Fail if the document does not describe this response."""
        operation = self._operation(found)
        if operation is None:
            return
        case = f"{found.request.method} {found.url}: {found.status_code}"
        response = operation["responses"].get(str(found.status_code))
        assert response is not None, f"{case} is not described: {found.text[:300]}"
        for name, header in response["headers"].items():
            assert name in found.headers or not header["required"], f"{case} has no {name}"
        outcome = str(found.status_code)
        if found.request.method != "HEAD":
            outcome = self._check_body(found, response.get("content", {}), case) or outcome
            self.occurred.add((operation.get(VARIANT, operation)["operationId"], outcome))

    def _operation(self, found: requests.Response) -> dict[str, Any] | None:
        # A proxy in front of the service also sends its own responses.
        if found.headers.get("Server") != "daybreak":
            return None
        path = urlsplit(found.url).path.removeprefix(self._base_path)
        for pattern, methods in self._paths.items():
            if pattern.fullmatch(path):
                operation: dict[str, Any] | None = methods.get(str(found.request.method).lower())
                return operation
        return None

    def _check_body(self, found: requests.Response, content: dict[str, Any], case: str) -> str | None:
        """Check the body. Return the code of a problem, None for other bodies."""
        media_type = found.headers.get("Content-Type", "").partition(";")[0]
        if media_type == "text/html" and found.status_code >= 400:
            return None  # an error page for a browser
        if not content:
            assert not found.content, f"{case} has a body"
            return None
        assert media_type in content, f"{case} is {media_type}"
        schema = content[media_type]["schema"]
        if media_type not in {"application/json", PROBLEM} or "$ref" not in schema:
            return None
        body = found.json()
        validator = OAS31Validator({**schema, "components": self._components}, format_checker=oas31_format_checker)
        for fault in validator.iter_errors(body):
            raise AssertionError(f"{case}: {fault.json_path}: {fault.message}")
        if media_type != PROBLEM:
            return None
        assert body["code"] in content[PROBLEM]["examples"], f"{case}: {body['code']} is not described"
        code: str = body["code"]
        return code


def _outcomes(operation: dict[str, Any]) -> set[Outcome]:
    operation_id = operation.get(VARIANT, operation)["operationId"]
    outcomes = set()
    for status, response in operation["responses"].items():
        problem = response.get("content", {}).get(PROBLEM)
        outcomes |= {(operation_id, name) for name in ([status] if problem is None else problem["examples"])}
    return outcomes
