"""Cross-site forms."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads
from tests.acceptance.dashboard.sample import directory
from tests.parts.scripted_service import Reply, scripted_service


@pytest.fixture
def foreign_page() -> Iterator[Callable[[str], str]]:
    """A function that serves a page on another origin and returns its URL."""
    with scripted_service() as foreign:

        def serve(body: str) -> str:
            foreign.script = lambda _: Reply(200, body.encode(), {"Content-Type": "text/html"})
            return f"{foreign.url.replace('127.0.0.1', 'localhost')}/page"

        yield serve


def test_cross_site_form_is_rejected(
    sign_in_as: Callable[..., Page], service: Service, foreign_page: Callable[[str], str], console_messages: list[str]
) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "settings/tokens/new"))
    token = page.locator("form[action$='tokens/new'] [name=csrf]").input_value()
    address = service.account(directory.NORTHLIGHT, "settings/tokens/new")
    # A form with a valid token is rejected because of its origin. It is same-site, so the browser sends the cookie.
    fields = {"csrf": token, "name": "stolen", "expiry": "30"}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    attack = foreign_page(
        f'<link rel="icon" href="data:,"><form method="post" action="{address}">{inputs}</form>'
        "<script>document.forms[0].submit()</script>"
    )
    page.goto(attack)
    expect(page.get_by_role("heading", name="Form rejected")).to_be_visible()
    page.goto(service.account(directory.NORTHLIGHT, "settings/tokens"))
    assert page.get_by_text("stolen").count() == 0
    ignore_failed_loads(console_messages, 403)


def test_get_has_no_side_effects(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as()
    # These pages ask for confirmation.
    for path in ("sign-out-everywhere", "recovery-codes"):
        assert page.request.get(service.account(directory.NORTHLIGHT, f"settings/security/{path}")).ok
    response = page.request.get(service.account(directory.NORTHLIGHT, "settings/security/password"))
    assert (response.status, response.headers["allow"]) == (405, "POST")
    assert page.request.get(f"{service.base}/dashboard/sign-out").status == 405
    page.reload()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
