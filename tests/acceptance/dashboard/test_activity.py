"""Activity: filters, pages, details, and what the trail shows."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from daybreak.access.directory.changes import put_grant
from daybreak.domain.audit import AuditEvent
from daybreak.state.stores import Stores
from tests.acceptance.dashboard.axe import PHONE, WIDE, axe_violations
from tests.acceptance.dashboard.conftest import (
    Service,
    count_clicks,
    ignore_failed_loads,
    sign_in,
    sign_in_without_form,
)
from tests.acceptance.dashboard.sample import directory


@pytest.fixture
def activity(sign_in_as: Callable[..., Page], service: Service) -> Page:
    """The Activity page of the largest account."""
    return sign_in_as(address=service.account(directory.NORTHLIGHT, "activity"))


def _position(page: Page) -> tuple[int, int, int]:
    """Return first, last and total of the shown events."""
    text = page.get_by_role("navigation", name="Position").inner_text().replace(",", "")
    first, last, total = (int(number) for number in re.findall(r"\d+", text))
    return first, last, total


def _add_event(service: Service, **fields: object) -> None:
    event = AuditEvent(at=datetime.now(UTC), action="login", result="ok", actor="late@example.org")
    event = replace(event, client_id=directory.NORTHLIGHT, **fields)
    service.state.write(lambda stores: stores.audit.append(event))


@pytest.mark.release
def test_pages_have_a_total_and_do_not_move(activity: Page, service: Service) -> None:
    page = activity
    first, last, total = _position(page)
    assert (first, last) == (1, 50)
    assert total > 100
    page.get_by_role("link", name="Next").first.click()
    assert _position(page)[:2] == (51, 100)
    times = page.locator("tbody > tr > td time").evaluate_all("times => times.map(time => time.dateTime)")
    _add_event(service)
    page.reload()
    assert page.locator("tbody > tr > td time").evaluate_all("times => times.map(time => time.dateTime)") == times
    page.get_by_role("link", name="Previous").first.click()
    expect(page).to_have_url(re.compile(r"/activity$"))
    assert _position(page)[2] > total
    expect(page.locator("tbody tr:not(.day)").first).to_contain_text("late@example.org")


@pytest.mark.release
def test_part_of_an_email_finds_its_user(activity: Page) -> None:
    page = activity
    suggestions = page.locator("#a-actors option").evaluate_all("options => options.map(option => option.value)")
    assert {directory.OWNER, directory.ANALYST, "operator"} <= set(suggestions)
    page.get_by_label("User").fill("MAYA@")
    page.get_by_label("Action").select_option("link.issued")
    page.get_by_label("Result", exact=True).select_option("ok")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("action=link.issued&actor=MAYA%40&result=ok"))
    users = page.locator("td.user")
    assert set(users.all_inner_texts()) == {directory.OWNER}
    expect(page.get_by_label("User")).to_have_value("MAYA@")
    expect(page.get_by_label("Action")).to_have_value("link.issued")
    expect(page.get_by_role("link", name="CSV")).to_have_attribute("href", re.compile("actor=MAYA%40"))
    page.get_by_label("User").fill("nobody")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No event matches the filter.")).to_be_visible()
    page.get_by_role("link", name="Clear filter").click()
    expect(page).to_have_url(re.compile("/activity$"))


@pytest.mark.release
def test_filter_stays_on_the_next_page(activity: Page) -> None:
    page = activity
    page.get_by_label("User").fill("maya")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="Next").first.click()
    expect(page).to_have_url(re.compile("actor=maya&page=2&newest="))
    expect(page.get_by_label("User")).to_have_value("maya")
    assert set(page.locator("td.user").all_inner_texts()) == {directory.OWNER}


def test_download_through_a_link_is_one_row(activity: Page, service: Service) -> None:
    page = activity
    page.goto(service.account(directory.NORTHLIGHT))
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download Communities as CSV").click()
    downloading.value.path()

    def row() -> None:
        page.goto(service.account(directory.NORTHLIGHT, "activity?actor=maya"))
        first = page.locator("tbody tr:not(.day)").filter(has_text="communities.csv.gz").first
        expect(first).to_contain_text("Link issued", timeout=2000)

    expect_soon(row)
    row_shown = page.locator("tbody tr:not(.day)").filter(has_text="communities.csv.gz").first
    expect(row_shown).to_contain_text("File downloaded")
    row_shown.locator("summary").press("Enter")
    expect(row_shown.locator("dl")).to_contain_text("Request of the link")
    expect(row_shown.locator("dl")).to_contain_text("Snapshot")


@pytest.mark.release
def test_link_on_the_next_page_is_shown_with_its_download(sign_in_as: Callable[..., Page], service: Service) -> None:
    client_id = directory.AGENCY_IDS[-1]
    file = {"file": "members.csv.gz", "snapshot_id": "s"}
    actions = ["link.issued", "file.fetched", *["context.switched"] * 49]
    events = [
        AuditEvent(
            at=datetime.now(UTC), action=action, result="ok", actor="script@example.org", client_id=client_id,
            subject="token:1", details={} if action == "context.switched" else file,
        )
        for action in actions
    ]  # fmt: skip
    service.state.write(lambda stores: stores.audit.append_all(events))
    page = sign_in_as(directory.AGENCY, address=service.account(client_id, "activity?actor=script"))
    assert _position(page) == (1, 50, 51)
    expect(page.locator("tbody tr:not(.day)").last).to_contain_text("File downloaded")
    expect(page.locator("tbody tr:not(.day)").last).to_contain_text("Link issued")
    page.get_by_role("link", name="Next").first.click()
    assert _position(page) == (51, 51, 51)
    expect(page.get_by_text("shown with their downloads on the page before")).to_be_visible()


@pytest.mark.release
def test_three_clicks_show_who_downloaded_what_last_week(activity: Page, service: Service) -> None:
    page = activity
    page.goto(service.account(directory.NORTHLIGHT))
    with page.expect_download() as downloading:
        page.get_by_role("link", name=re.compile("Download all nine")).click()
    downloading.value.path()
    clicks = count_clicks(page)

    def shown() -> None:
        page.goto(service.account(directory.NORTHLIGHT))
        before = clicks()
        page.get_by_role("link", name="Activity").click()
        page.get_by_role("link", name="Downloads, last 7 days").click()
        archive = page.locator("tbody tr:not(.day)").filter(has_text="9 files in one archive").first
        expect(archive).to_contain_text(directory.OWNER, timeout=2000)
        archive.locator("summary").click()
        expect(archive.locator("dl")).to_contain_text("members.csv.gz")
        assert clicks() - before == 3

    expect_soon(shown)
    assert page.locator("tr.day").count() >= 1


@pytest.mark.release
def test_failed_sign_ins_of_users_are_shown(
    open_page: Callable[..., Page], activity: Page, service: Service, console_messages: list[str]
) -> None:
    stranger = open_page()
    sign_in(stranger, service, directory.ANALYST, password="not the password")
    expect(stranger.get_by_text("Email or password is wrong.")).to_be_visible()
    page = activity
    page.get_by_label("Result", exact=True).select_option("failed")
    page.get_by_label("User").fill("analyst")
    page.get_by_role("button", name="Filter").click()
    first = page.locator("tbody tr:not(.day)").first
    expect(first).to_contain_text("Sign-in")
    expect(first).to_contain_text("denied")
    expect(first).to_contain_text(directory.ANALYST)
    ignore_failed_loads(console_messages, 401)


@pytest.mark.release
def test_changed_permissions_show_before_and_after(open_with_axe: Callable[[], Page], service: Service) -> None:
    def change(stores: Stores) -> None:
        seat = stores.seats.by_email(directory.LONG_EMAIL)
        assert seat is not None
        (granted,) = stores.seats.granted_accounts(seat.seat_id)
        grant = replace(granted.grant, data_export=not granted.grant.data_export, roles=("admin", "owner"))
        put_grant(stores, seat, grant, datetime.now(UTC), actor=directory.OPERATOR)
        put_grant(stores, seat, granted.grant, datetime.now(UTC), actor=directory.OPERATOR)

    service.state.write(change)
    page = open_with_axe()
    sign_in_without_form(page, service, directory.LONG_EMAIL)
    page.goto(service.account(directory.LONG, "activity?action=grant.changed"))
    row = page.locator("tbody > tr", has_text="Data Export on").first
    row.locator("summary").click()
    cells = row.locator("table.changes tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert cells == [["Roles", "admin, owner", "owner"], ["Data Export", "off", "on"]]
    assert axe_violations(page, "details of an event") == []
    for size in (PHONE, WIDE):
        page.set_viewport_size(size)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), size


def expect_soon(check: Callable[[], None]) -> None:
    """Repeat a check: events of downloads are written a quarter of a second later."""
    for _ in range(20):
        try:
            check()
        except AssertionError:
            continue
        return
    check()
