"""Log lines of refused requests, by which an operator finds attempts to bypass access controls."""

import re

import pytest
import requests

from tests.acceptance.browser import SIGN_IN, Browser, signed_in
from tests.acceptance.installation import FOREIGN, MAYA, NORTH, VIC
from tests.acceptance.service import Service


def _foreign_account(service: Service) -> requests.Response:
    return service.request_file(service.token(MAYA, NORTH), FOREIGN)


def _missing_permission(service: Service) -> requests.Response:
    return service.request_file(service.token(VIC, NORTH), NORTH)


def _forged_token(service: Service) -> requests.Response:
    return service.request_file(service.token(MAYA, NORTH)[:-4] + "AAAA", NORTH)


def _changed_link(service: Service) -> requests.Response:
    link = service.link(service.token(MAYA, NORTH), NORTH)
    return service.get(re.sub("signature=....", "signature=0000", link))


def _forged_form(service: Service) -> requests.Response:
    with Browser(service) as browser:
        return browser.post(SIGN_IN, {"csrf": "x", "email": MAYA, "password": "x"})


def _foreign_page(service: Service) -> requests.Response:
    with signed_in(service, VIC) as browser:
        return browser.get(f"/dashboard/{FOREIGN}/files")


def _two_hosts(service: Service) -> requests.Response:
    return service.get("/healthz", headers={"Host": "a b"})


@pytest.mark.parametrize(
    ("attempt", "code"),
    [
        (_foreign_account, "not_your_account"),
        (_missing_permission, "data_export_required"),
        (_forged_token, "invalid_token"),
        (_changed_link, "invalid_link"),
        (_forged_form, "cross_site"),
        (_foreign_page, "not_your_account"),
        (_two_hosts, "invalid_host"),
    ],
)
def test_refused_request_is_logged_with_its_code(service: Service, attempt: object, code: str) -> None:
    assert callable(attempt)
    answer = attempt(service)
    assert answer.status_code in {400, 401, 403}
    line = service.logged(answer.headers["X-Request-Id"])
    assert (line["status"], line["code"]) == (answer.status_code, code)


def test_answered_request_is_logged_without_a_code(service: Service) -> None:
    assert service.logged(service.get("/healthz").headers["X-Request-Id"])["code"] == ""
