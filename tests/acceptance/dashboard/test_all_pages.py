"""Properties of every page: accessibility, content security policy, size, and use without JavaScript."""

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, Response, ViewportSize, expect

from daybreak.credentials import totp
from daybreak.domain.identity import Passkey
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import SnapshotState
from tests.acceptance.dashboard.axe import PHONE, WIDE, axe_violations
from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads, sign_in, sign_in_without_form, unique
from tests.acceptance.dashboard.sample import directory, snapshots
from tests.parts.variants import one_of

MAXIMUM_BYTES = 100_000
# The width of a small phone, and of a wide page at 400 %, as WCAG 2.2 requires for reflow (1.4.10).
NARROW: ViewportSize = {"width": 320, "height": 640}
ACCOUNT_PAGES = (
    "files", "files/members/preview", "files/members/changes", "insight", "insight?range=12m", "insight/campaigns",
    "activity", "connect", "connect?tool=curl", "accounts?q=a",
    "settings/tokens", "settings/tokens/new", "settings/webhooks", "settings/webhooks/new",
    "settings/notifications", "settings/display", "settings/security",
    "settings/security/sign-out-everywhere", "confirm",
)  # fmt: skip
OPERATOR_PAGES = (
    "runs", "freshness", "people", "seats", "seats/new", "nodes",
    f"accounts/{directory.NORTHLIGHT}", f"seats/{directory.id_of(directory.OWNER)}",
)  # fmt: skip

# Pages with the components of all others.
FIRST_PAGES = ("files", "files/members/preview", "insight", "settings/tokens/new", "settings/security")
FIRST_OPERATOR_PAGES = ("runs", "seats/new")


@pytest.fixture
def held_run(service: Service) -> Iterator[str]:
    """The id of a held run, while another run is under way."""
    now = datetime.now(UTC)
    building, fence = snapshots.add_building(service.state, now)
    held = snapshots.add_held(service.state, now)
    yield held
    service.state.write(
        lambda stores: stores.snapshots.finish(
            building, fence, SnapshotState.FAILED, now, report=RunReport(), failure="ended"
        )
    )
    service.state.write(lambda stores: stores.snapshots.discard(held, now, "ended"))


@pytest.mark.parametrize(
    ("account_pages", "operator_pages"),
    one_of((FIRST_PAGES, FIRST_OPERATOR_PAGES), (ACCOUNT_PAGES, OPERATOR_PAGES)),
    ids=["first", "all"],
)
def test_pages_are_accessible_and_load_nothing_external(
    open_with_axe: Callable[[], Page],
    service: Service,
    held_run: str,
    account_pages: tuple[str, ...],
    operator_pages: tuple[str, ...],
) -> None:
    page = open_with_axe()
    page.add_init_script(
        "addEventListener('securitypolicyviolation', event => console.error('CSP: ' + event.violatedDirective));"
    )
    loaded: list[Response] = []

    def record(response: Response) -> None:
        loaded.append(response)

    page.on("response", record)
    page.goto(f"{service.base}/dashboard/sign-in")
    violations = axe_violations(page, "sign-in")
    page.goto(f"{service.base}/dashboard/forgot-password")
    violations += axe_violations(page, "forgot password")
    sign_in_without_form(page, service, directory.OPERATOR)
    addresses = [service.account(directory.NORTHLIGHT, path) for path in account_pages]
    addresses += [service.operator(path) for path in (*operator_pages, f"runs/{held_run}")]
    addresses += [f"{service.base}/{path}" for path in ("docs", "docs/api-files", "docs/files", "docs/help")]
    for address in addresses:
        loaded.clear()
        response = page.goto(address)
        assert response is not None
        assert response.status == 200, address
        # This page reloads itself, which would end the check with axe.
        expect(page.get_by_text("Counting rows")).to_have_count(0)
        # Check collapsed parts too.
        page.evaluate(
            "() => document.querySelectorAll('.switcher, .docs details').forEach(part => { part.open = true; })"
        )
        violations += axe_violations(page, address)
        weight = sum(_response_bytes(response) for response in loaded)
        assert weight < MAXIMUM_BYTES, f"{address}: {weight} bytes"
        assert {re.sub(r"(//[^/]+).*", r"\1", response.url) for response in loaded} == {service.base}
    assert violations == [], "\n".join(violations)


