"""Reset of a forgotten password, and unsubscribe links."""

import re
import time
from collections.abc import Callable
from email.message import EmailMessage

import pytest
import requests
from playwright.sync_api import Page, expect

from daybreak.credentials import totp
from daybreak.credentials.mail_tokens import unsubscribe_token
from daybreak.domain.events import EventType
from tests.acceptance.dashboard.axe import axe_violations
from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads
from tests.acceptance.dashboard.sample import directory
from tests.parts.mail_server import content_of
from tests.parts.waiting import wait_until

NEW_PASSWORD = "copper kettle over seven hills"


def _request(page: Page, service: Service, email: str) -> None:
    page.goto(f"{service.base}/dashboard/sign-in")
    page.get_by_label("Email").fill(email)
    page.get_by_role("link", name="Forgot password?").click()
    expect(page.get_by_role("heading", name="Forgot password")).to_be_visible()
    expect(page.get_by_label("Email")).to_have_value(email)
    page.get_by_role("button", name="Send link").click()
    expect(page.get_by_text("If a seat has this email, a link is on its way.")).to_be_visible()


def _mails(service: Service, email: str, subject: str) -> list[EmailMessage]:
    return [each for each in list(service.mails.mails) if each["To"] == email and each["Subject"] == subject]


def _request_link(page: Page, service: Service, email: str) -> str:
    earlier = len(_mails(service, email, "Set a new password"))
    _request(page, service, email)
    wait_until(lambda: len(_mails(service, email, "Set a new password")) > earlier, 120)
    text = content_of(_mails(service, email, "Set a new password")[-1])
    found = re.search(r"http\S+/dashboard/reset-password\?token=\S+", text)
    assert found is not None
    return found[0]


def test_password_is_reset_and_the_second_factor_stays(
    open_with_axe: Callable[[], Page], service: Service, console_messages: list[str]
) -> None:
    service.reset_seat(directory.CAREFUL)
    page = open_with_axe()
    link = _request_link(page, service, directory.CAREFUL)
    page.goto(link)
    # The token does not stay in the address bar.
    expect(page).to_have_url(re.compile("/dashboard/reset-password$"))
    expect(page.locator(".lead")).to_have_text(
        f"For {directory.CAREFUL}. You will be signed out everywhere else. Your second factor stays."
    )
    page.reload()
    expect(page.get_by_text("This page needs its link. Open the link again, or request a new one.")).to_be_visible()
    page.goto(link)
    violations = axe_violations(page, "new password")
    page.get_by_label("New password", exact=True).fill("short")
    page.get_by_label("Repeat new password").fill("short")
    page.get_by_role("button", name="Set password").click()
    expect(page.locator("#e-new")).to_be_visible()
    page.get_by_label("New password", exact=True).fill(NEW_PASSWORD)
    page.get_by_label("Repeat new password").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Set password").click()
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
    page.get_by_role("link", name="Use recovery code").click()
    expect(page.get_by_text("Lost your codes too? Ask your operator")).to_be_visible()
    page.get_by_role("link", name="Use authenticator app").click()
    page.get_by_label("Six-digit code").fill(totp.code_at(directory.SEED, int(time.time()) // 30))
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/files")
    wait_until(lambda: bool(_mails(service, directory.CAREFUL, "Your password was changed")), 120)
    # The link works once.
    again = open_with_axe()
    again.goto(link)
    expect(again.get_by_text("This link has expired or was used.")).to_be_visible()
    assert [*violations, *axe_violations(again, "expired link")] == []
    ignore_failed_loads(console_messages, 400, 403)
    service.reset_seat(directory.CAREFUL)


def test_unknown_email_has_the_same_answer_and_no_mail(open_page: Callable[..., Page], service: Service) -> None:
    page = open_page()
    _request(page, service, "nobody@example.org")
    _request_link(page, service, directory.ENROLLER)
    assert not [each for each in service.mails.mails if each["To"] == "nobody@example.org"]


@pytest.mark.release
def test_unsubscribe_link_works_with_one_click(open_with_axe: Callable[[], Page], service: Service) -> None:
    seat_id = directory.id_of(directory.CHANGER)
    token = unsubscribe_token(seat_id, EventType.SNAPSHOT_LATE, keyring=service.ring)
    url = f"{service.base}/dashboard/unsubscribe/{token}"
    earlier = service.state.read(lambda stores: stores.notifications.choices(seat_id))
    # Opening the link changes nothing.
    shown = open_with_axe()
    shown.goto(url)
    expect(shown.get_by_role("heading", name="Unsubscribe?")).to_be_visible()
    violations = axe_violations(shown, "unsubscribe")
    assert service.state.read(lambda stores: stores.notifications.choices(seat_id)) == earlier
    # As a mail program sends it (RFC 8058 §3.1): no cookie, no form token.
    done = requests.post(url, data={"List-Unsubscribe": "One-Click"}, timeout=90)
    assert done.status_code == 200
    choices = service.state.read(lambda stores: stores.notifications.choices(seat_id))
    assert choices == {EventType.SNAPSHOT_LATE: False}
    shown.get_by_role("button", name="Unsubscribe").click()
    expect(shown.get_by_role("heading", name="Unsubscribed")).to_be_visible()
    assert [*violations, *axe_violations(shown, "unsubscribed")] == []
    assert requests.get(url[:-4], timeout=90).status_code == 404
    service.state.write(lambda stores: stores.notifications.choose(seat_id, {EventType.SNAPSHOT_LATE: True}))
    service.reset_seat(directory.CHANGER)
