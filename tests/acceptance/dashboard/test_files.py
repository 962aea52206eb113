"""Files and Insight with a real browser: freshness, downloads, previews, earlier snapshots, switching accounts."""

import csv
import gzip
import io
import re
from collections.abc import Callable
from datetime import date

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.dashboard import stage
from tests.acceptance.dashboard.conftest import Service, forget_failed_loads


@pytest.fixture
def files(visitor: Callable[..., Page], service: Service) -> Page:
    """The owner on the files of the largest account."""
    page = visitor()
    page.goto(service.account(stage.NORTHLIGHT))
    return page


def test_freshness_comes_first_then_nine_resources(files: Page) -> None:
    hero = files.get_by_role("region", name="Freshness")
    expect(hero).to_contain_text(re.compile(r"As of .*\d\d:12 UTC"))
    expect(hero).to_contain_text(re.compile(r"next in .*\d\d:00 UTC"))
    expect(hero).to_contain_text("Fresh")
    assert files.locator(".resource").count() == 9
    members = files.locator(".resource", has_text="Member Details")
    expect(members).to_contain_text("400 rows")
    expect(members).to_contain_text(re.compile(r"\+9 \(\+2\.3 %\)"))
    expect(members.locator("svg.spark")).to_have_attribute("aria-label", re.compile("Rows over 3 snapshots"))


def test_downloads_are_the_published_files(files: Page) -> None:
    with files.expect_download() as downloading:
        files.get_by_role("link", name="Download Member Details as CSV").click()
    download = downloading.value
    assert download.suggested_filename == "members.csv.gz"
    rows = list(csv.reader(io.StringIO(gzip.decompress(download.path().read_bytes()).decode())))
    assert rows[0][0] == "MEMBER_ID"
    assert len(rows) == 401


def test_spreadsheet_safe_copy_runs_no_formula(files: Page) -> None:
    row = files.locator(".resource", has_text="Member Details")
    row.get_by_text("Preview, columns, curl").click()
    with files.expect_download() as downloading:
        row.get_by_role("link", name="Spreadsheet-safe CSV").click()
    content = downloading.value.path().read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert len(rows) == 401
    cells = [cell for row in rows for cell in row]
    assert '\'=HYPERLINK("http://x.example")' in cells
    assert "'-2+3" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_preview_in_place_with_types_and_column_texts(files: Page) -> None:
    row = files.locator(".resource", has_text="Member Details")
    row.get_by_text("Preview, columns, curl").click()
    row.get_by_role("link", name="Show the first 50 rows").click()
    table = row.locator("table.data")
    expect(table.locator("tbody tr")).to_have_count(50)
    heading = table.get_by_role("columnheader").nth(2)
    expect(heading).to_contain_text("text")
    heading.get_by_role("button").focus()
    expect(heading.get_by_role("tooltip")).to_be_visible()
    expect(heading.get_by_role("tooltip")).to_contain_text("E.164")
    # The hostile cell is text, and what hides in it is visible.
    expect(table).to_contain_text("<img src=x onerror=alert(1)>")
    assert "\u202e" not in table.inner_text()
    assert files.locator("table.data img").count() == 0


def test_curl_line_names_the_documented_path(files: Page, service: Service) -> None:
    usage = files.locator(".resource", has_text="Message Segment Usage")
    usage.get_by_text("Preview, columns, curl").click()
    expect(usage.locator("pre")).to_contain_text(
        f"{service.base}/download/v1/files/{stage.NORTHLIGHT}"
        "/outbound_message_type_usage.csv.gz/segment-based-subscription"
    )
    files.context.grant_permissions(["clipboard-read", "clipboard-write"])
    usage.get_by_role("button", name="Copy").click()
    expect(usage.get_by_role("button", name="Copied")).to_be_visible()
    copied = files.evaluate("() => navigator.clipboard.readText()")
    assert copied == usage.locator("pre").inner_text().strip()


def test_earlier_snapshots_can_be_chosen(files: Page) -> None:
    files.get_by_label("Snapshot", exact=True).select_option(index=2)
    files.get_by_role("button", name="Show", exact=True).click()
    expect(files.get_by_role("region", name="Freshness")).to_contain_text("An earlier snapshot")
    members = files.locator(".resource", has_text="Member Details")
    expect(members).to_contain_text("382 rows")
    with files.expect_download() as downloading:
        files.get_by_role("link", name="Download Member Details as JSON").click()
    assert gzip.decompress(downloading.value.path().read_bytes()).count(b"\n") == 382


