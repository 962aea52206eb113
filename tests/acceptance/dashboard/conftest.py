"""One service on the stage for all browser tests, and visitors who are signed in to it."""

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from daybreak.credentials import keyring
from daybreak.ports.state import State
from daybreak.state.sqlite_state import SqliteState
from tests.acceptance.dashboard import stage
from tests.parts.processes import running
from tests.parts.waiting import free_port

# A busy machine takes its time; nothing here is about speed.
expect.set_options(timeout=60_000)


@dataclass(frozen=True)
class Service:
    """The running service: its address, and its state database and keyring for what no page can do."""

    base: str
    state: State
    ring: keyring.Keyring

    def account(self, client_id: str, path: str = "files") -> str:
        """The address of a page on an account."""
        return f"{self.base}/dashboard/{client_id}/{path}"

    def operator(self, path: str) -> str:
        """The address of an operator page."""
        return f"{self.base}/dashboard/operator/{path}"

    def as_new(self, email: str) -> None:
        """Puts a seat back to how it stood at the start."""
        stage.as_new(self.state, self.ring, email, datetime.now(UTC))

    def end_sessions(self, email: str) -> None:
        """Ends every session of a seat, as if they had expired."""
        now = datetime.now(UTC)
        self.state.write(lambda stores: stores.sessions.end_all(stage.seat_id(email), now, "the test"))


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, project_folder: Path) -> Iterator[Service]:
    """The service on a stage of its own."""
    folder, port = tmp_path_factory.mktemp("stage"), free_port()
    hour = (datetime.now(UTC).hour - 8) % 24
    command = [sys.executable, "-m", "tests.acceptance.dashboard.stage", str(folder), str(port), str(hour), "400", "3"]
    # The code of this checkout, wherever the environment's own copy of the package comes from.
    path = os.pathsep.join([str(project_folder / "src"), str(project_folder)])
    with running(command, folder=project_folder, environment={"PYTHONPATH": path}) as program:
        program.wait_for_log("ready", 270)
        state = SqliteState(folder / "state.db")
        try:
            yield Service(f"http://127.0.0.1:{port}", state, keyring.load(folder / "keyring.json"))
        finally:
            state.close()


def sign_in(
    page: Page, service: Service, email: str, *, password: str = stage.PASSWORD, path: str = "/dashboard/"
) -> None:
    """Goes to a page that asks for the password, and gives it."""
    page.goto(service.base + path)
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def visitor(open_page: Callable[..., Page], service: Service) -> Callable[..., Page]:
    """A function that opens a page in a fresh context and signs somebody in; lands on their files."""

    def open_one(email: str = stage.OWNER, **options: Any) -> Page:
        page = open_page(**options)
        sign_in(page, service, email)
        page.wait_for_url("**/files")
        return page

    return open_one


def unused(name: str) -> str:
    """A name that begins like this one and that nothing on the stage has yet, however often a test runs on it."""
    return f"{name} {secrets.token_hex(4)}"


def forget_failed_loads(console_messages: list[str], *statuses: int) -> None:
    """Takes out what the browser itself notes about an answer that is an error on purpose; nothing else."""
    signs = [f"Failed to load resource: the server responded with a status of {status}" for status in statuses]
    console_messages[:] = [message for message in console_messages if not any(sign in message for sign in signs)]
