"""The OpenAPI document."""

from typing import Any

import msgspec
import pytest
from openapi_schema_validator import OAS31Validator, oas31_format_checker
from openapi_spec_validator import validate
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daybreak.catalogue.download_paths import download_paths
from daybreak.web.api.links import link_operation
from daybreak.web.api.openapi import openapi_document
from daybreak.web.api.operation import SERVICE, ApiRoute, Operation, ResponseType
from daybreak.web.http.problems import PROBLEM_TYPE, PROBLEMS
from tests.configured import configured
from tests.unit.web.api.conftest import DescribedApp


def test_document_is_valid(described: DescribedApp) -> None:
    validate(described.document)


def test_every_route_outside_the_dashboard_is_described(described: DescribedApp) -> None:
    routes = [route for route in described.app.routes if isinstance(route, Route)]
    assert len(routes) == len(described.app.routes)
    undescribed = {route.path for route in routes if not isinstance(route, ApiRoute)}
    assert {path for path in undescribed if path != "/" and not path.startswith("/dashboard")} == set()


def test_document_has_the_paths_and_methods_of_the_routes(described: DescribedApp) -> None:
    expected = set()
    for route in described.app.routes:
        if isinstance(route, ApiRoute):
            for path in _paths(route, described.settings.snapshot.formats):
                expected |= {(path, method.lower()) for method in route.methods or ()}
    assert {(path, method) for path, method, _ in described.operations()} == expected


def _paths(route: ApiRoute, formats: tuple[str, ...]) -> list[str]:
    if "{file:path}" in route.path:
        return [route.path.replace("{file:path}", file) for file in download_paths(formats)]
    return [route.path]


def test_every_operation_is_complete(described: DescribedApp) -> None:
    ids = [operation["operationId"] for _, _, operation in described.operations()]
    assert len(set(ids)) == len(ids)
    for path, method, operation in described.operations():
        case = f"{method} {path}"
        assert operation["summary"], case
        assert operation["description"], case
        assert len(operation["tags"]) == 1, case
        assert "security" in operation, case
        for parameter in operation["parameters"]:
            assert parameter["description"], case
            assert parameter["example"], case
        for status, response in operation["responses"].items():
            assert response["description"], f"{case} {status}"
            assert method == "head" or status in {"204", "304"} or response["content"], f"{case} {status}"


def test_only_files_are_binary(described: DescribedApp) -> None:
    """Generated clients fail on text or JSON that is described as binary."""
    binary = {
        operation["operationId"]
        for _, _, operation in described.operations()
        for response in operation["responses"].values()
        for content in response.get("content", {}).values()
        if content["schema"].get("format") == "binary"
    }
    assert binary == {"downloadFile"}


def test_examples_have_the_described_types(described: DescribedApp) -> None:
    checked = 0
    for path, method, operation in described.operations():
        for parameter in operation["parameters"]:
            _check(described, parameter["example"], parameter["schema"], f"{method} {path} {parameter['name']}")
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for described_body in (*bodies, *operation["responses"].values()):
            for media_type, content in described_body.get("content", {}).items():
                examples = _examples(described, content)
                if "$ref" in content["schema"]:
                    assert examples, f"{method} {path}"
                for example in examples:
                    _check(described, example, content["schema"], f"{method} {path} {media_type}")
                    checked += 1
    assert checked > 500


def _examples(described: DescribedApp, content: dict[str, Any]) -> list[Any]:
    examples = [content["example"]] if "example" in content else []
    for example in content.get("examples", {}).values():
        reference = example.get("$ref", "").rpartition("/")[2]
        examples.append((described.document["components"]["examples"][reference] if reference else example)["value"])
    return examples


def _check(described: DescribedApp, example: Any, schema: dict[str, Any], case: str) -> None:
    whole = {**schema, "components": described.document["components"]}
    faults = list(OAS31Validator(whole, format_checker=oas31_format_checker).iter_errors(example))
    assert not faults, f"{case}: {faults[0].message}"


def test_problems_have_the_status_of_their_code(described: DescribedApp) -> None:
    for path, method, operation in described.operations():
        for status, response in operation["responses"].items():
            for code in response.get("content", {}).get(PROBLEM_TYPE, {}).get("examples", {}):
                assert str(PROBLEMS[code][0]) == status, f"{method} {path} {code}"
    assert described.document["components"]["examples"].keys() == PROBLEMS.keys()


def test_texts_state_the_settings(described: DescribedApp) -> None:
    document = described.document
    assert document["servers"] == [{"url": "https://export.example.org/data"}]
    introduction = document["info"]["description"]
    assert "every day at 05:30 UTC" in introduction
    assert "works for 5 minutes" in introduction
    login = document["paths"]["/download/v2/auth/login"]["post"]
    assert "valid for 3 days" in login["description"]
    link = document["paths"]["/download/v1/links/{client_id}/{snapshot_id}/{file}"]["get"]
    assert "works for 5 minutes" in link["description"]
    assert "application/vnd.apache.parquet" in link["responses"]["200"]["content"]


def test_ranges_are_described_for_get_only(described: DescribedApp) -> None:
    link = described.document["paths"]["/download/v1/links/{client_id}/{snapshot_id}/{file}"]
    assert {"206", "416"} <= link["get"]["responses"].keys()
    assert not {"206", "416"} & link["head"]["responses"].keys()


def test_links_to_a_bucket_redirect_or_return_the_file() -> None:
    settings = configured(files={"folder": None, "url": "s3://bucket"})
    route = ApiRoute("/{client_id}/{snapshot_id}/{file}", _endpoint, link_operation(settings))
    operation = openapi_document(settings, [route])["paths"]["/{client_id}/{snapshot_id}/{file}"]["get"]
    assert {status for status in operation["responses"] if status < "400"} == {"200", "206", "302", "304"}


async def _endpoint(_request: Request) -> Response:
    raise NotImplementedError


def _operation(body_type: type[object] = str, problems: tuple[str, ...] = ()) -> Operation[object]:
    response = ResponseType("X.", body_type)
    return Operation(operation_id="x", summary="X", tag=SERVICE, response=response, problems=problems)


def test_undescribed_path_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="path parameters of /x/"):
        ApiRoute("/x/{name}", _endpoint, _operation())


def test_unknown_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="no_such_code"):
        openapi_document(configured(), [ApiRoute("/x", _endpoint, _operation(problems=("no_such_code",)))])


def test_field_without_example_is_refused() -> None:
    undescribed = msgspec.defstruct("Undescribed", [("name", str)])
    with pytest.raises(KeyError):
        openapi_document(configured(), [ApiRoute("/x", _endpoint, _operation(undescribed))])
