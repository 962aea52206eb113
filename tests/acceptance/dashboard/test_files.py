"""Files: freshness, downloads, previews, earlier snapshots."""

import csv
import gzip
import io
import re
import zipfile
from collections.abc import Callable

import openpyxl
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from daybreak.domain.audit import AuditEvent, AuditQuery
from tests.acceptance.dashboard.conftest import Service, count_clicks, ignore_failed_loads, sign_in
from tests.acceptance.dashboard.sample import directory
from tests.parts.waiting import wait_until


@pytest.fixture
def files(sign_in_as: Callable[..., Page], service: Service) -> Page:
    """The Files page of the largest account."""
    return sign_in_as(address=service.account(directory.NORTHLIGHT))


def test_files_page_shows_freshness_and_nine_resources(files: Page) -> None:
    panel = files.get_by_role("region", name="Freshness")
    expect(panel).to_contain_text(re.compile(r"As of .*\d\d:12 UTC"))
    expect(panel).to_contain_text(re.compile(r"Next files in .*\d\d:00 UTC"))
    expect(panel).to_contain_text("Up to date")
    assert files.locator(".resource").count() == 9
    members = files.locator(".resource", has_text="Member Details")
    expect(members).to_contain_text("400 rows")
    expect(members).to_contain_text(re.compile(r"\+9 \(\+2\.3 %\)"))
    changed = files.get_by_role("region", name="What changed")
    expect(changed).to_contain_text("Member Details has 9 new Members.")
    expect(changed).to_contain_text("Nine files are ready")
    assert members.evaluate("row => row.getBoundingClientRect().height") <= 57
    expect(members.locator("svg.spark")).to_have_attribute("aria-label", re.compile("Rows over 3 snapshots"))


def test_download_is_the_published_file(files: Page) -> None:
    with files.expect_download() as downloading:
        files.get_by_role("link", name="Download Member Details as CSV").click()
    download = downloading.value
    assert re.fullmatch(r"northlight-theatre-members-\d{4}-\d\d-\d\d\.csv\.gz", download.suggested_filename)
    rows = list(csv.reader(io.StringIO(gzip.decompress(download.path().read_bytes()).decode())))
    assert rows[0][0] == "MEMBER_ID"
    assert len(rows) == 401


def open_drawer(files: Page, title: str = "Member Details") -> Locator:
    """Open the preview of a resource in the drawer."""
    files.locator(".resource", has_text=title).get_by_role("link", name=f"Preview of {title}").click()
    drawer = files.get_by_role("dialog", name=title)
    expect(drawer).to_be_visible()
    return drawer


@pytest.mark.release
def test_all_files_are_one_archive(files: Page, service: Service) -> None:
    # Tests of other files download archives too.
    before = len(_archive_events(service))
    with files.expect_download() as downloading:
        files.get_by_role("link", name=re.compile("Download all nine CSV")).click()
    download = downloading.value
    assert re.fullmatch(r"northlight-theatre-csv-\d{4}-\d\d-\d\d\.zip", download.suggested_filename)
    with zipfile.ZipFile(download.path()) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert len(names) == 9
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        members = gzip.decompress(archive.read("members.csv.gz"))
    assert members.count(b"\n") == 401
    # Events of downloads are written with a short delay.
    wait_until(lambda: len(_archive_events(service)) == before + 9, what="events of nine files")
    events = _archive_events(service)[before:]
    assert [event.details["file"] for event in events] == names
    assert {event.actor for event in events} == {directory.OWNER}


def _archive_events(service: Service) -> list[AuditEvent]:
    """Return the events of files in archives, oldest first."""
    events = service.state.read(lambda stores: stores.audit.read(AuditQuery(action="file.fetched")))
    return [event for event in events if event.details.get("archive")]


