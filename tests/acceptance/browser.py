"""A client of the dashboard with cookies and forms, without the scripts of a browser."""

import re
from collections.abc import Mapping
from typing import Self

import requests

from tests.acceptance.installation import PASSWORD
from tests.acceptance.service import PATIENCE_SECONDS, Service

SIGN_IN = "/dashboard/sign-in"
SECOND_FACTOR = "/dashboard/second-factor"
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def form_token(page: requests.Response) -> str:
    found = _CSRF.search(page.text)
    assert found is not None, page.text[:500]
    return found[1]


class Browser:
    """Client with cookies that follows no redirect and sends no Origin header by default."""

    def __init__(self, service: Service) -> None:
        self.session = requests.Session()
        self.address = service.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def get(self, path: str, **headers: str) -> requests.Response:
        return self.session.get(self.address + path, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False)

    def head(self, path: str) -> requests.Response:
        return self.session.head(self.address + path, timeout=PATIENCE_SECONDS, allow_redirects=False)

    def post(
        self, path: str, fields: Mapping[str, str] | bytes, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        return self.session.post(
            self.address + path, data=fields, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False
        )

    def sign_in(self, email: str, next_path: str = "") -> requests.Response:
        token = form_token(self.get(SIGN_IN))
        return self.post(SIGN_IN, {"csrf": token, "email": email, "password": PASSWORD, "next": next_path})

    def send_code(self, code: str) -> requests.Response:
        """Send the code of a second factor."""
        return self.post(SECOND_FACTOR, {"csrf": form_token(self.get(SECOND_FACTOR)), "code": code, "next": ""})


def signed_in(service: Service, email: str, page: str = "/files") -> Browser:
    """Return a browser whose user has entered email and password, and is led to a page."""
    browser = Browser(service)
    answer = browser.sign_in(email)
    assert answer.status_code == 303, answer.text[:500]
    assert answer.headers["Location"].partition("?")[0].endswith(page)
    return browser