@pytest.mark.release
def test_secret_pages_are_accessible(open_with_axe: Callable[[], Page], service: Service) -> None:
    page = open_with_axe()
    service.reset_seat(directory.NEWCOMER)
    sign_in(page, service, directory.NEWCOMER)
    expect(page.get_by_role("heading", name="Set up second factor")).to_be_visible()
    violations = axe_violations(page, "enrolment")
    manual_key = page.locator("#manual-key").inner_text()
    page.get_by_label("Six-digit code").fill(totp.code_at(directory.seed_of(manual_key), int(time.time()) // 30))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("heading", name="Save your recovery codes")).to_be_visible()
    violations += axe_violations(page, "recovery codes")

    pending = open_with_axe()
    sign_in(pending, service, directory.CAREFUL)
    expect(pending.get_by_role("heading", name="Enter your code")).to_be_visible()
    violations += axe_violations(pending, "second factor")
    pending.get_by_role("link", name="Use recovery code").click()
    expect(pending.get_by_label("Recovery code")).to_be_visible()
    violations += axe_violations(pending, "recovery code")

    owner = open_with_axe()
    sign_in_without_form(owner, service, directory.OWNER)
    owner.goto(service.account(directory.NORTHLIGHT, "settings/tokens/new"))
    name = unique("accessible")
    owner.get_by_label("Name").fill(name)
    owner.get_by_role("button", name="Create token").click()
    expect(owner.locator("#token-value")).to_contain_text("service_api_")
    violations += axe_violations(owner, "token created")
    owner.goto(service.account(directory.NORTHLIGHT, "settings/tokens"))
    owner.get_by_role("link", name=name, exact=True).click()
    expect(owner.get_by_role("heading", name=name)).to_be_visible()
    violations += axe_violations(owner, "token")
    owner.get_by_role("link", name="Revoke").click()
    expect(owner.get_by_role("button", name="Revoke token")).to_be_visible()
    violations += axe_violations(owner, "revoke token")
    assert violations == []


@pytest.mark.release
def test_passkey_pages_are_accessible(open_with_axe: Callable[[], Page], service: Service) -> None:
    service.reset_seat(directory.KEEPER)
    seat_id = directory.id_of(directory.KEEPER)
    passkey = Passkey("bGFwdG9w", seat_id, "a2V5", 0, f"laptop {directory.HOSTILE}", datetime.now(UTC))
    service.state.write(lambda stores: stores.passkeys.add(passkey))
    page = open_with_axe()
    sign_in(page, service, directory.KEEPER)
    expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()
    violations = axe_violations(page, "second factor with a passkey")
    page.get_by_label("Six-digit code").fill(totp.code_at(directory.SEED, int(time.time()) // 30))
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url("**/files")
    for path, title in (
        ("", "Security"),
        ("/passkeys/new", "Add passkey"),
        (f"/passkeys/{passkey.reference}/rename", "Rename"),
        (f"/passkeys/{passkey.reference}/remove", "Remove"),
    ):
        page.goto(service.account(directory.KITA, f"settings/security{path}"))
        expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()
        violations += axe_violations(page, title)
    assert violations == []


@pytest.mark.release
def test_dialogs_are_accessible(open_with_axe: Callable[[], Page], service: Service) -> None:
    page = open_with_axe()
    sign_in_without_form(page, service, directory.OWNER)
    page.goto(service.account(directory.NORTHLIGHT))
    page.get_by_role("link", name="Preview of Member Details").click()
    expect(page.locator("dialog table.data")).to_be_visible()
    violations = axe_violations(page, "preview in a drawer")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option", name="Page Files")).to_be_visible()
    violations += axe_violations(page, "command palette")
    assert violations == []


@pytest.mark.release
def test_unknown_url_links_to_dashboard_and_docs(
    open_with_axe: Callable[[], Page], service: Service, console_messages: list[str]
) -> None:
    page = open_with_axe()
    page.goto(f"{service.base}/dashbord/files")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    assert axe_violations(page, "not found") == []
    page.get_by_role("link", name="API documentation").click()
    page.wait_for_url("**/docs")
    page.go_back()
    page.get_by_role("link", name="Open dashboard").click()
    page.wait_for_url("**/dashboard/sign-in*")
    ignore_failed_loads(console_messages, 404)


def test_first_load_of_files_is_under_60_kb(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=None)
    session = page.context.new_cdp_session(page)
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    loaded: list[Response] = []

    def record(response: Response) -> None:
        loaded.append(response)

    page.on("response", record)
    for path, maximum in (("files", 60_000), ("insight?range=12m", MAXIMUM_BYTES)):
        loaded.clear()
        page.goto(service.account(directory.NORTHLIGHT, path), wait_until="networkidle")
        assert any("partials.js" in response.url for response in loaded)
        assert all(response.headers.get("content-encoding") == "gzip" for response in loaded if ".js" in response.url)
        weight = sum(_response_bytes(response) for response in loaded)
        assert weight < maximum, f"{path}: {weight} bytes"


@pytest.mark.release
def test_dashboard_works_without_javascript(open_page: Callable[..., Page], service: Service) -> None:
    page = open_page(java_script_enabled=False)
    sign_in(page, service, directory.OWNER)
    page.goto(service.account(directory.ODD))
    expect(page.locator(".switcher summary")).to_contain_text("<img src=x onerror=alert(1)>")
    page.goto(service.account(directory.NORTHLIGHT))
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download Communities as CSV").click()
    assert re.search(r"-communities-\d{4}-\d\d-\d\d\.csv\.gz$", downloading.value.suggested_filename)
    row = page.locator(".resource", has_text="Member Details")
    row.get_by_role("link", name="Preview").click()
    expect(page.get_by_role("heading", name="Member Details")).to_be_visible()
    expect(page.locator("table.data tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Back to Files").click()
    page.locator(".switcher summary").click()
    page.get_by_label("Search accounts").fill("kita")
    page.get_by_label("Search accounts").press("Enter")
    page.locator(".account-grid").get_by_role("link", name="Kita").click()
    expect(page.locator(".switcher summary")).to_contain_text("Kita")
    page.goto(service.account(directory.KITA, "insight"))
    # The tables below charts are open.
    expect(page.locator("#messages-table tbody tr")).to_have_count(30)
    page.goto(service.account(directory.NORTHLIGHT, "activity"))
    page.get_by_label("Action").select_option("file.fetched")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr:not(.day)").first).to_contain_text("File downloaded")
    assert page.locator("tbody th", has_text="Sign-in").count() == 0
    with page.expect_download() as downloading:
        page.get_by_role("link", name="JSON Lines").click()
    assert '"file.fetched"' in downloading.value.path().read_text()
    page.goto(service.account(directory.KITA, "settings/tokens/new"))
    name = unique("plain")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#token-value")).to_contain_text("service_api_")
    page.get_by_role("link", name="Done").click()
    page.get_by_role("link", name=f"Revoke {name}").click()
    page.get_by_role("button", name="Revoke token").click()
    expect(page.get_by_text("Token revoked.")).to_be_visible()


@pytest.mark.release
def test_documentation_page_works_with_the_keyboard(open_page: Callable[..., Page], service: Service) -> None:
    page = open_page(java_script_enabled=False, viewport=PHONE)
    page.goto(f"{service.base}/docs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="OpenAPI document", exact=True)).to_be_focused()
    contents = page.get_by_role("navigation", name="Contents")
    for name in ("API: Authentication", "Switch to an account"):
        page.get_by_text("Contents", exact=True).press("Enter")
        contents.get_by_role("link", name=name).press("Enter")
    expect(page.get_by_role("heading", name="Switch to an account")).to_be_in_viewport()


@pytest.mark.release
def test_documentation_is_linked_from_the_dashboard(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(viewport=PHONE)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Documentation").click()
    expect(page.get_by_role("heading", level=1, name="Help")).to_be_visible()
    contents = page.get_by_role("navigation", name="Contents")
    for name in ("Files and columns", "Member Details"):
        page.get_by_text("Contents", exact=True).click()
        contents.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name="Member Details")).to_be_in_viewport()
    row = page.get_by_role("table", name="Columns of Member Details").get_by_role("row", name="SUBSCRIPTION_STATE")
    expect(row).to_contain_text("opted_out")
    page.locator("#members summary").click()
    expect(page.locator("#members").get_by_text('"+4791234567"').first).to_be_visible()
    page.goto(service.account(directory.NORTHLIGHT, "files/members/preview"))
    page.get_by_role("link", name="Documentation of this file").click()
    expect(page.get_by_role("heading", name="Member Details")).to_be_in_viewport()
    page.set_viewport_size({"width": 1200, "height": 800})
    page.get_by_role("searchbox", name="Search the documentation").fill("file request")
    contents.get_by_role("link", name="Request a file").click()
    command = page.locator("article", has=page.get_by_role("heading", name="Request a file")).locator("figure")
    expect(command.first).to_contain_text(directory.NORTHLIGHT)
    command.first.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("status")).to_have_text(re.compile("Copied|Press"))


@pytest.mark.release
def test_long_names_do_not_widen_pages(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.LONG_EMAIL, viewport=PHONE, address=None)
    for path in ("files", "insight", "activity", "accounts", "settings/tokens", "settings/security"):
        page.goto(service.account(directory.LONG, path))
        expect(page.get_by_text("Counting rows")).to_have_count(0)
        for size in (NARROW, PHONE, WIDE):
            page.set_viewport_size(size)
            overflow = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, f"{path} overflows {size} by {overflow} px"


@pytest.mark.release
def test_text_at_200_percent_fits_on_a_phone(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.OPERATOR, viewport=NARROW, address=None)
    font_sizes = {"standard": 32, "fixed": 26}
    page.context.new_cdp_session(page).send("Page.setFontSizes", {"fontSizes": font_sizes})
    paths = [service.account(directory.NORTHLIGHT, path) for path in ACCOUNT_PAGES]
    paths += [service.operator(path) for path in OPERATOR_PAGES]
    paths += [f"{service.base}/docs/api-files", f"{service.base}/dashboard/sign-in?signed-out=yes"]
    for path in paths:
        if "sign-in" in path:
            page.context.clear_cookies()
        page.goto(path)
        expect(page.get_by_text("Counting rows")).to_have_count(0)
        assert page.evaluate("() => getComputedStyle(document.body).fontSize") == "32px"
        assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0, path


@pytest.mark.release
def test_phone_has_44_pixel_controls_and_the_current_link(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.OPERATOR, viewport=PHONE, has_touch=True, address=None)
    paths = [service.account(directory.NORTHLIGHT, path) for path in ACCOUNT_PAGES]
    paths += [service.operator(path) for path in OPERATOR_PAGES]
    for path in paths:
        page.goto(path)
        small = page.evaluate(
            "() => [...document.querySelectorAll('.button, input:not([type=hidden]), select, summary, .nav a')]"
            ".filter(each => each.checkVisibility() && !each.classList.contains('visually-hidden'))"
            ".map(each => each.type === 'checkbox' ? each.closest('label') : each)"
            ".filter(each => each.getBoundingClientRect().height < 43.5).map(each => each.outerHTML.slice(0, 120))"
        )
        assert small == [], path
        if "/operator/" in path:
            expect(page.locator(".nav [aria-current]")).to_be_in_viewport(ratio=1)


@pytest.mark.release
def test_local_time_is_shown_next_to_utc(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(timezone_id="Asia/Kathmandu")
    line = page.locator(".freshness-headline")
    instant = datetime.fromisoformat(line.locator("time").get_attribute("datetime") or "")
    local = instant + timedelta(hours=5, minutes=45)
    expect(line).to_contain_text(f"{instant:%H:%M} UTC")
    expect(line.locator(".local")).to_have_text(f"{local:%a %H:%M} local time")
    page.goto(service.account(directory.NORTHLIGHT, "activity"))
    expect(page.locator("tbody time").first).to_have_attribute("title", re.compile("UTC; .*local time"))
    page = sign_in_as(timezone_id="UTC")
    expect(page.locator(".freshness-headline")).to_contain_text("UTC")
    expect(page.locator(".local")).to_have_count(0)


def test_first_tab_stop_skips_to_content(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT))
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Snapshot", exact=True)).to_be_focused()


def test_forced_colors_show_what_is_chosen(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "connect?tool=curl"), forced_colors="active")
    page.keyboard.press("Control+k")
    for chosen in (page.get_by_role("option", name="Page Files"), page.locator(".row [aria-current]")):
        expect(chosen).to_have_css("outline-style", "solid")
    expect(page.get_by_role("option", name="Page Activity")).to_have_css("outline-style", "none")


def test_previews_are_whole_and_print_has_no_controls(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "files/members/preview"), viewport=PHONE)
    cut = page.locator("table.data td").evaluate_all(
        "cells => cells.filter(each => each.scrollWidth > each.clientWidth).map(each => each.textContent)"
    )
    assert cut == []
    page.emulate_media(media="print")
    for table in page.locator(".scroll").all():
        assert table.evaluate("each => getComputedStyle(each).overflow") == "visible"
        assert table.evaluate("each => each.scrollHeight - each.clientHeight") <= 0
    for path in ("files", "files/members/preview", "activity"):
        page.goto(service.account(directory.NORTHLIGHT, path))
        expect(page.locator("form:visible, button.button:visible, select:visible, .side:visible")).to_have_count(0)


def _response_bytes(response: Response) -> int:
    sizes = response.request.sizes()
    return sizes["responseBodySize"] + sizes["responseHeadersSize"]