def test_archive_needs_the_download_permission(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as()
    address = service.account(directory.NORTHLIGHT, "files/all.zip")
    assert page.request.get(f"{address}?format=exe").status == 404
    assert page.request.get(f"{address}?snapshot=gone").status == 404
    assert page.request.head(address).headers["content-type"] == "application/zip"
    assert page.request.get(service.account(directory.VIEWER, "files/all.zip")).status == 403
    assert page.request.get(service.account(directory.UNKNOWN, "files/all.zip")).status == 404


def test_members_are_in_excel_two_clicks_after_the_email(page: Page, service: Service) -> None:
    clicks = count_clicks(page)
    sign_in(page, service, directory.OWNER, path=f"/dashboard/{directory.NORTHLIGHT}/files")
    row = page.locator(".resource", has_text="Member Details")
    with page.expect_download() as downloading:
        row.get_by_role("link", name="Excel").click()
    assert clicks() == 2
    assert re.fullmatch(r"northlight-theatre-members-\d{4}-\d\d-\d\d\.xlsx", downloading.value.suggested_filename)
    sheet = openpyxl.load_workbook(io.BytesIO(downloading.value.path().read_bytes())).worksheets[0]
    cells = [cell.value for row in sheet.iter_rows() for cell in row]
    assert sheet.max_row == 401
    assert '=HYPERLINK("http://x.example")' in cells
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {"s", "n", "b", "d"}, "no formula"


@pytest.mark.release
def test_archive_for_excel_has_workbooks(files: Page, service: Service) -> None:
    day = r"\d{4}-\d\d-\d\d"
    found = files.request.get(service.account(directory.NORTHLIGHT, "files/all.zip?format=excel"))
    assert re.search(rf'"northlight-theatre-excel-{day}\.zip"', found.headers["content-disposition"])
    with zipfile.ZipFile(io.BytesIO(found.body())) as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == 9
        assert {name.rpartition(".")[2] for name in archive.namelist()} <= {"xlsx", "csv"}


@pytest.mark.release
def test_spreadsheet_safe_copy_has_no_formula(files: Page, service: Service) -> None:
    address = service.account(directory.NORTHLIGHT, "files/members/spreadsheet-safe.csv")
    content = files.request.get(address).body()
    assert content.startswith(b"\xef\xbb\xbf")
    rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert len(rows) == 401
    cells = [cell for row in rows for cell in row]
    assert '\'=HYPERLINK("http://x.example")' in cells
    assert "'-2+3" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]


def test_preview_shows_types_and_column_descriptions(files: Page) -> None:
    row = open_drawer(files)
    table = row.locator("table.data")
    expect(table.locator("tbody tr")).to_have_count(50)
    heading = table.get_by_role("columnheader").nth(1)
    expect(heading).to_contain_text("text")
    heading.get_by_role("button").focus()
    expect(heading.get_by_role("tooltip")).to_be_visible()
    expect(heading.get_by_role("tooltip")).to_contain_text("E.164")
    # HTML in a cell is shown as text, control characters as visible ones.
    expect(table).to_contain_text("<img src=x onerror=alert(1)>")
    assert "\u202e" not in table.inner_text()
    assert files.locator("table.data img").count() == 0
    expect(row.get_by_role("region", name="Columns of Member Details")).to_contain_text("may have no value")
    files.keyboard.press("Escape")
    expect(files.get_by_role("dialog")).to_have_count(0)
    expect(files.get_by_role("link", name="Preview of Member Details")).to_be_focused()


def test_changed_rows_are_linked_and_shown(files: Page) -> None:
    row = files.locator(".resource", has_text="Member Details")
    row.get_by_role("link", name="Changes: +9 of Member Details").click()
    drawer = files.get_by_role("dialog", name="Changes of Member Details")
    added = drawer.get_by_role("region", name="Added: 9 rows")
    expect(added.locator("tbody tr")).to_have_count(9)
    expect(drawer).to_contain_text("All 9 changes.")
    expect(drawer.get_by_role("heading", name="Removed")).to_have_count(0)
    with files.expect_download() as downloading:
        drawer.get_by_role("link", name="CSV of all changes").click()
    assert re.fullmatch(
        r"northlight-theatre-members-changes-\d{4}-\d\d-\d\d\.csv", downloading.value.suggested_filename
    )
    heading, *rows = csv.reader(io.StringIO(downloading.value.path().read_text("utf-8-sig"), newline=""))
    assert heading[:2] == ["CHANGE", "MEMBER_ID"]
    assert [row[0] for row in rows] == ["added"] * 9
    drawer.get_by_role("button", name="Close").click()
    # Usage has the same rows on both days.
    expect(files.locator(".resource", has_text="Message Segment Usage")).not_to_contain_text("Changes")


@pytest.mark.release
def test_drawer_opens_before_its_content_and_recovers(files: Page, console_messages: list[str]) -> None:
    requested: list[Route] = []

    def hold(route: Route) -> None:
        requested.append(route)

    files.route("**/members/preview", hold)
    link = files.get_by_role("link", name="Preview of Member Details")
    link.click()
    drawer = files.get_by_role("dialog", name="Member Details")
    expect(drawer.get_by_role("status")).to_have_text("Loading")
    wait_until(lambda: files.title() and requested, what="the request")
    requested.pop().fulfill(
        status=503, content_type="text/html", body="<p class=lead>The files cannot be read now.</p>"
    )
    expect(drawer.get_by_role("alert")).to_have_text("The files cannot be read now.")
    ignore_failed_loads(console_messages, 503)
    files.unroute("**/members/preview")
    drawer.get_by_role("button", name="Try again").click()
    table = drawer.get_by_role("region", name="First rows of Member Details")
    expect(table.locator("tbody tr")).to_have_count(50)
    # The first column stays when the others scroll.
    before = table.locator("tbody td").first.bounding_box()
    table.evaluate("region => { region.scrollLeft = 300; }")
    assert table.locator("tbody td").first.bounding_box() == before


