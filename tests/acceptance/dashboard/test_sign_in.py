"""Sign-in, second factor, sign-out, sessions that end."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from daybreak.credentials import totp
from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads, sign_in, sign_in_without_form
from tests.acceptance.dashboard.sample import directory


@pytest.mark.release
def test_sign_in_succeeds_after_a_wrong_password(page: Page, service: Service, console_messages: list[str]) -> None:
    sign_in(page, service, directory.ANALYST, password="not this one")
    expect(page.get_by_text("Email or password is wrong.")).to_be_visible()
    expect(page.get_by_label("Email")).to_have_value(directory.ANALYST)
    expect(page.get_by_label("Password")).to_have_value("")
    expect(page.get_by_label("Password")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Password").fill(directory.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/dashboard/{directory.NORTHLIGHT}/files")
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    ignore_failed_loads(console_messages, 401)


@pytest.mark.release
def test_root_url_leads_to_sign_in_then_files(page: Page, service: Service) -> None:
    sign_in(page, service, directory.ANALYST, path="/")
    page.wait_for_url(f"**/dashboard/{directory.NORTHLIGHT}/files")
    page.goto(f"{service.base}/")
    page.wait_for_url(f"**/dashboard/{directory.NORTHLIGHT}/files")


def test_unknown_dashboard_url_is_an_error_page(page: Page, service: Service, console_messages: list[str]) -> None:
    response = page.goto(f"{service.base}/dashboard/{directory.NORTHLIGHT}/fils")
    assert response is not None
    assert response.status == 404
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    page.get_by_role("link", name="Open files").click()
    page.wait_for_url("**/dashboard/sign-in**")
    ignore_failed_loads(console_messages, 404)


@pytest.mark.release
def test_second_factor_rejects_wrong_and_used_codes(
    open_page: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    service.reset_seat(directory.CAREFUL)
    page = open_page()
    sign_in(page, service, directory.CAREFUL, path=f"/dashboard/{directory.VAULT}/insight")
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    # A session that waits for its second factor opens no other page.
    page.goto(service.account(directory.VAULT))
    expect(page).to_have_url(re.compile("/second-factor"))
    page.get_by_label("Six-digit code").fill("000 000")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("The code is wrong or was used before.")).to_be_visible()
    code = totp.code_at(directory.SEED, int(time.time()) // 30)
    page.get_by_label("Six-digit code").fill(f"{code[:3]} {code[3:]}")
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/files")

    second = open_page()
    sign_in(second, service, directory.CAREFUL)
    second.get_by_label("Six-digit code").fill(code)
    second.get_by_role("button", name="Continue").click()
    expect(second.get_by_text("The code is wrong or was used before.")).to_be_visible()
    second.get_by_role("link", name="Use recovery code").click()
    second.get_by_label("Recovery code").fill(directory.RECOVERY_CODE.replace("-", " ", 1).upper())
    second.get_by_role("button", name="Continue").click()
    second.wait_for_url("**/files")
    ignore_failed_loads(console_messages, 401)


@pytest.mark.release
def test_required_setup_shows_recovery_codes_once(
    page: Page, service: Service, open_page: Callable[..., Page], console_messages: list[str]
) -> None:
    service.reset_seat(directory.NEWCOMER)
    sign_in(page, service, directory.NEWCOMER)
    expect(page.get_by_role("heading", name="Set up second factor")).to_be_visible()
    expect(page.get_by_text("One of your accounts requires a code")).to_be_visible()
    expect(page.locator(".qr svg")).to_be_visible()
    assert _is_unclipped(page), "the QR code is clipped"
    manual_key = page.locator("#manual-key").inner_text()
    page.get_by_label("Six-digit code").fill("123456")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("The code is wrong or was used before.")).to_be_visible()
    assert page.locator("#manual-key").inner_text() == manual_key, "a wrong code must not start a new enrolment"
    sign_in_without_form(open_page(), service, directory.NEWCOMER)
    page.get_by_label("Six-digit code").fill(totp.code_at(directory.seed_of(manual_key), int(time.time()) // 30))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("Delete the entry from your app, and scan the new QR code.")).to_be_visible()
    manual_key = page.locator("#manual-key").inner_text()
    page.get_by_label("Six-digit code").fill(totp.code_at(directory.seed_of(manual_key), int(time.time()) // 30))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("heading", name="Save your recovery codes")).to_be_visible()
    codes = page.locator("#recovery-codes li").all_inner_texts()
    assert len(codes) == 10
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download").click()
    downloaded = downloading.value.path().read_text()
    assert all(code.strip() in downloaded for code in codes)
    page.get_by_role("link", name="Continue").click()
    page.wait_for_url(f"**/dashboard/{directory.VAULT}/files")
    page.go_back()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    assert codes[0].strip() not in page.content(), "the recovery codes were shown again"
    page.go_back()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    ignore_failed_loads(console_messages, 401)


def test_sign_out_ends_the_session(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as()
    cookies = page.context.cookies()
    page.evaluate("localStorage.setItem('kept', 'x')")
    page.get_by_role("button", name="Sign out").first.click()
    expect(page.get_by_text("Signed out.")).to_be_visible()
    assert page.evaluate("localStorage.getItem('kept')") is None
    (device,) = [cookie for cookie in page.context.cookies() if cookie["name"] == "daybreak-device"]
    assert device in cookies, "the device has to stay known"
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    # The old cookie no longer works.
    page.context.add_cookies([{**cookie} for cookie in cookies])  # type: ignore[typeddict-item]
    page.goto(service.account(directory.NORTHLIGHT))
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.release
def test_back_button_after_sign_in_stays_signed_in(page: Page, service: Service) -> None:
    sign_in(page, service, directory.OWNER)
    page.wait_for_url("**/files")
    page.get_by_role("link", name="Activity").click()
    page.wait_for_url("**/activity")
    page.go_back()
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()
    page.go_back()
    # The sign-in page redirects a user who is signed in.
    expect(page.get_by_role("heading", name="Files", exact=True)).to_be_visible()


def test_form_is_restored_after_the_session_ends(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.KITA, "settings/tokens/new"))
    page.get_by_label("Name").fill("half typed")
    page.get_by_label("Expires").select_option("365")
    service.end_sessions(directory.OWNER)
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_text("Your session has ended. Nothing was saved.")).to_be_visible()
    page.get_by_label("Email").fill(directory.OWNER)
    page.get_by_label("Password").fill(directory.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Nothing was saved.")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("half typed")
    expect(page.get_by_label("Expires")).to_have_value("365")
    page.goto(service.account(directory.KITA, "settings/tokens"))
    expect(page.get_by_text("half typed")).to_have_count(0)


def _is_unclipped(page: Page) -> bool:
    """Return whether no part of the QR code is clipped."""
    return bool(
        page.locator(".qr svg").evaluate(
            """svg => {
                const frame = svg.getBoundingClientRect(), drawn = svg.querySelector(".qrline").getBoundingClientRect();
                return drawn.left >= frame.left && drawn.right <= frame.right
                    && drawn.top >= frame.top && drawn.bottom <= frame.bottom;
            }"""
        )
    )
