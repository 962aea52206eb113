"""The browser that tests lean on draws pages, runs their scripts, and reaches nothing outside."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Error, Page

pytestmark = pytest.mark.browser


def test_it_runs_a_page(page: Page) -> None:
    page.set_content("<title>x</title><p id=a>before</p><script>a.textContent = 'after'</script>")
    assert page.text_content("#a") == "after"


def test_its_console_is_watched(open_page: Callable[..., Page], console_messages: list[str]) -> None:
    page = open_page()
    page.set_content("<script>console.error('look here')</script>")
    page.wait_for_function("true")
    assert len(console_messages) == 1
    assert "look here" in console_messages.pop()


def test_it_reaches_nothing_outside(page: Page) -> None:
    with pytest.raises(Error, match=r"ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED|ERR_ADDRESS_UNREACHABLE"):
        page.goto("http://example.com/")