def test_accounts_without_files_say_why(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    page.goto(service.account(stage.UNKNOWN))
    expect(page.get_by_text("The platform's data does not know this account")).to_be_visible()
    page.goto(service.account(stage.VIEWER))
    expect(page.get_by_role("heading", name="No Data Export access")).to_be_visible()
    assert page.locator(".resource").count() == 0


def test_two_tabs_keep_their_own_account(files: Page, service: Service) -> None:
    other = files.context.new_page()
    other.goto(service.account(stage.KITA))
    files.reload()
    expect(files.locator(".switcher summary")).to_contain_text("Northlight")
    expect(other.locator(".switcher summary")).to_contain_text("Kita")
    for page, name in ((files, "Northlight"), (other, "Kita")):
        page.get_by_role("link", name="API tokens").first.click()
        page.wait_for_url("**/settings/tokens")
        expect(page.locator(".switcher summary")).to_contain_text(name)
    other.close()


def test_switcher_searches_among_many_accounts(visitor: Callable[..., Page]) -> None:
    page = visitor(stage.AGENCY)
    page.locator(".switcher summary").click()
    assert page.locator("#switch-list a[href$='/files']").count() == 8
    page.get_by_label("Search accounts").fill("client 077")
    expect(page.locator("#switch-list li")).to_have_count(1)
    page.locator("#switch-list").get_by_role("link", name="Agency Client 077").click()
    expect(page.locator(".switcher summary")).to_contain_text("Agency Client 077")
    page.locator(".switcher summary").click()
    page.keyboard.press("Escape")
    expect(page.locator(".switcher-panel")).to_be_hidden()


def test_foreign_unknown_and_inactive_accounts(
    visitor: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = visitor()
    texts = []
    for client_id in (stage.VAULT, "00000000-0000-4000-8000-000000000000", "nonsense"):
        response = page.goto(service.account(client_id))
        assert response is not None
        assert response.status == 403
        texts.append(page.locator("main").inner_text().split("Request")[0])
    assert len(set(texts)) == 1, "foreign and unknown must read the same"
    response = page.goto(service.account(stage.CLOSED))
    assert response is not None
    assert response.status == 403
    expect(page.get_by_text("This account is not active.")).to_be_visible()
    forget_failed_loads(console_messages, 403)


def test_a_chart_tells_the_newest_day_or_the_one_pointed_at(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    page.goto(service.account(stage.NORTHLIGHT, "insight"))
    legend = page.locator(".chart").first.locator(".u-legend")
    summary = page.get_by_text("The numbers as a table").first
    # The same numbers are within reach of the keyboard.
    summary.focus()
    page.keyboard.press("Enter")
    rows = page.locator("#messages-table tbody tr")
    days = sorted(rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.dataset.value))"))

    def told(row: list[str]) -> list[str]:
        day = date.fromisoformat(row[0])
        return [f"{day:%a}, {day.day} {day:%b %Y}", *(f"{int(count):,}" for count in row[1:])]

    values = legend.locator(".u-value")
    expect(values).to_have_text(told(days[-1]))
    place = page.locator(".chart").first.locator(".u-over")
    place.scroll_into_view_if_needed()
    place.hover(position={"x": 2, "y": 40})
    expect(values).to_have_text(told(days[0]))
    summary.hover()
    expect(values).to_have_text(told(days[-1]))


def test_insight_draws_what_the_tables_hold(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    page.goto(service.account(stage.NORTHLIGHT, "insight"))
    expect(page.locator(".chart canvas")).to_have_count(3)
    page.get_by_text("The numbers as a table").first.click()
    table = page.locator("#messages-table")
    expect(table.locator("tbody tr")).to_have_count(30)
    figure = page.locator(".number-card", has_text="messages sent").locator("b").inner_text()
    sums = table.locator("tbody td").evaluate_all(
        "cells => cells.reduce((sum, cell) => sum + Number(cell.dataset.value), 0)"
    )
    assert int(figure.replace(",", "")) == sums
    page.get_by_role("link", name="90 days").click()
    expect(page.locator("#messages-table tbody tr")).to_have_count(90)
    homes = (
        page.get_by_role("region", name="Members by state", exact=True)
        .locator("tbody td.number:nth-child(3)")
        .all_inner_texts()
    )
    deleted = page.get_by_role("row", name=re.compile("deleted")).locator("td.number").first.inner_text()
    assert sum(int(cell.replace(",", "")) for cell in homes) == 400 - int(deleted)
    expect(page.get_by_role("region", name="Communities by size", exact=True)).to_contain_text(
        "<img src=x onerror=alert(1)>"
    )
