"""Unknown URLs and refused links: a page for browsers, a problem document for programs."""

import pytest

from tests.acceptance.installation import MAYA, NORTH
from tests.acceptance.service import AUTH, Service
from tests.acceptance.test_headers import API_POLICY, DASHBOARD_POLICY, check_headers

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
UNKNOWN_PATHS = ("/dashbord", "/files", "/download/v1/fils/x", "/docs/", "//")


@pytest.mark.parametrize("path", UNKNOWN_PATHS)
def test_unknown_url_is_a_page_for_browsers(service: Service, path: str) -> None:
    found = service.get(path, headers={"Accept": BROWSER})
    assert (found.status_code, found.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    check_headers(found, DASHBOARD_POLICY)
    assert found.headers["Vary"] == "Accept, Accept-Encoding"
    assert found.headers["X-Request-Id"] in found.text
    for target in ("/dashboard/", "/docs"):
        assert f'href="{target}"' in found.text
        assert service.get(target).status_code in (200, 303)


@pytest.mark.parametrize("accept", [BROWSER, "*/*"])
def test_head_of_an_error_has_the_headers_of_get(service: Service, accept: str) -> None:
    # With compression, the length would depend on the request id in the body.
    headers = {"Accept": accept, "Accept-Encoding": "identity"}
    got, head = (service.request(method, "/dashbord", headers=headers) for method in ("GET", "HEAD"))
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
def test_unknown_url_is_a_problem_for_programs(service: Service, headers: dict[str, str]) -> None:
    found = service.get("/download/v1/fils/x", headers=headers)
    assert (found.status_code, found.headers["Content-Type"]) == (404, "application/problem+json")
    assert found.json()["code"] == "not_found"
    check_headers(found, API_POLICY)
    assert found.headers["Vary"] == "Accept, Accept-Encoding"


def test_api_errors_are_json_for_browsers_too(service: Service) -> None:
    for path, status in (("/download/v2/auth/context", 401), ("/download/v2/auth/login", 405)):
        found = service.get(path, headers={"Accept": BROWSER})
        assert (found.status_code, found.headers["Content-Type"]) == (status, "application/problem+json")


def test_refused_link_is_explained_on_a_page(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    link = service.link(token, NORTH)
    altered, unknown = link.replace("expires=", "expires=1"), link.replace("campaigns", "passwords")
    assert service.request("DELETE", f"{AUTH}/logout", token=token).status_code == 204
    for url, status, code, title in (
        (link, 403, "link_revoked", "Link revoked"),
        (altered, 403, "invalid_link", "Invalid link"),
        (unknown, 404, "unknown_file", "Unknown file"),
    ):
        page, problem = (service.get(url, headers={"Accept": accept}) for accept in (BROWSER, "*/*"))
        assert (page.status_code, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
        assert f"<h1>{title}</h1>" in page.text
        assert 'href="/dashboard/"' in page.text
        check_headers(page, DASHBOARD_POLICY)
        assert (problem.status_code, problem.json()["code"]) == (status, code)
        check_headers(problem, API_POLICY)
        assert page.headers["Vary"] == problem.headers["Vary"] == "Accept, Accept-Encoding"


def test_valid_link_opens_the_file_in_a_browser(service: Service) -> None:
    link = service.link(service.token(MAYA, NORTH), NORTH)
    found = service.get(link, headers={"Accept": BROWSER})
    assert (found.status_code, found.headers["Content-Type"]) == (200, "application/gzip")
