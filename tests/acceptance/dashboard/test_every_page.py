"""What holds for every page: no fault found by axe in light and dark, an empty console, no report of the policy, no
outside host, little weight; and the whole dashboard without JavaScript.
"""

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Response, ViewportSize, expect

from daybreak.credentials import totp
from daybreak.domain.snapshot import SnapshotState
from tests.acceptance.dashboard import stage
from tests.acceptance.dashboard.conftest import Service, forget_failed_loads, sign_in, unused

MOST_BYTES = 100_000
LOOKS = (
    "color-contrast",
    "scrollable-region-focusable",
    "target-size",
    "link-name",
    "button-name",
    "link-in-text-block",
)
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
ACCOUNT_PAGES = (
    "files", "files/members/preview", "insight", "activity", "accounts?q=a", "settings/tokens",
    "settings/tokens/new", "settings/security", "confirm",
)  # fmt: skip
OPERATOR_PAGES = ("runs", "freshness", "people", "nodes")


@pytest.fixture
def busy(service: Service) -> Iterator[str]:
    """A run under way and one that is held; the id of the latter."""
    now = datetime.now(UTC)
    building, fence = stage.add_building(service.state, now)
    held = stage.add_held(service.state, now)
    yield held
    service.state.write(
        lambda stores: stores.snapshots.finish(building, fence, SnapshotState.FAILED, now, report={}, failure="ended")
    )
    service.state.write(lambda stores: stores.snapshots.discard(held, now, "ended"))


def test_accessible_light_quiet_and_at_home(
    open_page: Callable[..., Page], service: Service, busy: str, project_folder: Path
) -> None:
    # Without motion: a colour that is on its way is no colour to judge.
    page = open_page(color_scheme="light", viewport=WIDE, reduced_motion="reduce")
    page.add_init_script(path=project_folder / "tests/vendored/axe-4.14.1.min.js")
    page.add_init_script(
        "addEventListener('securitypolicyviolation', event => console.error('policy: ' + event.violatedDirective));"
    )
    loaded: list[Response] = []

    def keep(response: Response) -> None:
        loaded.append(response)

    page.on("response", keep)
    page.goto(f"{service.base}/dashboard/sign-in")
    faults = _faults(page, "sign-in")
    sign_in(page, service, stage.OPERATOR)
    page.wait_for_url("**/files")
    addresses = [service.account(stage.NORTHLIGHT, path) for path in ACCOUNT_PAGES]
    addresses += [service.operator(path) for path in (*OPERATOR_PAGES, f"runs/{busy}")]
    for address in addresses:
        loaded.clear()
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 200, address
        # What hides in closed parts is looked at too; one of nine that are alike is enough.
        page.evaluate(
            "() => document.querySelectorAll('.switcher, .resource:first-child details')"
            ".forEach(part => { part.open = true; })"
        )
        faults += _faults(page, address)
        weight = sum(_bytes(response) for response in loaded)
        assert weight < MOST_BYTES, f"{address} weighs {weight}"
        assert {re.sub(r"(//[^/]+).*", r"\1", response.url) for response in loaded} == {service.base}
    assert faults == []


