"""Settings with a real browser: API tokens, password, second factor, sessions; and posts that are not ours."""

import http.server
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from daybreak.credentials import totp
from daybreak.credentials.passwords import MINIMUM_LENGTH
from tests.acceptance.dashboard import stage
from tests.acceptance.dashboard.conftest import Service, forget_failed_loads, sign_in, unused


def _create(page: Page, service: Service, name: str, client_id: str = stage.NORTHLIGHT) -> str:
    page.goto(service.account(client_id, "settings/tokens/new"))
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create the token").click()
    return page.locator("#token-value").inner_text().strip()


def test_token_is_shown_once_works_and_is_revoked(
    visitor: Callable[..., Page], service: Service, tmp_path: Path
) -> None:
    page = visitor()
    nightly = unused("Nightly")
    secret = _create(page, service, f"{nightly} {stage.HOSTILE[:40]}")
    assert re.fullmatch(r"service_api_[0-9A-Za-z]{38}", secret)
    curl = page.locator("#token-curl").inner_text()
    assert secret in curl
    address = re.search(r"http://\S+", curl)
    assert address is not None
    request = urllib.request.Request(address[0], headers={"Authorization": f"Bearer {secret}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.read(2) == b"\x1f\x8b"
    lines = page.locator("#token-client").inner_text()
    command = f"{sys.executable} -m daybreak_client.command"
    done = subprocess.run(
        ["bash", "-euc", lines.replace("daybreak fetch", f"{command} fetch")],
        cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "exports").iterdir())) == 9
    page.reload()
    expect(page.get_by_role("heading", name="API tokens")).to_be_visible()
    assert secret not in page.content()
    row = page.get_by_role("row", name=re.compile(nightly))
    expect(row).to_contain_text(f"…{secret[-4:]}")
    expect(row).to_contain_text(stage.OWNER)
    expect(row).to_contain_text("just now")
    page.go_back()
    assert secret not in page.content(), "the secret was shown again"
    page.goto(service.account(stage.NORTHLIGHT, "settings/tokens"))
    page.get_by_role("link", name=re.compile(f"Revoke {nightly}")).click()
    page.get_by_role("button", name="Revoke the token").click()
    expect(page.get_by_text("The token is revoked.")).to_be_visible()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=60)


