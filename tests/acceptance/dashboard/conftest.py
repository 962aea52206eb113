"""Fixtures of the browser tests: one running service, and pages that are signed in to it."""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import APIResponse, Page, expect

from daybreak.credentials import keyring
from daybreak.state.sqlite_state import SqliteState
from daybreak.state.stores import State, Stores
from tests.acceptance.dashboard.axe import WIDE
from tests.acceptance.dashboard.sample import directory
from tests.acceptance.dashboard.sample.service import MAIL_URL_VARIABLE
from tests.parts.mail_server import MailServer, mail_server
from tests.parts.ports import free_port
from tests.parts.warm import running_warm

# Generous, because a test machine may be busy.
expect.set_options(timeout=60_000)


@dataclass(frozen=True)
class Service:
    """The running service, its folder and mail server, and its state database and keyring.

    Tests change these where no page can.
    """

    base: str
    state: State
    mails: MailServer
    ring: keyring.Keyring
    folder: Path

    def account(self, client_id: str, path: str = "files") -> str:
        """Return the URL of a page on an account."""
        return f"{self.base}/dashboard/{client_id}/{path}"

    def operator(self, path: str) -> str:
        """Return the URL of an operator page."""
        return f"{self.base}/dashboard/operator/{path}"

    def reset_seat(self, email: str) -> None:
        """Restore a seat to its initial state."""
        directory.reset_seat(self.state, self.ring, email, datetime.now(UTC))

    def age_password(self, email: str) -> None:
        """Record that the password of a seat's sessions was entered an hour ago."""
        now = datetime.now(UTC)

        def write(stores: Stores) -> None:
            for session, _ in stores.sessions.list_open(directory.id_of(email), now):
                stores.sessions.mark_reauthenticated(session.sid, now - timedelta(hours=1))

        self.state.write(write)

    def end_sessions(self, email: str) -> None:
        """End all sessions of a seat, as if they had expired."""
        now = datetime.now(UTC)
        self.state.write(lambda stores: stores.sessions.end_all(directory.id_of(email), now, "the test"))


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, project_folder: Path) -> Iterator[Service]:
    """The service with sample data."""
    with served_sample(tmp_path_factory.mktemp("sample"), project_folder) as running_service:
        yield running_service


@contextmanager
def served_sample(
    folder: Path, project_folder: Path, *, members: int = 400, days: int = 3, days_late: int = 0
) -> Iterator[Service]:
    """Serve sample data in the folder. The last publication was due eight hours ago."""
    port = free_port()
    hour = (datetime.now(UTC).hour - 8) % 24
    arguments = [str(folder), str(port), str(hour), str(members), str(days), str(days_late)]
    with (
        mail_server() as mails,
        running_warm(
            arguments,
            module="tests.acceptance.dashboard.sample.service",
            folder=project_folder,
            environment={MAIL_URL_VARIABLE: mails.url},
        ) as program,
    ):
        program.wait_for_log("ready", 270)
        state = SqliteState(folder / "state.db")
        try:
            yield Service(f"http://localhost:{port}", state, mails, keyring.load(folder / "keyring.json"), folder)
        finally:
            state.close()


def sign_in(
    page: Page, service: Service, email: str, *, password: str = directory.PASSWORD, path: str = "/dashboard/"
) -> None:
    """Open a page and sign in."""
    page.goto(service.base + path)
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def confirm_password(page: Page) -> None:
    """Enter the password where a page asks for it."""
    page.get_by_label("Password").fill(directory.PASSWORD)
    page.get_by_role("button", name="Continue").click()


def post_form(page: Page, address: str, **fields: str) -> APIResponse:
    """Send the form of a page through requests of the page's context, which take less time than the browser."""
    form = re.search(r'name="csrf" value="([^"]+)"', page.request.get(address).text())
    assert form is not None
    return page.request.post(address, form={"csrf": form[1], **fields}, max_redirects=0)


def sign_in_without_form(page: Page, service: Service, email: str) -> None:
    """Sign in through requests, without opening a page."""
    address = service.base + "/dashboard/sign-in"
    assert post_form(page, address, email=email, password=directory.PASSWORD, next="").status == 303


@pytest.fixture
def sign_in_as(open_page: Callable[..., Page], service: Service) -> Callable[..., Page]:
    """A function that signs a user in, in a new browser context, and opens their files, another page or none."""

    def open_one(email: str = directory.OWNER, *, address: str | None = "", **options: Any) -> Page:
        page = open_page(**options)
        sign_in_without_form(page, service, email)
        if address is not None:
            page.goto(address or f"{service.base}/dashboard/")
        return page

    return open_one


@pytest.fixture
def open_with_axe(open_page: Callable[..., Page], project_folder: Path) -> Callable[[], Page]:
    """A function that opens a page with axe, without transitions so that axe measures final colors."""

    def open_one() -> Page:
        page = open_page(viewport=WIDE, reduced_motion="reduce")
        page.add_init_script(path=project_folder / "tests/vendored/axe-4.14.1.min.js")
        return page

    return open_one


def count_clicks(page: Page) -> Callable[[], int]:
    """Count clicks and taps on pages that are opened from now on. Return a function that returns their number."""
    page.add_init_script(
        "addEventListener('pointerdown', () => "
        "{ sessionStorage.clicks = 1 + Number(sessionStorage.clicks ?? 0); }, true)"
    )
    return lambda: int(page.evaluate("sessionStorage.clicks ?? 0"))


def unique(name: str) -> str:
    """Return the name with a random suffix, so that a test can run again on the same service."""
    return f"{name} {secrets.token_hex(4)}"


def ignore_failed_loads(console_messages: list[str], *statuses: int) -> None:
    """Remove the messages that the browser logs about responses with these status codes."""
    expected = [f"Failed to load resource: the server responded with a status of {status}" for status in statuses]
    console_messages[:] = [message for message in console_messages if not any(text in message for text in expected)]
