"""Files: freshness, downloads, previews, earlier snapshots."""

import csv
import gzip
import io
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.conftest import Service
from tests.acceptance.dashboard.sample import directory


@pytest.fixture
def files(sign_in_as: Callable[..., Page], service: Service) -> Page:
    """The Files page of the largest account."""
    page = sign_in_as()
    page.goto(service.account(directory.NORTHLIGHT))
    return page


def test_files_page_shows_freshness_and_nine_resources(files: Page) -> None:
    panel = files.get_by_role("region", name="Freshness")
    expect(panel).to_contain_text(re.compile(r"As of .*\d\d:12 UTC"))
    expect(panel).to_contain_text(re.compile(r"Next in .*\d\d:00 UTC"))
    expect(panel).to_contain_text("Up to date")
    assert files.locator(".resource").count() == 9
    members = files.locator(".resource", has_text="Member Details")
    expect(members).to_contain_text("400 rows")
    expect(members).to_contain_text(re.compile(r"\+9 \(\+2\.3 %\)"))
    expect(members.locator("svg.spark")).to_have_attribute("aria-label", re.compile("Rows over 3 snapshots"))


def test_download_is_the_published_file(files: Page) -> None:
    with files.expect_download() as downloading:
        files.get_by_role("link", name="Download Member Details as CSV").click()
    download = downloading.value
    assert download.suggested_filename == "members.csv.gz"
    rows = list(csv.reader(io.StringIO(gzip.decompress(download.path().read_bytes()).decode())))
    assert rows[0][0] == "MEMBER_ID"
    assert len(rows) == 401


def test_spreadsheet_safe_copy_has_no_formula(files: Page) -> None:
    row = files.locator(".resource", has_text="Member Details")
    row.get_by_text("Preview and columns").click()
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


def test_preview_shows_types_and_column_descriptions(files: Page) -> None:
    row = files.locator(".resource", has_text="Member Details")
    row.get_by_text("Preview and columns").click()
    row.get_by_role("link", name="Show first rows").click()
    table = row.locator("table.data")
    expect(table.locator("tbody tr")).to_have_count(50)
    heading = table.get_by_role("columnheader").nth(2)
    expect(heading).to_contain_text("text")
    heading.get_by_role("button").focus()
    expect(heading.get_by_role("tooltip")).to_be_visible()
    expect(heading.get_by_role("tooltip")).to_contain_text("E.164")
    # HTML in a cell is shown as text, control characters as visible ones.
    expect(table).to_contain_text("<img src=x onerror=alert(1)>")
    assert "\u202e" not in table.inner_text()
    assert files.locator("table.data img").count() == 0


def test_changed_rows_are_linked_and_shown(files: Page) -> None:
    row = files.locator(".resource", has_text="Member Details")
    row.get_by_role("link", name="Changes of Member Details: +9").click()
    expect(files.get_by_role("heading", level=1)).to_have_text("Changes of Member Details")
    table = files.locator("table.data")
    expect(table.locator("tbody tr")).to_have_count(9)
    expect(table.get_by_role("columnheader").first).to_contain_text("_OP")
    expect(table.locator("tbody tr").first.locator("td").first).to_have_text("I")
    expect(table).to_contain_text("First 9 of 9 rows")
    files.get_by_role("link", name="Back to Files").click()
    # Usage has the same rows on both days.
    expect(files.locator(".resource", has_text="Message Segment Usage")).not_to_contain_text("Changes")


def test_curl_command_uses_the_documented_path(files: Page, service: Service) -> None:
    usage = files.locator(".resource", has_text="Message Segment Usage")
    usage.get_by_text("Preview and columns").click()
    expect(usage.locator("pre")).to_contain_text(
        f"{service.base}/download/v1/files/{directory.NORTHLIGHT}"
        "/outbound_message_type_usage.csv.gz/segment-based-subscription"
    )
    files.context.grant_permissions(["clipboard-read", "clipboard-write"])
    usage.get_by_role("button", name="Copy").click()
    expect(usage.get_by_role("button", name="Copied")).to_be_visible()
    copied = files.evaluate("() => navigator.clipboard.readText()")
    assert copied == usage.locator("pre").inner_text().strip()
    assert "-H @daybreak-token.txt" in copied
    expect(files.locator("#save-token")).to_contain_text("> daybreak-token.txt")


def test_earlier_snapshot_can_be_selected(files: Page) -> None:
    files.get_by_label("Snapshot", exact=True).select_option(index=2)
    files.get_by_role("button", name="Show", exact=True).click()
    expect(files.get_by_role("region", name="Freshness")).to_contain_text("Earlier snapshot")
    members = files.locator(".resource", has_text="Member Details")
    expect(members).to_contain_text("382 rows")
    with files.expect_download() as downloading:
        files.get_by_role("link", name="Download Member Details as JSON").click()
    assert gzip.decompress(downloading.value.path().read_bytes()).count(b"\n") == 382


def test_account_without_files_shows_the_reason(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as()
    page.goto(service.account(directory.UNKNOWN))
    expect(page.get_by_text("The source has no data for this account")).to_be_visible()
    page.goto(service.account(directory.VIEWER))
    expect(page.get_by_role("heading", name="No Data Export access")).to_be_visible()
    assert page.locator(".resource").count() == 0
