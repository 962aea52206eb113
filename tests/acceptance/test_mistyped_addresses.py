"""Addresses that nothing has: people get a page that leads on, programs the problem they can read."""

from __future__ import annotations

import pytest

from tests.acceptance.service import Service
from tests.acceptance.test_headers import DASHBOARD, NOTHING, check_headers

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
ADDRESSES = ("/dashbord", "/files", "/download/v1/fils/x", "/docs/", "//")


@pytest.mark.parametrize("path", ADDRESSES)
def test_people_get_a_page(service: Service, path: str) -> None:
    found = service.get(path, headers={"Accept": BROWSER})
    assert (found.status_code, found.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    check_headers(found, DASHBOARD)
    assert found.headers["Vary"] == "Accept, Accept-Encoding"
    assert found.headers["X-Request-Id"] in found.text
    for way_on in ("/dashboard/", "/docs"):
        assert f'href="{way_on}"' in found.text
        assert service.get(way_on).status_code in (200, 303)


@pytest.mark.parametrize("accept", [BROWSER, "*/*"])
def test_head_has_what_get_has(service: Service, accept: str) -> None:
    # Packed, the length would hang on the request's id, which stands in the body.
    asked = {"Accept": accept, "Accept-Encoding": "identity"}
    got, head = (service.request(method, "/dashbord", headers=asked) for method in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (404, b"")
    for found in (got, head):
        del found.headers["Date"], found.headers["X-Request-Id"]
    assert head.headers == got.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept": "*/*"},
        {"Accept": None},
        {"Accept": "application/json"},
        {"Accept": "application/json, text/html;q=0.9"},
        {"Accept": "text/html;q=0, */*"},
        {"Accept": JAVA, "Authorization": "Bearer service_api_x"},
    ],
)
def test_programs_get_the_problem(service: Service, headers: dict[str, str]) -> None:
    found = service.get("/download/v1/fils/x", headers=headers)
    assert (found.status_code, found.headers["Content-Type"]) == (404, "application/problem+json")
    assert found.json()["code"] == "not_found"
    check_headers(found, NOTHING)
    assert found.headers["Vary"] == "Accept, Accept-Encoding"


def test_an_endpoint_that_refuses_answers_in_json_whoever_asks(service: Service) -> None:
    for path, status in (("/download/v2/auth/context", 401), ("/download/v2/auth/login", 405)):
        found = service.get(path, headers={"Accept": BROWSER})
        assert (found.status_code, found.headers["Content-Type"]) == (status, "application/problem+json")