def test_accessible_where_secrets_are_made_and_asked_for(
    open_page: Callable[..., Page], service: Service, project_folder: Path
) -> None:
    page = open_page(color_scheme="light", viewport=WIDE, reduced_motion="reduce")
    page.add_init_script(path=project_folder / "tests/vendored/axe-4.14.1.min.js")
    service.as_new(stage.NEWCOMER)
    sign_in(page, service, stage.NEWCOMER)
    expect(page.get_by_role("heading", name="Set up your second factor")).to_be_visible()
    faults = _faults(page, "enrolment")
    manual_key = page.locator("#manual-key").inner_text()
    page.get_by_label("Six-digit code").fill(totp.code_at(stage.seed_of(manual_key), int(time.time()) // 30))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("heading", name="Keep these recovery codes")).to_be_visible()
    faults += _faults(page, "recovery codes")

    waiting = open_page(color_scheme="light", viewport=WIDE, reduced_motion="reduce")
    waiting.add_init_script(path=project_folder / "tests/vendored/axe-4.14.1.min.js")
    sign_in(waiting, service, stage.CAREFUL)
    expect(waiting.get_by_role("heading", name="Enter your code")).to_be_visible()
    faults += _faults(waiting, "second factor")
    waiting.get_by_role("link", name="Use a recovery code").click()
    expect(waiting.get_by_label("Recovery code")).to_be_visible()
    faults += _faults(waiting, "recovery code")

    owner = open_page(color_scheme="light", viewport=WIDE, reduced_motion="reduce")
    owner.add_init_script(path=project_folder / "tests/vendored/axe-4.14.1.min.js")
    sign_in(owner, service, stage.OWNER)
    owner.wait_for_url("**/files")
    owner.goto(service.account(stage.NORTHLIGHT, "settings/tokens/new"))
    name = unused("looked at")
    owner.get_by_label("Name").fill(name)
    owner.get_by_role("button", name="Create the token").click()
    expect(owner.locator("#token-value")).to_contain_text("service_api_")
    faults += _faults(owner, "token made")
    owner.goto(service.account(stage.NORTHLIGHT, "settings/tokens"))
    owner.get_by_role("link", name=f"Revoke {name}").click()
    expect(owner.get_by_role("button", name="Revoke the token")).to_be_visible()
    faults += _faults(owner, "token revoked")
    assert faults == []


def test_a_mistyped_address_leads_on(
    open_page: Callable[..., Page], service: Service, project_folder: Path, console_messages: list[str]
) -> None:
    page = open_page(color_scheme="light", viewport=WIDE, reduced_motion="reduce")
    page.add_init_script(path=project_folder / "tests/vendored/axe-4.14.1.min.js")
    page.goto(f"{service.base}/dashbord/files")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    assert _faults(page, "nowhere") == []
    page.get_by_role("link", name="API description").click()
    page.wait_for_url("**/docs")
    page.go_back()
    page.get_by_role("link", name="To your files").click()
    page.wait_for_url("**/dashboard/sign-in*")
    forget_failed_loads(console_messages, 404)


def _faults(page: Page, where: str) -> list[str]:
    """What axe finds: everything in light and wide, what may change with them in dark and on a phone."""
    found = _axe(page, f"{where}, light", "{resultTypes: ['violations']}")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)
    found += _axe(page, f"{where}, dark phone", f"{{resultTypes: ['violations'], runOnly: {list(LOOKS)}}}")
    wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{where} is wider than a phone by {wide}"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)
    return found


def _axe(page: Page, where: str, options: str) -> list[str]:
    violations: list[dict[str, Any]] = page.evaluate(
        f"() => axe.run(document, {options}).then(done => done.violations)"
    )
    return [
        f"{where}: {violation['id']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in violations
        for node in violation["nodes"]
    ]


def test_first_load_with_nothing_kept_is_light(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    session = page.context.new_cdp_session(page)
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    loaded: list[Response] = []

    def keep(response: Response) -> None:
        loaded.append(response)

    page.on("response", keep)
    for path in ("files", "insight?days=365"):
        loaded.clear()
        page.goto(service.account(stage.NORTHLIGHT, path), wait_until="networkidle")
        assert any("htmx" in response.url for response in loaded)
        assert all(response.headers.get("content-encoding") == "gzip" for response in loaded if ".js" in response.url)
        assert sum(_bytes(response) for response in loaded) < MOST_BYTES


def test_whole_way_without_javascript(open_page: Callable[..., Page], service: Service) -> None:
    page = open_page(java_script_enabled=False)
    sign_in(page, service, stage.OWNER)
    page.goto(service.account(stage.ODD))
    expect(page.locator(".switcher summary")).to_contain_text("<img src=x onerror=alert(1)>")
    page.goto(service.account(stage.NORTHLIGHT))
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download Communities as CSV").click()
    assert downloading.value.suggested_filename == "communities.csv.gz"
    row = page.locator(".resource", has_text="Member Details")
    row.locator("summary").first.click()
    row.get_by_role("link", name="Show the first 50 rows").click()
    expect(page.get_by_role("heading", name="Member Details")).to_be_visible()
    expect(page.locator("table.data tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Back to Files").click()
    page.locator(".switcher summary").click()
    page.get_by_label("Search accounts").fill("kita")
    page.get_by_label("Search accounts").press("Enter")
    page.locator(".account-grid").get_by_role("link", name="Kita").click()
    expect(page.locator(".switcher summary")).to_contain_text("Kita")
    page.goto(service.account(stage.KITA, "insight"))
    page.get_by_text("The numbers as a table").first.click()
    expect(page.locator("#messages-table tbody tr")).to_have_count(30)
    page.goto(service.account(stage.NORTHLIGHT, "activity"))
    page.get_by_label("What").select_option("file.fetched")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr").first).to_contain_text("File fetched")
    assert page.locator("tbody th", has_text="Sign in").count() == 0
    with page.expect_download() as downloading:
        page.get_by_role("link", name="JSON lines").click()
    assert '"file.fetched"' in downloading.value.path().read_text()
    page.goto(service.account(stage.KITA, "settings/tokens/new"))
    name = unused("plain")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create the token").click()
    expect(page.locator("#token-value")).to_contain_text("service_api_")
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("link", name=f"Revoke {name}").click()
    page.get_by_role("button", name="Revoke the token").click()
    expect(page.get_by_text("The token is revoked.")).to_be_visible()


def test_long_words_stay_on_the_page(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor(stage.WORDY, viewport=PHONE)
    for path in ("files", "insight", "activity", "accounts", "settings/tokens", "settings/security"):
        page.goto(service.account(stage.LONG, path))
        for size in (PHONE, WIDE):
            page.set_viewport_size(size)
            wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is wider than {size} by {wide}"


def test_a_phone_shows_the_tab_of_the_page(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor(stage.OPERATOR, viewport=PHONE)
    for path in OPERATOR_PAGES:
        page.goto(service.operator(path))
        expect(page.locator(".nav [aria-current]")).to_be_in_viewport(ratio=1)


def test_the_readers_own_time_stands_beside_utc(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor(timezone_id="Asia/Kathmandu")
    line = page.locator(".dawn-line")
    instant = datetime.fromisoformat(line.locator("time").get_attribute("datetime") or "")
    own = instant + timedelta(hours=5, minutes=45)
    expect(line).to_contain_text(f"{instant:%H:%M} UTC")
    expect(line.locator(".local")).to_have_text(f"{own:%a %H:%M} your time")
    page.goto(service.account(stage.NORTHLIGHT, "activity"))
    expect(page.locator("tbody time").first).to_have_attribute("title", re.compile("UTC; .*your time"))
    page = visitor(timezone_id="UTC")
    expect(page.locator(".dawn-line")).to_contain_text("UTC")
    expect(page.locator(".local")).to_have_count(0)


def test_keyboard_reaches_the_content_first(visitor: Callable[..., Page], service: Service) -> None:
    page = visitor()
    page.goto(service.account(stage.NORTHLIGHT))
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Snapshot", exact=True)).to_be_focused()


def _bytes(response: Response) -> int:
    sizes = response.request.sizes()
    return sizes["responseBodySize"] + sizes["responseHeadersSize"]
