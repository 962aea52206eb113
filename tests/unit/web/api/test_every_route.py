"""Headers and methods of every route, for clients without a credential."""

import re
from collections.abc import Iterator

import pytest
from starlette.routing import Route

from tests.unit.web.api.conftest import DescribedApp
from tests.unit.web.asgi import Answer, call, http_scope

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
UNKNOWN_PATH = "/nowhere"
ALWAYS = {
    "strict-transport-security": "max-age=31536000; includeSubDomains",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "server": "daybreak",
}
POLICIES = {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"}
ACCOUNT = "7d909222-adf5-4547-93e0-e8f60c50f980"
REAL_VALUES = {"client_id": ACCOUNT, "snapshot_id": ACCOUNT, "file": "members.csv.gz", "resource": "members"}


@pytest.fixture(scope="module")
def answers(described: DescribedApp) -> dict[tuple[str, str], Answer]:
    """The response to each method on each path."""
    return {
        (method, path): call(described.app, scope_of(method, path))
        for path in [*allowed_methods(described), UNKNOWN_PATH]
        for method in METHODS
    }


def scope_of(method: str, path: str) -> dict[str, object]:
    headers = (
        ("host", "export.example.org"), ("content-type", "application/json"), ("origin", "https://other.example"),
        ("access-control-request-method", "PUT"),
    )  # fmt: skip
    return dict(http_scope(f"/data{path}", headers, scheme="https", method=method))


def routes(described: DescribedApp) -> Iterator[tuple[str, Route]]:
    """Yield each route with a path that it matches."""
    for route in described.app.routes:
        assert isinstance(route, Route)
        yield re.sub(r"\{(\w+)[^}]*\}", lambda found: REAL_VALUES.get(found[1], ACCOUNT), route.path), route


def allowed_methods(described: DescribedApp) -> dict[str, set[str]]:
    allowed: dict[str, set[str]] = {}
    for path, route in routes(described):
        allowed.setdefault(path, set()).update(route.methods or ())
    return allowed


def test_every_response_has_the_security_headers(answers: dict[tuple[str, str], Answer]) -> None:
    assert len(answers) > 400
    for case, answer in answers.items():
        assert {name: answer.headers.get(name) for name in ALWAYS} == ALWAYS, case
        assert set(answer.headers["content-security-policy"].split("; ")) >= POLICIES, case
        cached = case[1].startswith("/docs") and answer.status == 200
        assert answer.headers["cache-control"] == ("public, max-age=300" if cached else "no-store"), case
        assert re.fullmatch(r"[0-9a-f]{24}", answer.headers["x-request-id"]), case


def test_status_page_is_off_by_default(described: DescribedApp, answers: dict[tuple[str, str], Answer]) -> None:
    assert described.settings.status_page is False
    found = answers["GET", "/dashboard/status"]
    assert found.status == 404
    assert b"Snapshot" not in found.body
    assert b"lateness" not in found.body


def test_no_response_permits_other_origins(answers: dict[tuple[str, str], Answer]) -> None:
    for case, answer in answers.items():
        assert not [name for name in answer.headers if name.startswith("access-control-")], case


def test_other_methods_get_405_with_the_allowed_ones(
    described: DescribedApp, answers: dict[tuple[str, str], Answer]
) -> None:
    allowed = allowed_methods(described)
    for (method, path), answer in answers.items():
        if path in allowed and method not in allowed[path]:
            assert answer.status == 405, (method, path)
            assert set(answer.headers["allow"].split(", ")) == allowed[path], (method, path)
        else:
            assert answer.status != 405, (method, path)
            assert "allow" not in answer.headers, (method, path)
    assert not {"TRACE", "CONNECT", "OPTIONS"} & set().union(*allowed.values())


def test_401_names_the_scheme_and_no_other_status_does(answers: dict[tuple[str, str], Answer]) -> None:
    found = set()
    for (method, path), answer in answers.items():
        found.add(answer.status)
        assert answer.headers.get("www-authenticate", "").startswith("Bearer ") == (answer.status == 401), (
            method,
            path,
        )
    assert {200, 303, 401, 403, 404, 405} <= found
    assert not {status for status in found if status >= 500} - {503}


def test_head_has_the_status_and_headers_of_get(
    described: DescribedApp, answers: dict[tuple[str, str], Answer]
) -> None:
    for path, methods in allowed_methods(described).items():
        if "GET" in methods:
            get, head = answers["GET", path], answers["HEAD", path]
            assert head.status == get.status, path
            assert head.headers.keys() == get.headers.keys(), path
