"""Security headers on every kind of response: pages, JSON, files, redirects, errors."""

import re

import pytest
import requests

from tests.acceptance.browser import SIGN_IN, Browser, form_token
from tests.acceptance.installation import FOREIGN, MAYA, NORTH, PASSWORD
from tests.acceptance.service import AUTH, Service

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Server": "daybreak",
}
API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
DASHBOARD_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
FILE = "private, no-cache, no-transform"
STATIC = "public, max-age=31536000, immutable"


def check_headers(found: requests.Response, policy: str = API_POLICY, cache: str = "no-store") -> None:
    """Check that each header has its expected value."""
    case = f"{found.request.method} {found.request.url}: {found.status_code}"
    values = {name: found.headers.get(name) for name in ALWAYS}
    assert values == ALWAYS, case
    assert found.headers["Content-Security-Policy"] == policy, case
    assert found.headers["Cache-Control"] == cache, case
    assert re.fullmatch(r"[0-9a-f]{24}", found.headers["X-Request-Id"]), case


def test_api_responses_have_security_headers(service: Service) -> None:
    token = service.token(MAYA, NORTH)
    login = f"{AUTH}/login"
    json_type = {"Content-Type": "application/json"}
    for status, found in (
        (200, service.get("/healthz")),
        (200, service.get("/readyz")),
        (200, service.get("/openapi.json")),
        (200, service.get("/download/v1/schema")),
        (200, service.log_in(MAYA)),
        (200, service.get(f"{AUTH}/context", token=token)),
        (200, service.get(f"/download/v1/files/{NORTH}", token=token)),
        (200, service.get(f"/download/v1/audit/{NORTH}", token=token)),
        (204, service.request("DELETE", f"{AUTH}/logout", token=service.token(MAYA))),
        (302, service.request_file(token, NORTH)),
        (400, service.request("POST", login, data=b"{", headers=json_type)),
        (400, service.get("/healthz", headers={"Host": "a b"})),
        (401, service.log_in("nobody@example.org")),
        (401, service.request_file("x", NORTH)),
        (403, service.request_file(token, FOREIGN)),
        (403, service.get(f"/download/v1/links/{NORTH}/x/campaigns.csv.gz")),
        (404, service.get("/nowhere")),
        (404, service.get("/healthz?a=%00")),
        (404, service.request_file(token, NORTH, "passwords.csv.gz")),
        (405, service.request("POST", "/healthz")),
        (413, service.request("POST", login, data=b" " * 17_000, headers=json_type)),
        (414, service.get("/" + "a" * 9_000)),
        (415, service.request("POST", login, data=b"x")),
        (431, service.get("/", headers={"X-Long": "a" * 65_600})),
    ):
        assert found.status_code == status, (found.request.url, found.text)
        check_headers(found)
        assert "Strict-Transport-Security" not in found.headers, "this service uses plain HTTP"


@pytest.mark.parametrize("file", ["members.csv.gz", "campaign_links.csv.gz"])
def test_files_have_security_headers(service: Service, file: str) -> None:
    """Large and small files are sent in different ways."""
    link = service.link(service.token(MAYA, NORTH), NORTH, file)
    first = service.get(link)
    for status, found in (
        (200, first),
        (200, service.request("HEAD", link)),
        (200, service.get(link, headers={"Accept": "text/csv", "Accept-Encoding": "gzip"})),
        (206, service.get(link, headers={"Range": "bytes=0-9"})),
        (206, service.get(link, headers={"Range": "bytes=0-9,20-29"})),
        (304, service.get(link, headers={"If-None-Match": first.headers["ETag"]})),
    ):
        assert found.status_code == status
        check_headers(found, cache=FILE)
    for status, found in (
        (412, service.get(link, headers={"If-Match": '"x"'})),
        (416, service.get(link, headers={"Range": "bytes=99999999-"})),
    ):
        assert found.status_code == status
        check_headers(found)


def test_pages_have_security_headers(service: Service) -> None:
    with Browser(service) as browser:
        get = browser.get
        sign_in = get(SIGN_IN)
        check_headers(sign_in, DASHBOARD_POLICY)
        fields = {"csrf": form_token(sign_in), "email": MAYA, "next": ""}
        wrong = browser.post(SIGN_IN, {"password": "wrong", **fields})
        assert wrong.status_code == 401
        check_headers(wrong, DASHBOARD_POLICY)
        forged = browser.post(SIGN_IN, {"email": MAYA, "password": PASSWORD})
        assert forged.status_code == 403
        check_headers(forged, DASHBOARD_POLICY)
        for path in ("/", f"/dashboard/{NORTH}/files"):
            redirected = get(path)
            assert redirected.status_code == 303
            check_headers(redirected)
        signed_in = browser.post(SIGN_IN, {"password": PASSWORD, **fields})
        assert signed_in.status_code == 303
        check_headers(signed_in)
        page = get(f"/dashboard/{NORTH}/files")
        for status, found in (
            (200, page),
            (200, get(f"/dashboard/{NORTH}/settings/security")),
            (403, get(f"/dashboard/{FOREIGN}/files")),
            (403, get("/dashboard/operator/runs")),
        ):
            assert found.status_code == status
            check_headers(found, DASHBOARD_POLICY)
            assert re.search(r"<(style|script)[^>]*>[^<]|\sstyle=|\son[a-z]+=", found.text) is None, (
                "inline style or script"
            )
        (style,) = re.findall(r'href="([^"]+/static/[^"]+\.css)"', page.text)
        script = re.findall(r'src="([^"]+/static/[^"]+\.js)"', page.text)[0]
        for path in (style, script):
            check_headers(get(path), cache=STATIC)
        missing = get("/dashboard/static/0/style.css")
        assert missing.status_code == 404
        check_headers(missing)
        not_allowed = service.request("PUT", SIGN_IN)
        assert not_allowed.status_code == 405
        check_headers(not_allowed)
        check_headers(get("/docs"), DOCS_POLICY, "public, max-age=300")
