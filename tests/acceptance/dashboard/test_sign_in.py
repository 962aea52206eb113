"""Signing in and out with a real browser: right and wrong, owed second factors, sessions that end."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from daybreak.credentials import totp
from tests.acceptance.dashboard import stage
from tests.acceptance.dashboard.conftest import Service, forget_failed_loads, sign_in


def test_wrong_password_then_right_one(page: Page, service: Service, console_messages: list[str]) -> None:
    sign_in(page, service, stage.ANALYST, password="not this one")
    expect(page.get_by_text("Email or password is not right.")).to_be_visible()
    expect(page.get_by_label("Email")).to_have_value(stage.ANALYST)
    expect(page.get_by_label("Password")).to_have_value("")
    expect(page.get_by_label("Password")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Password").fill(stage.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/dashboard/{stage.NORTHLIGHT}/files")
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    forget_failed_loads(console_messages, 401)


def test_the_bare_address_leads_to_sign_in_and_to_the_files(page: Page, service: Service) -> None:
    sign_in(page, service, stage.ANALYST, path="/")
    page.wait_for_url(f"**/dashboard/{stage.NORTHLIGHT}/files")
    page.goto(f"{service.base}/")
    page.wait_for_url(f"**/dashboard/{stage.NORTHLIGHT}/files")


def test_a_mistyped_address_is_a_page_too(page: Page, service: Service, console_messages: list[str]) -> None:
    answer = page.goto(f"{service.base}/dashboard/{stage.NORTHLIGHT}/fils")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    page.get_by_role("link", name="To your files").click()
    page.wait_for_url("**/dashboard/sign-in**")
    forget_failed_loads(console_messages, 404)


def test_unknown_seat_reads_like_a_wrong_password(page: Page, service: Service, console_messages: list[str]) -> None:
    sign_in(page, service, "nobody@example.org")
    expect(page.get_by_text("Email or password is not right.")).to_be_visible()
    forget_failed_loads(console_messages, 401)


def test_cookie_is_for_the_server_alone(visitor: Callable[..., Page]) -> None:
    page = visitor()
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    session = cookies["daybreak-session"]
    assert session["httpOnly"]
    assert session["sameSite"] == "Lax"
    assert page.evaluate("() => document.cookie") == ""


def test_comes_back_to_the_page_that_was_asked_for(page: Page, service: Service) -> None:
    sign_in(page, service, stage.OWNER, path=f"/dashboard/{stage.KITA}/activity?action=login")
    page.wait_for_url(f"**/dashboard/{stage.KITA}/activity?action=login")


@pytest.mark.parametrize(
    "target",
    ["//evil.example/", "https://evil.example/", "/\\evil.example", "/dashboard/../../evil", "javascript:alert(1)"],
)
def test_next_leads_to_own_pages_only(page: Page, service: Service, target: str) -> None:
    page.goto(f"{service.base}/dashboard/sign-in?next={target}")
    expect(page.locator("input[name=next]")).to_have_value("")


def test_second_factor_wrong_code_used_code_recovery_code(
    open_page: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    service.as_new(stage.CAREFUL)
    page = open_page()
    sign_in(page, service, stage.CAREFUL, path=f"/dashboard/{stage.VAULT}/insight")
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    # The waiting session opens nothing else.
    page.goto(service.account(stage.VAULT))
    expect(page).to_have_url(re.compile("/second-factor"))
    page.get_by_label("Six-digit code").fill("000 000")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("The code is not right, or was used before.")).to_be_visible()
    code = totp.code_at(stage.SEED, int(time.time()) // 30)
    page.get_by_label("Six-digit code").fill(f"{code[:3]} {code[3:]}")
    page.get_by_role("button", name="Go on").click()
    page.wait_for_url("**/files")

    second = open_page()
    sign_in(second, service, stage.CAREFUL)
    second.get_by_label("Six-digit code").fill(code)
    second.get_by_role("button", name="Go on").click()
    expect(second.get_by_text("The code is not right, or was used before.")).to_be_visible()
    second.get_by_role("link", name="Use a recovery code").click()
    second.get_by_label("Recovery code").fill(stage.RECOVERY_CODE.replace("-", " ", 1).upper())
    second.get_by_role("button", name="Go on").click()
    second.wait_for_url("**/files")
    forget_failed_loads(console_messages, 401)


def test_forced_enrolment_shows_recovery_codes_once(page: Page, service: Service, console_messages: list[str]) -> None:
    service.as_new(stage.NEWCOMER)
    sign_in(page, service, stage.NEWCOMER)
    expect(page.get_by_role("heading", name="Set up your second factor")).to_be_visible()
    expect(page.get_by_text("An account in your reach asks for a code")).to_be_visible()
    expect(page.locator(".qr svg")).to_be_visible()
    assert _whole(page), "a part of the QR code is cut off"
    manual_key = page.locator("#manual-key").inner_text()
    page.get_by_label("Six-digit code").fill("123456")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("The code is not right, or was used before.")).to_be_visible()
    assert page.locator("#manual-key").inner_text() == manual_key, "a wrong code must not begin a new enrolment"
    page.get_by_label("Six-digit code").fill(totp.code_at(stage.seed_of(manual_key), int(time.time()) // 30))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("heading", name="Keep these recovery codes")).to_be_visible()
    codes = page.locator("#recovery-codes li").all_inner_texts()
    assert len(codes) == 10
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download as text").click()
    kept = downloading.value.path().read_text()
    assert all(code.strip() in kept for code in codes)
    page.get_by_role("link", name="I have kept them, go on").click()
    page.wait_for_url(f"**/dashboard/{stage.VAULT}/files")
    page.go_back()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    assert codes[0].strip() not in page.content(), "the codes were shown again"
    page.go_back()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    forget_failed_loads(console_messages, 401)


def test_sign_out_ends_the_session_for_good(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    cookies = page.context.cookies()
    page.get_by_role("button", name="Sign out").first.click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    # The old cookie brought back is worth nothing.
    page.context.add_cookies([{**cookie} for cookie in cookies])  # type: ignore[typeddict-item]
    page.goto(service.account(stage.NORTHLIGHT))
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_back_button_after_signing_in(visitor: Callable[..., Page]) -> None:
    page = visitor()
    page.get_by_role("link", name="Activity").click()
    page.wait_for_url("**/activity")
    page.go_back()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    page.go_back()
    # The sign-in page has nothing to ask of somebody who is in.
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()


def test_expired_session_in_the_middle_of_a_form(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    page.goto(service.account(stage.KITA, "settings/tokens/new"))
    page.get_by_label("Name").fill("half typed")
    page.get_by_label("Expires").select_option("365")
    service.end_sessions(stage.OWNER)
    page.get_by_role("button", name="Create the token").click()
    expect(page.get_by_text("Your session had ended, so nothing was saved.")).to_be_visible()
    page.get_by_label("Email").fill(stage.OWNER)
    page.get_by_label("Password").fill(stage.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("so nothing was saved.")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("half typed")
    expect(page.get_by_label("Expires")).to_have_value("365")
    page.goto(service.account(stage.KITA, "settings/tokens"))
    expect(page.get_by_text("half typed")).to_have_count(0)


def test_part_of_a_page_sends_the_whole_page_to_sign_in(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    page.goto(service.account(stage.NORTHLIGHT))
    service.end_sessions(stage.OWNER)
    page.locator(".resource").nth(0).get_by_text("Preview, columns, curl").click()
    page.get_by_role("link", name="Show the first 50 rows").first.click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def _whole(page: Page) -> bool:
    """Whether the whole drawing of the QR code lies within its picture."""
    return bool(
        page.locator(".qr svg").evaluate(
            """svg => {
                const frame = svg.getBoundingClientRect(), drawn = svg.querySelector(".qrline").getBoundingClientRect();
                return drawn.left >= frame.left && drawn.right <= frame.right
                    && drawn.top >= frame.top && drawn.bottom <= frame.bottom;
            }"""
        )
    )
