"""Operators' actions on runs, accounts and seats in the browser."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from daybreak.domain.audit import AuditQuery
from daybreak.domain.identity import Grant, Seat
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.run_requests import take_request
from tests.acceptance.dashboard.axe import axe_violations
from tests.acceptance.dashboard.conftest import (
    Service,
    confirm_password,
    count_clicks,
    ignore_failed_loads,
    served_sample,
    sign_in,
    sign_in_without_form,
    unique,
)
from tests.acceptance.dashboard.sample import directory, snapshots
from tests.parts.mail_server import content_of
from tests.parts.waiting import wait_until

NEW = "copper kettle over seven hills"


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory, project_folder: Path) -> Iterator[Service]:
    """A service whose accounts and seats may change, and whose last publication is missing."""
    with served_sample(tmp_path_factory.mktemp("own"), project_folder, members=40, days=2, days_late=1) as own:
        yield own


@pytest.fixture
def operator(open_with_axe: Callable[[], Page], own_service: Service) -> Page:
    """A page of a signed-in operator."""
    page = open_with_axe()
    sign_in_without_form(page, own_service, directory.OPERATOR)
    return page


@pytest.mark.release
def test_requested_run_is_taken_by_a_builder(operator: Page, own_service: Service, console_messages: list[str]) -> None:
    operator.goto(own_service.operator("runs"))
    operator.get_by_role("button", name="Run now").click()
    expect(operator.get_by_text("A builder starts it within seconds.").first).to_be_visible()
    expect(operator.get_by_text("operator@example.org asked for a manual run.")).to_be_visible()
    operator.get_by_role("button", name="Run now").click()
    expect(operator.get_by_text("A run was already requested.")).to_be_visible()
    assert axe_violations(operator, "runs") == []
    request = take_request(own_service.state, datetime.now(UTC))
    assert request is not None
    assert (request.requested_by, request.day) == (directory.OPERATOR, None)
    ignore_failed_loads(console_messages, 409)


@pytest.mark.release
def test_failed_day_can_be_retried(operator: Page, own_service: Service) -> None:
    now = datetime.now(UTC)
    snapshot_id, fence = snapshots.begin_day(own_service.state, now.date(), now)
    own_service.state.write(
        lambda stores: stores.snapshots.finish(
            snapshot_id, fence, SnapshotState.FAILED, now, report=RunReport(), failure="The source is gone."
        )
    )
    operator.goto(own_service.operator(f"runs/{snapshot_id}"))
    operator.get_by_role("button", name="Retry now").click()
    expect(operator.get_by_text("Run requested.", exact=True)).to_be_visible()
    request = take_request(own_service.state, datetime.now(UTC))
    assert request is not None
    assert request.day == now.date()


def set_password(page: Page, link: str) -> None:
    page.goto(link)
    page.get_by_label("New password", exact=True).fill(NEW)
    page.get_by_label("Repeat new password").fill(NEW)
    page.get_by_role("button", name="Set password").click()


@pytest.mark.release
def test_seat_is_created_and_receives_access(
    operator: Page, own_service: Service, open_page: Callable[..., Page]
) -> None:
    email = f"{unique('new').replace(' ', '-')}@example.org"
    operator.goto(own_service.operator("people"))
    operator.get_by_role("link", name="New seat").click()
    operator.get_by_label("Email").fill(email)
    operator.get_by_role("button", name="Create with a link").click()
    expect(operator.get_by_role("heading", name="Seat created")).to_be_visible()
    link = operator.locator("#seat-link").inner_text().strip()
    assert axe_violations(operator, "seat created") == []
    operator.reload()
    expect(operator.get_by_role("heading", name=email)).to_be_visible()
    assert link not in operator.content()

    operator.goto(own_service.operator("people?q=northlight"))
    operator.get_by_role("link", name="Northlight Theatre").last.click()
    operator.get_by_label("Email").fill(email)
    operator.get_by_label("Role").select_option("admin")
    operator.get_by_role("button", name="Grant access").click()
    expect(operator.get_by_text("Access granted.")).to_be_visible()
    expect(operator.get_by_role("row", name=re.compile(email))).to_contain_text("Data Export")
    assert axe_violations(operator, "account") == []

    invited = open_page()
    set_password(invited, link)
    invited.wait_for_url(f"**/{directory.NORTHLIGHT}/files")
    operator.get_by_label("Email").fill(email)
    operator.get_by_label("Role").select_option("analyst")
    operator.get_by_label("Data Export").uncheck()
    operator.get_by_role("button", name="Grant access").click()
    expect(operator.get_by_role("heading", name="Reduce access?")).to_be_visible()
    expect(operator.get_by_role("heading", name="API tokens that stop working")).to_be_visible()
    assert axe_violations(operator, "reduction") == []
    operator.get_by_role("link", name="Cancel").click()
    expect(operator.get_by_role("row", name=re.compile(email))).to_contain_text("Data Export")
    operator.go_back()
    operator.get_by_role("button", name="Reduce access").click()
    expect(operator.get_by_role("row", name=re.compile(email))).not_to_contain_text("Data Export")
    operator.get_by_role("link", name=f"Remove {email}").click()
    expect(operator.get_by_text("API tokens that stop working")).to_be_visible()
    assert axe_violations(operator, "confirmation") == []
    operator.get_by_role("button", name="Remove access").click()
    expect(operator.get_by_text("Access removed.")).to_be_visible()
    events = own_service.state.read(lambda stores: stores.audit.read(AuditQuery(actor=directory.OPERATOR)))
    assert {"seat.added", "grant.changed", "grant.removed"} <= {event.action for event in events}


@pytest.mark.release
def test_person_is_invited_with_access(operator: Page, own_service: Service) -> None:
    email = f"{unique('colleague').replace(' ', '-')}@example.org"
    clicks = count_clicks(operator)
    operator.goto(own_service.operator(f"accounts/{directory.NORTHLIGHT}"))
    operator.get_by_label("Email").fill(email)
    operator.get_by_label("Invite a person who has no seat").check()
    operator.get_by_role("button", name="Grant access").click()
    expect(operator.get_by_text("A person who had no seat receives an invitation by mail.")).to_be_visible()
    assert clicks() == 2
    expect(operator.get_by_role("row", name=re.compile(email))).to_contain_text("Data Export")
    wait_until(lambda: any(each["To"] == email for each in list(own_service.mails.mails)), 120)


@pytest.mark.release
def test_invited_person_chooses_a_password(
    operator: Page, own_service: Service, open_page: Callable[..., Page], console_messages: list[str]
) -> None:
    email = f"{unique('invited').replace(' ', '-')}@example.org"
    operator.goto(own_service.operator("seats/new"))
    assert axe_violations(operator, "new seat") == []
    operator.get_by_label("Email").fill(email)
    operator.get_by_role("button", name="Create and invite").click()
    expect(operator.get_by_text("Invitation queued.")).to_be_visible()
    wait_until(lambda: any(each["To"] == email for each in list(own_service.mails.mails)), 120)
    wait_until(lambda: operator.reload() and operator.get_by_text("Sent ").is_visible(), 120)
    (mail,) = [each for each in own_service.mails.mails if each["To"] == email]
    assert "operator@example.org created a seat for you." in content_of(mail)
    link = re.search(r"http\S+/dashboard/reset-password\?token=\S+", content_of(mail))
    assert link is not None
    invited = open_page()
    invited.goto(link[0])
    expect(invited.locator(".lead")).not_to_contain_text("signed out")
    set_password(invited, link[0])
    expect(invited.get_by_label("New password", exact=True)).to_have_count(0)
    # The seat has no access to an account yet.
    expect(invited.get_by_role("heading", name="Password set")).to_be_visible()
    expect(invited.locator(".lead")).to_contain_text("Ask your operator")
    invited.get_by_role("link", name="Sign in").click()
    invited.get_by_label("Email").fill(email)
    invited.get_by_label("Password").fill(NEW)
    invited.get_by_role("button", name="Sign in").click()
    expect(invited.get_by_role("alert").or_(invited.locator(".lead"))).to_contain_text("Ask your operator")
    ignore_failed_loads(console_messages, 403)
    # A seat with a password is not invited again.
    operator.reload()
    expect(operator.get_by_role("heading", name=email)).to_be_visible()
    expect(operator.get_by_role("button", name="Send invitation")).to_have_count(0)


@pytest.mark.release
def test_one_session_of_a_seat_is_ended(operator: Page, own_service: Service, open_page: Callable[..., Page]) -> None:
    operator.goto(own_service.operator(f"seats/{directory.id_of(directory.OPERATOR)}"))
    expect(operator.get_by_role("region", name="Open sessions")).to_contain_text("this session")
    ended, kept = open_page(), open_page()
    for page in (ended, kept):
        sign_in(page, own_service, directory.CHANGER)
        page.wait_for_url("**/files")
    operator.goto(own_service.operator(f"seats/{directory.id_of(directory.CHANGER)}"))
    buttons = operator.get_by_role("button", name=re.compile("^End session"))
    expect(buttons).to_have_count(2)
    buttons.first.click()
    expect(operator.get_by_text("Session ended.")).to_be_visible()
    expect(buttons).to_have_count(1)
    for page in (ended, kept):
        page.reload()
    open_pages = [page for page in (ended, kept) if page.url.endswith("/files")]
    assert len(open_pages) == 1


@pytest.mark.release
def test_unknown_seat_is_reported_at_the_field(
    operator: Page, own_service: Service, console_messages: list[str]
) -> None:
    operator.goto(own_service.operator(f"accounts/{directory.NORTHLIGHT}"))
    operator.get_by_label("Email").fill("nobody@example.org")
    operator.get_by_role("button", name="Grant access").click()
    field = operator.get_by_label("Email")
    expect(field).to_have_accessible_description(re.compile("No seat has the email.*A seat that has"))
    ignore_failed_loads(console_messages, 400)


@pytest.mark.release
def test_api_tokens_of_an_account_are_switched(operator: Page, own_service: Service) -> None:
    operator.goto(own_service.operator(f"accounts/{directory.KITA}"))
    operator.get_by_role("link", name="Turn off API tokens").click()
    operator.get_by_role("button", name="Turn off").click()
    expect(operator.get_by_text("API tokens turned off.")).to_be_visible()
    operator.get_by_role("button", name="Turn on API tokens").click()
    expect(operator.get_by_text("API tokens turned on.")).to_be_visible()


@pytest.mark.release
def test_seat_is_reset_and_signed_out(operator: Page, own_service: Service, open_page: Callable[..., Page]) -> None:
    other = open_page()
    sign_in(other, own_service, directory.CHANGER)
    other.wait_for_url("**/files")
    operator.goto(own_service.operator(f"seats/{directory.id_of(directory.CHANGER)}"))
    expect(operator.get_by_role("region", name="Open sessions")).to_contain_text("Chrome on Linux")
    assert axe_violations(operator, "seat") == []
    confirm(operator, "End all sessions")
    expect(operator.get_by_text("All sessions ended.")).to_be_visible()
    other.reload()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    confirm(operator, "Reset password")
    set_password(other, operator.locator("#seat-link").inner_text().strip())
    other.wait_for_url("**/files")
    operator.get_by_role("link", name="Done").click()
    expect(operator.get_by_text("The next sync enables or disables this seat as the platform does.")).to_be_visible()
    confirm(operator, "Disable seat", "Chrome on Linux")
    expect(operator.get_by_text("Seat disabled.")).to_be_visible()
    operator.get_by_role("button", name="Enable seat").click()
    expect(operator.get_by_text("Seat enabled.")).to_be_visible()
    operator.goto(own_service.operator(f"seats/{directory.id_of(directory.CAREFUL)}"))
    confirm(operator, "Reset second factor")
    expect(operator.get_by_text("Second factor reset.")).to_be_visible()


def test_changes_need_a_recent_password(operator: Page, own_service: Service) -> None:
    own_service.age_password(directory.OPERATOR)
    operator.goto(own_service.operator(f"accounts/{directory.KITA}"))
    email = operator.get_by_label("Email")
    email.fill(directory.CHANGER)
    operator.get_by_label("Role").select_option("owner")
    operator.get_by_label("Data Export").uncheck()
    operator.get_by_role("button", name="Grant access").click()
    expect(operator.get_by_role("heading", name="Confirm your password")).to_be_visible()
    confirm_password(operator)
    operator.wait_for_url(re.compile(f"operator/accounts/{directory.KITA}"))
    # Nothing was changed before the password was entered, and the form is filled in.
    expect(operator.get_by_text("Nothing was saved yet.")).to_be_visible()
    expect(email).to_have_value(directory.CHANGER)
    expect(operator.get_by_label("Role")).to_have_value("owner")
    expect(operator.get_by_label("Data Export")).not_to_be_checked()


@pytest.mark.release
def test_lists_have_pages_and_totals(operator: Page, own_service: Service) -> None:
    operator.goto(own_service.operator("people"))
    expect(operator.get_by_text(re.compile("1.50 of 128"))).to_have_count(2)
    operator.get_by_role("link", name="Next").last.click()
    expect(operator.get_by_text(re.compile("51.100 of 128")).first).to_be_visible()
    operator.get_by_label("Account, number, email or ID").fill("museum riverside")
    operator.get_by_role("button", name="Search", exact=True).click()
    expect(operator.get_by_text(re.compile("1.1 of 1$"))).to_have_count(0)
    expect(operator.get_by_role("link", name="Next")).to_have_count(0)
    seats = [Seat(directory.id_of(f"many {number}"), f"many{number}@example.org") for number in range(25)]
    grants = [Grant(seat.seat_id, directory.VIEWER, ("analyst",)) for seat in seats]
    own_service.state.write(lambda stores: stores.directory.put_seats(*seats))
    own_service.state.write(lambda stores: stores.directory.put_grants(*grants))
    operator.reload()
    expect(operator.get_by_role("row", name=re.compile("Riverside Museum"))).to_contain_text("and 6 more")
    operator.get_by_role("link", name=re.compile(r"^\d+ seats$")).click()
    expect(operator.get_by_role("link", name=directory.OWNER)).to_be_visible()
    assert axe_violations(operator, "seats") == []


@pytest.mark.release
def test_freshness_page_shows_thirty_days(operator: Page, own_service: Service) -> None:
    operator.goto(own_service.operator("freshness"))
    days = operator.get_by_role("region", name="Last 30 days").get_by_role("listitem")
    expect(days).to_have_count(30)
    expect(days.last).to_contain_text("not published, late by 8 h")
    expect(days.nth(28)).to_contain_text("on time")
    expect(days.first).to_contain_text("before the first publication")


def confirm(page: Page, action: str, ends: str = "") -> None:
    """Open the confirmation of an action, check that it names what ends, and confirm."""
    page.get_by_role("link", name=action).click()
    expect(page.get_by_role("heading", name=f"{action}?")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(ends)
    page.get_by_role("button", name=action).click()
