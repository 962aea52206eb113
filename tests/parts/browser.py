"""Chromium of the system, driven by Playwright.

Playwright runs an event loop in the thread that uses it, so `asyncio.run` fails in a test with these fixtures.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.parts.presence import absent

if TYPE_CHECKING:  # unit tests load this plugin too, without Playwright
    from playwright.sync_api import Browser, ConsoleMessage, Error, Page

CHROMIUM_OPTIONS = [
    "--no-sandbox",  # containers rarely allow the sandbox of Chromium
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
    # Neither a page nor the browser itself can resolve other names.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
]


def chromium_path() -> str:
    """Return the path of Chromium. End the test if it is not installed.

    A page takes a quarter of the processor time without the windows and menus of the other programs.
    """
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    absent("Chromium", "apt-get install chromium-headless-shell")


@pytest.fixture(scope="session")
def running_chromium() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """Return a headless browser for the whole test run, and the event loop of Playwright, which is paused."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_OPTIONS, timeout=120_000)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        try:
            yield browser, loop
        finally:
            asyncio._set_running_loop(loop)
            browser.close()


@pytest.fixture
def chromium(running_chromium: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """Return the browser. The event loop of Playwright counts as running only in tests that use it."""
    browser, loop = running_chromium
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture
def console_messages() -> list[str]:
    """Return the warnings and errors on the console. The list must be empty at the end of the test.

    A test that provokes a message removes it from the list.
    """
    return []


@pytest.fixture
def open_page(chromium: Browser, console_messages: list[str]) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page in a separate context. Its arguments are those of the context.

    Any console message fails the test, see `console_messages`.
    """
    contexts = []

    def record_message(message: ConsoleMessage) -> None:
        if message.type in {"warning", "error", "assert"}:
            console_messages.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def record_exception(error: Error) -> None:
        console_messages.append(f"exception: {error}")

    def open_context(**options: Any) -> Page:
        context = chromium.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("console", record_message)
        page.on("pageerror", record_exception)
        return page

    yield open_context
    for context in contexts:
        context.close()
    assert console_messages == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """Return a page in a new context."""
    return open_page()
