"""Addresses that nothing has, and links that are refused: people get a page that leads on, programs the problem."""

from __future__ import annotations

import pytest

from tests.acceptance.service import AUTH, Service
from tests.acceptance.test_headers import DASHBOARD, NOTHING, check_headers
from tests.acceptance.world import MAYA, NORTH

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


def test_a_link_that_was_handed_on_is_refused_in_words(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    link = service.link(token, NORTH)
    altered, gone = link.replace("expires=", "expires=1"), link.replace("campaigns", "passwords")
    assert service.request("DELETE", f"{AUTH}/logout", token=token).status_code == 204
    for url, status, code, title in (
        (link, 403, "link_revoked", "The link was revoked"),
        (altered, 403, "invalid_link", "The link is not good"),
        (gone, 404, "unknown_file", "There is no such file"),
    ):
        page, problem = (service.get(url, headers={"Accept": accept}) for accept in (BROWSER, "*/*"))
        assert (page.status_code, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
        assert f"<h1>{title}</h1>" in page.text
        assert 'href="/dashboard/"' in page.text
        check_headers(page, DASHBOARD)
        assert (problem.status_code, problem.json()["code"]) == (status, code)
        check_headers(problem, NOTHING)
        assert page.headers["Vary"] == problem.headers["Vary"] == "Accept, Accept-Encoding"


def test_a_link_that_is_good_is_the_file_whoever_opens_it(service: Service) -> None:
    link = service.link(service.token(MAYA, NORTH), NORTH)
    found = service.get(link, headers={"Accept": BROWSER})
    assert (found.status_code, found.headers["Content-Type"]) == (200, "application/gzip")
