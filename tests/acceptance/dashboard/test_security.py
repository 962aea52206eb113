"""Settings > Security: password, second factor, sessions."""

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from daybreak.credentials import totp
from daybreak.credentials.passwords import MINIMUM_LENGTH
from tests.acceptance.dashboard.conftest import Service, confirm_password, ignore_failed_loads, sign_in
from tests.acceptance.dashboard.sample import directory


@pytest.mark.release
def test_password_change_ends_other_sessions(
    sign_in_as: Callable[..., Page], open_page: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    service.reset_seat(directory.CHANGER)
    elsewhere = sign_in_as(directory.CHANGER)
    page = sign_in_as(directory.CHANGER)
    page.get_by_role("link", name="Security").click()
    expect(page.get_by_text("this session")).to_be_visible()

    expect(page.get_by_text(f"At least {MINIMUM_LENGTH} characters")).to_be_visible()

    def change(current: str, new: str, again: str) -> None:
        page.get_by_label("Current password").fill(current)
        page.get_by_label("New password", exact=True).fill(new)
        page.get_by_label("Repeat new password").fill(again)
        page.get_by_role("button", name="Change password").click()

    change(directory.PASSWORD, "eleven foxes under glass", "eleven foxes under grass")
    expect(page.get_by_role("alert")).to_contain_text("The passwords do not match.")
    change("wrong", "eleven foxes under glass", "eleven foxes under glass")
    expect(page.get_by_role("alert")).to_contain_text("The current password is wrong.")
    change(directory.PASSWORD, "eleven foxes under glass", "eleven foxes under glass")
    expect(page.get_by_text("Password changed.")).to_be_visible()
    elsewhere.reload()
    expect(elsewhere.get_by_text("Your session has ended.")).to_be_visible()
    fresh = open_page()
    sign_in(fresh, service, directory.CHANGER, password="eleven foxes under glass")
    fresh.wait_for_url("**/files")
    page.reload()
    page.get_by_role("button", name=re.compile("End session")).first.click()
    expect(page.get_by_text("Session ended.")).to_be_visible()
    fresh.reload()
    expect(fresh.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("region", name="Sessions")).to_contain_text("127.0.0.1 (Oslo, Norway)")
    page.get_by_role("link", name="Sign out everywhere").click()
    expect(page.get_by_text("127.0.0.1 (Oslo, Norway)")).to_be_visible()
    expect(page.get_by_text("Sessions that end")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", name="Security", exact=True)).to_be_visible()
    page.get_by_role("link", name="Sign out everywhere").click()
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_text("Signed out everywhere.")).to_be_visible()
    ignore_failed_loads(console_messages, 400, 401)


def test_second_factor_setup_creates_recovery_codes(
    sign_in_as: Callable[..., Page], open_page: Callable[..., Page], service: Service
) -> None:
    service.reset_seat(directory.ENROLLER)
    page = sign_in_as(directory.ENROLLER)
    page.get_by_role("link", name="Security").click()
    page.get_by_role("button", name="Set up").click()
    expect(page.locator(".qr svg")).to_be_visible()
    seed = directory.seed_of(page.locator("#manual-key").inner_text())
    page.get_by_label("Six-digit code").fill(totp.code_at(seed, int(time.time()) // 30))
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator("#recovery-codes li")).to_have_count(10)
    first = page.locator("#recovery-codes li").first.inner_text().strip()
    page.get_by_role("link", name="Done").click()
    expect(page.get_by_text("10 of 10 left.")).to_be_visible()
    page.get_by_role("link", name="Replace codes").click()
    expect(page.get_by_text("of which you have 10 left")).to_be_visible()
    page.get_by_role("button", name="Replace codes").click()
    newer = page.locator("#recovery-codes li").first.inner_text().strip()
    assert newer != first
    other = open_page()
    sign_in(other, service, directory.ENROLLER)
    other.get_by_role("link", name="Use recovery code").click()
    other.get_by_label("Recovery code").fill(newer)
    other.get_by_role("button", name="Continue").click()
    other.wait_for_url("**/files")


def test_password_in_one_tab_keeps_the_forms_of_others(sign_in_as: Callable[..., Page], service: Service) -> None:
    service.reset_seat(directory.CHANGER)
    sign_in_as(directory.CHANGER, address=None)
    page = sign_in_as(directory.CHANGER, address=service.account(directory.KITA, "settings/display"))
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    sessions, prompt = page.context.new_page(), page.context.new_page()
    sessions.goto(service.account(directory.KITA, "settings/security"))
    prompt.goto(service.account(directory.KITA, "confirm"))
    held = page.context.cookies()
    confirm_password(prompt)
    prompt.wait_for_url("**/files")
    assert page.context.cookies() != held, "the session has a new id"
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Display saved.")).to_be_visible()
    expect(page.get_by_label("Time zone")).to_have_value("Asia/Tokyo")
    sessions.get_by_role("button", name=re.compile("End session")).click()
    expect(sessions.get_by_text("Session ended.")).to_be_visible()
