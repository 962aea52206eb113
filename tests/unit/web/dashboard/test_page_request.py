"""Requests of signed-in users: the account that a page is on."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
from starlette.requests import Request

from daybreak.credentials import signed_text
from daybreak.web.dashboard.accounts.handlers import list_commands
from daybreak.web.dashboard.context import DashboardContext, DashboardRequest
from daybreak.web.dashboard.page_request import Policy, load_page_request
from tests.configured import configured
from tests.unit.access.conftest import instance
from tests.unit.access.instance import ALPHA, BRAVO, CALLER, FOREIGN, ROSA, Instance

__all__ = ["instance"]


async def request_of(instance: Instance, client_id: str = "", query: str = "") -> DashboardRequest:
    """Return the request of a signed-in browser for a page on an account, or for an operator page without one."""
    started = await instance.log_in(caller=CALLER, kind="dashboard")
    ring = instance.services.keyring.current()
    cookie = signed_text.sign(started.session.sid, "session", purpose="dashboard-cookie", keyring=ring)
    prefix = "__Host-" if instance.services.settings.secure else ""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [(b"cookie", f"{prefix}daybreak-session={cookie}".encode())],
        "query_string": query.encode(),
        "path_params": {"client_id": client_id},
        "client": ("127.0.0.1", 1),
        "state": {},
    }
    return DashboardRequest(DashboardContext(instance.services, Mock(), Mock(), Mock()), Request(scope))


async def test_pages_read_one_account_of_a_seat(instance: Instance) -> None:
    """A seat may have 10,000 accounts."""
    sent = await request_of(instance, BRAVO)
    page = await load_page_request(sent, Policy())
    assert (page.tab_account_id, page.account_count) == (BRAVO, 3)
    statements = await instance.statements_of(load_page_request(sent, Policy()))
    lists = [text for text in statements if "FROM grants" in text and "count(" not in text]
    assert lists
    assert all("client_id = " in text.partition("WHERE")[2] for text in lists), lists


@pytest.mark.parametrize(
    ("query", "last_client_id", "opened"),
    [
        (f"account={BRAVO}", ALPHA, BRAVO),
        (f"account={FOREIGN}", BRAVO, BRAVO),
        ("", BRAVO, BRAVO),
        ("", FOREIGN, ALPHA),
    ],
)
async def test_operator_pages_keep_the_account_of_the_tab(
    instance: Instance, query: str, last_client_id: str, opened: str
) -> None:
    sent = await request_of(instance, query=query)
    instance.write(lambda stores: stores.seats.set_last_client(ROSA, last_client_id))
    page = await load_page_request(sent, Policy(audience="operator"))
    assert page.tab_account_id == opened
    assert page.operator_url("people", q="rosa@example.org").endswith(f"people?q=rosa%40example.org&account={opened}")
    without = replace(page, granted=None)
    assert without.tab_account_id == ""
    assert without.operator_url("people", q="rosa@example.org").endswith("/people?q=rosa%40example.org")


@pytest.mark.parametrize("password_login", [True, False])
async def test_password_change_is_offered_while_passwords_are_on(instance: Instance, password_login: bool) -> None:
    settings = configured(instance.services.settings, oidc={"password_login": password_login})
    sent = await request_of(instance, BRAVO)
    instance.services = replace(instance.services, settings=settings)
    dashboard = DashboardContext(instance.services, Mock(), Mock(), Mock())
    page = await load_page_request(replace(sent, dashboard=dashboard), Policy())
    commands = await list_commands(page)
    assert (b"Change password" in commands.body) is password_login