@pytest.mark.release
def test_columns_with_one_value_are_folded(files: Page) -> None:
    drawer = open_drawer(files)
    assert "LEADER_ID" not in drawer.locator("table.data thead").inner_text()
    drawer.get_by_text("same value in these rows").click()
    expect(drawer.get_by_role("definition").first).to_be_visible()
    expect(drawer.get_by_role("term").first).to_be_visible()


@pytest.mark.release
def test_sign_in_returns_to_the_drawer(files: Page, service: Service) -> None:
    service.end_sessions(directory.OWNER)
    files.get_by_role("link", name="Changes: +9 of Member Details").click()
    files.get_by_label("Email").fill(directory.OWNER)
    files.get_by_label("Password").fill(directory.PASSWORD)
    files.get_by_role("button", name="Sign in").click()
    expect(files.get_by_role("dialog", name="Changes of Member Details").locator("tbody tr")).to_have_count(9)
    assert files.url.endswith("/files?drawer=changes-members")


@pytest.mark.release
def test_curl_command_uses_the_documented_path(files: Page, service: Service) -> None:
    usage = open_drawer(files, "Message Segment Usage")
    expect(usage.locator("pre")).to_contain_text(
        f"{service.base}/download/v1/files/{directory.NORTHLIGHT}"
        "/outbound_message_type_usage.csv.gz/segment-based-subscription"
    )
    files.context.grant_permissions(["clipboard-read", "clipboard-write"])
    usage.get_by_role("button", name="Copy").click()
    usage.get_by_role("button", name="Copied").click()
    expect(usage.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    copied = files.evaluate("() => navigator.clipboard.readText()")
    assert copied == usage.locator("pre").inner_text().strip()
    assert "-H @daybreak-token.txt" in copied
    expect(files.get_by_text("umask")).to_have_count(0)


@pytest.mark.release
def test_earlier_snapshot_can_be_selected(files: Page) -> None:
    options = files.get_by_label("Snapshot", exact=True).locator("option")
    expect(options.first).to_contain_text("(newest)")
    expect(options.last).to_contain_text("(oldest kept)")
    files.get_by_label("Snapshot", exact=True).select_option(index=2)
    files.get_by_role("button", name="Show", exact=True).click()
    expect(files.get_by_role("region", name="Freshness")).to_contain_text("Earlier snapshot")
    members = files.locator(".resource", has_text="Member Details")
    expect(members).to_contain_text("382 rows")
    drawer = open_drawer(files)
    expect(drawer).to_contain_text("First 50 of 382 rows")
    expect(drawer).to_contain_text("The API serves the newest files. Use the buttons for this snapshot.")
    drawer.get_by_role("button", name="Close").click()
    with files.expect_download() as downloading:
        files.get_by_role("link", name="Download Member Details as JSON").click()
    assert gzip.decompress(downloading.value.path().read_bytes()).count(b"\n") == 382


@pytest.mark.release
def test_account_without_files_shows_the_reason(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.UNKNOWN))
    expect(page.get_by_text("The source has no data for this account")).to_be_visible()
    page.goto(service.account(directory.VIEWER))
    expect(page.get_by_role("heading", name="No Data Export access")).to_be_visible()
    assert page.locator(".resource").count() == 0


@pytest.mark.release
@pytest.mark.parametrize("width", [320, 1200])
def test_focused_column_is_not_hidden_by_the_first(
    sign_in_as: Callable[..., Page], service: Service, width: int
) -> None:
    page = sign_in_as(
        address=service.account(directory.NORTHLIGHT, "files/members/preview"), viewport={"width": width, "height": 640}
    )
    columns = page.locator(".data thead button")
    columns.first.focus()
    hidden = []
    for key in ("Tab", "Shift+Tab"):
        for _ in range(columns.count() - 1):
            page.keyboard.press(key)
            hidden += page.evaluate(
                """() => {
                  const button = document.activeElement, box = button.getBoundingClientRect();
                  const ends = [box.left + 4, box.right - 4];
                  const seen = ends.some(x => document.elementFromPoint(x, box.top + 4) === button);
                  return seen ? [] : [button.textContent];
                }"""
            )
    assert hidden == []
