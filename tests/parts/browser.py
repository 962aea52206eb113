"""Chromium, driven by Playwright. The browser is the system's; Playwright downloads none.

Playwright keeps an event loop in the thread that uses it, so ``asyncio.run`` does not work in a module that asks for
these fixtures; they are put away when the module ends.
"""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, sync_playwright

from tests.parts.presence import absent

QUIET = [
    "--no-sandbox",  # the kernel of a container seldom allows Chromium's own
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-pings",
    "--no-proxy-server",
    # The browser asks nobody outside, whatever a page or its own services want.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]


def chromium_path() -> str:
    """Return the path of the system's Chromium; end the test when there is none."""
    for name in ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    absent("Chromium", "apt-get install chromium")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless browser for the tests of one module."""
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET, timeout=120_000)
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture
def console_messages() -> list[str]:
    """What pages of this test wrote to the console as a warning or error. Must be empty at the end; a test that
    provokes a message takes it out itself, after looking at it.
    """
    return []


@pytest.fixture
def open_page(chromium: Browser, console_messages: list[str]) -> Iterator[Callable[..., Page]]:
    """A function that opens a page in a context of its own (no cookies shared); its arguments are the context's.

    Waits of the page are generous (60 s). The console is watched, see ``console_messages``.
    """
    contexts = []

    def note(message: ConsoleMessage) -> None:
        if message.type in {"warning", "error", "assert"}:
            console_messages.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def fault(error: Error) -> None:
        console_messages.append(f"exception: {error}")

    def open_one(**options: Any) -> Page:
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", fault)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert console_messages == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """One page in a fresh context."""
    return open_page()