def test_two_clicks_make_one_token(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    twice, again = unused("Twice"), unused("Sent again")
    page.goto(service.account(stage.KITA, "settings/tokens/new"))
    page.get_by_label("Name").fill(twice)
    page.get_by_role("button", name="Create the token").dblclick()
    expect(page.locator("#token-value")).to_be_visible()
    # Without the script's guard the same form arrives twice: the second makes nothing.
    page.goto(service.account(stage.KITA, "settings/tokens/new"))
    form: dict[str, Any] = {
        name: page.locator(f"form[action$='tokens/new'] [name={name}]").input_value() for name in ("csrf", "once")
    } | {"name": again, "expiry": "30"}
    address = service.account(stage.KITA, "settings/tokens/new")
    first = page.request.post(address, form=form)
    second = page.request.post(address, form=form)
    assert "service_api_" in first.text()
    assert "service_api_" not in second.text()
    assert "That form was sent before" in second.text()
    page.goto(service.account(stage.KITA, "settings/tokens"))
    expect(page.get_by_role("rowheader", name=twice)).to_have_count(1)
    expect(page.get_by_role("rowheader", name=again)).to_have_count(1)


def test_password_is_asked_for_before_a_secret(
    visitor: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = visitor()
    earlier = datetime.now(UTC) - timedelta(minutes=11)

    def age(stores: object) -> None:
        for session, _ in stores.sessions.list_open(stage.seat_id(stage.OWNER), datetime.now(UTC)):  # type: ignore[attr-defined]
            stores.sessions.mark_reauthenticated(session.sid, earlier)  # type: ignore[attr-defined]

    service.state.write(age)
    page.goto(service.account(stage.NORTHLIGHT, "settings/tokens/new?name=kept"))
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    page.get_by_label("Your password").fill("wrong")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("The password is not right.")).to_be_visible()
    page.get_by_label("Your password").fill(stage.PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_label("Name")).to_have_value("kept")
    page.get_by_label("Name").fill("")
    page.locator("#f-name").evaluate("field => { field.required = false; }")
    page.get_by_role("button", name="Create the token").click()
    expect(page.get_by_text("Send 1 to 80 characters")).to_be_visible()
    forget_failed_loads(console_messages, 400, 401)


def test_without_the_permission_the_page_says_who_can_help(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor(stage.ANALYST)
    page.goto(service.account(stage.NORTHLIGHT, "settings/tokens"))
    expect(page.get_by_text("Your seat may not use API tokens here")).to_be_visible()
    expect(page.get_by_text("Ask data@northlight.example")).to_be_visible()
    assert page.get_by_role("link", name="New token").count() == 0


def test_password_change_ends_the_other_sessions(
    visitor: Callable[..., Page], open_page: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    service.as_new(stage.CHANGER)
    elsewhere = visitor(stage.CHANGER)
    page = visitor(stage.CHANGER)
    page.get_by_role("link", name="Security").click()
    expect(page.get_by_text("this one")).to_be_visible()

    expect(page.get_by_text(f"At least {MINIMUM_LENGTH} characters")).to_be_visible()

    def change(current: str, new: str, again: str) -> None:
        page.get_by_label("Current password").fill(current)
        page.get_by_label("New password", exact=True).fill(new)
        page.get_by_label("New password again").fill(again)
        page.get_by_role("button", name="Change the password").click()

    change(stage.PASSWORD, "eleven foxes under glass", "eleven foxes under grass")
    expect(page.get_by_text("The two new passwords differ.")).to_be_visible()
    change("wrong", "eleven foxes under glass", "eleven foxes under glass")
    expect(page.get_by_text("The current password is not right.")).to_be_visible()
    change(stage.PASSWORD, "eleven foxes under glass", "eleven foxes under glass")
    expect(page.get_by_text("Your password is changed.")).to_be_visible()
    elsewhere.reload()
    expect(elsewhere.get_by_text("Your session has ended.")).to_be_visible()
    fresh = open_page()
    sign_in(fresh, service, stage.CHANGER, password="eleven foxes under glass")
    fresh.wait_for_url("**/files")
    page.reload()
    page.get_by_role("button", name=re.compile("End the session")).first.click()
    expect(page.get_by_text("The session has ended.")).to_be_visible()
    fresh.reload()
    expect(fresh.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_text("You are signed out everywhere.")).to_be_visible()
    forget_failed_loads(console_messages, 400, 401)


def test_second_factor_set_up_and_new_recovery_codes(
    visitor: Callable[..., Page], open_page: Callable[..., Page], service: Service
) -> None:
    service.as_new(stage.ENROLLER)
    page = visitor(stage.ENROLLER)
    page.get_by_role("link", name="Security").click()
    page.get_by_role("button", name="Set up").click()
    expect(page.locator(".qr svg")).to_be_visible()
    seed = stage.seed_of(page.locator("#manual-key").inner_text())
    page.get_by_label("Six-digit code").fill(totp.code_at(seed, int(time.time()) // 30))
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator("#recovery-codes li")).to_have_count(10)
    first = page.locator("#recovery-codes li").first.inner_text().strip()
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("10 of 10 left.")).to_be_visible()
    page.get_by_role("button", name="Make new codes").click()
    newer = page.locator("#recovery-codes li").first.inner_text().strip()
    assert newer != first
    other = open_page()
    sign_in(other, service, stage.ENROLLER)
    other.get_by_role("link", name="Use a recovery code").click()
    other.get_by_label("Recovery code").fill(newer)
    other.get_by_role("button", name="Go on").click()
    other.wait_for_url("**/files")


@pytest.fixture
def foreign_page() -> Iterator[Callable[[str], str]]:
    """A page of another origin that sends a form to us as soon as it is open."""
    pages: dict[str, str] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path, "").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def serve(body: str) -> str:
        pages["/page"] = body
        return f"http://127.0.0.1:{server.server_port}/page"

    yield serve
    server.shutdown()
    server.server_close()
    thread.join(30)


def test_posts_from_another_origin_are_refused(
    visitor: Callable[..., Page],
    service: Service,
    foreign_page: Callable[[str], str],
    console_messages: list[str],
) -> None:
    page = visitor()
    page.goto(service.account(stage.NORTHLIGHT, "settings/tokens/new"))
    token = page.locator("form[action$='tokens/new'] [name=csrf]").input_value()
    once = page.locator("[name=once]").input_value()
    address = service.account(stage.NORTHLIGHT, "settings/tokens/new")
    # Even a token that leaked does not help a page of another origin; same site, so the cookie comes along.
    attack = foreign_page(
        f'<link rel="icon" href="data:,"><form method="post" action="{address}"><input name="csrf" value="{token}">'
        f'<input name="once" value="{once}"><input name="name" value="stolen"><input name="expiry" value="30"></form>'
        "<script>document.forms[0].submit()</script>"
    )
    page.goto(attack)
    expect(page.get_by_role("heading", name="The form was not accepted")).to_be_visible()
    # And from our own origin the token of another session does not help either.
    form: dict[str, Any] = {
        "csrf": token[:-1] + ("0" if token[-1] != "0" else "1"),
        "once": once,
        "name": "stolen",
        "expiry": "never",
    }
    assert page.request.post(address, form=form).status == 403
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert page.request.post(address, form={**form, "csrf": token}, headers=headers).status == 403
    page.goto(service.account(stage.NORTHLIGHT, "settings/tokens"))
    assert page.get_by_text("stolen").count() == 0
    forget_failed_loads(console_messages, 403)


def test_get_changes_nothing(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    for path in (
        "settings/security/sign-out-everywhere",
        "settings/security/password",
        "settings/security/recovery-codes",
    ):
        answer = page.request.get(service.account(stage.NORTHLIGHT, path))
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert page.request.get(f"{service.base}/dashboard/sign-out").status == 405
    page.reload()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
