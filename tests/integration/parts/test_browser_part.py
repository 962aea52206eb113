"""The browser fixtures."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Error, Page

pytestmark = pytest.mark.browser


def test_console_messages_are_recorded(open_page: Callable[..., Page], console_messages: list[str]) -> None:
    page = open_page()
    page.set_content("<script>console.error('a message')</script>")
    page.wait_for_function("true")
    assert len(console_messages) == 1
    assert "a message" in console_messages.pop()


def test_browser_cannot_reach_other_machines(page: Page) -> None:
    with pytest.raises(Error, match=r"ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED|ERR_ADDRESS_UNREACHABLE"):
        page.goto("http://example.com/")
