"""Take screenshots of every page of the dashboard into docs/images/: light, dark and on a phone.

Serves the sample data of the browser tests and opens it with the system's Chromium. Needs pngquant, and fonts for the
scripts in the sample texts (Debian: pngquant fonts-noto-cjk fonts-noto-color-emoji).

    python -m tools.screenshots [NAME ...]      take only the named ones
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, sync_playwright

from daybreak.credentials import totp
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.schedule import last_due
from daybreak.state.sqlite_state import SqliteState
from tests.acceptance.dashboard.sample import directory, snapshots
from tests.acceptance.dashboard.sample.service import MAIL_URL_VARIABLE
from tests.parts.browser import CHROMIUM_OPTIONS, chromium_path
from tests.parts.ports import free_port
from tests.parts.processes import running
from tests.parts.webhook_receiver import Receiver

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
WIDE: ViewportSize = {"width": 1200, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 800}
# Scrolls the navigation to the current page, as a page does when it is opened at this width.
SCROLL_NAVIGATION = """() => {
    const link = document.querySelector(".nav [aria-current]"), nav = link?.parentElement;
    if (link) nav.scrollLeft = link.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
}"""
Capture = Callable[..., None]


def main() -> None:
    """Take the screenshots named on the command line, or all."""
    pngquant = shutil.which("pngquant")
    if pngquant is None:
        sys.exit("pngquant is missing: apt-get install pngquant")
    wanted = set(sys.argv[1:])
    taken: list[Path] = []

    def capture(page: Page, name: str, top: Locator | None = None) -> None:
        if wanted and name not in wanted:
            return
        for variant, size in (("light", WIDE), ("dark", WIDE), ("phone", PHONE)):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme="dark" if variant == "dark" else "light", reduced_motion="reduce")
            # Wait until charts are redrawn.
            page.wait_for_timeout(500)
            page.evaluate(SCROLL_NAVIGATION)
            if top is not None:
                top.evaluate("element => element.scrollIntoView()")
            path = IMAGES / f"{name}-{variant}.png"
            page.screenshot(path=path, animations="disabled")
            taken.append(path)
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")

    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_OPTIONS)
        with served() as (base, state):
            public_pages(browser, base, capture)
            account_pages(browser, base, capture)
            operator_pages(browser, base, state, capture)
        with served(days_late=1) as (base, state):
            late_pages(browser, base, state, capture)
        with served(days=0) as (base, state):
            new_service_pages(browser, base, state, capture)
        browser.close()
    for path in taken:
        subprocess.run(
            [pngquant, "--force", "--skip-if-larger", "--strip", "--speed=1", "--ext=.png", path], check=False
        )
    print(f"{len(taken)} screenshots, {sum(path.stat().st_size for path in taken):,} bytes")


@contextmanager
def served(*, days: int = 7, days_late: int = 0) -> Iterator[tuple[str, SqliteState]]:
    """Serve sample data with snapshots of some days; return its URL and state database."""
    with tempfile.TemporaryDirectory(prefix="daybreak-sample-") as folder:
        port = free_port()
        arguments = [folder, str(port), "4", "2600", str(days), str(days_late)]
        command = [sys.executable, "-m", "tests.acceptance.dashboard.sample.service", *arguments]
        # The address of a mail server shows the pages that need one. No mail is sent.
        with running(command, folder=ROOT, environment={MAIL_URL_VARIABLE: "smtp://127.0.0.1:9"}) as program:
            program.wait_for_log("ready", 120)
            state = SqliteState(Path(folder) / "state.db")
            try:
                yield f"http://127.0.0.1:{port}", state
            finally:
                state.close()


def sign_in(browser: Browser, base: str, email: str) -> Page:
    """Open a page and enter email and password."""
    context: BrowserContext = browser.new_context(viewport=WIDE)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{base}/dashboard/sign-in")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(directory.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
    return page


def public_pages(browser: Browser, base: str, capture: Capture) -> None:
    """Capture sign-in, second factor, its setup, and recovery codes."""
    page = browser.new_context(viewport=WIDE).new_page()
    page.goto(f"{base}/dashboard/sign-in")
    capture(page, "sign-in")
    page.goto(f"{base}/dashboard/status")
    capture(page, "status")
    page.goto(f"{base}/docs/files")
    capture(page, "docs")
    capture(sign_in(browser, base, directory.CAREFUL), "second-factor")
    page = sign_in(browser, base, directory.NEWCOMER)
    page.locator(".qr svg").wait_for()
    capture(page, "enrolment")
    seed = directory.seed_of(page.locator("#manual-key").inner_text())
    page.get_by_label("Six-digit code").fill(totp.code_at(seed, int(time.time()) // totp.STEP_SECONDS))
    page.get_by_role("button", name="Confirm").click()
    page.locator("#recovery-codes").wait_for()
    capture(page, "recovery-codes")


def account_pages(browser: Browser, base: str, capture: Capture) -> None:
    """Capture the pages of account users."""
    page = sign_in(browser, base, directory.OWNER)

    def open_page(path: str) -> None:
        page.goto(f"{base}/dashboard/{directory.NORTHLIGHT}/{path}")

    open_page("connect?tool=curl")
    capture(page, "connect")
    open_page("settings/tokens/new")
    page.get_by_label("Name").fill("Nightly warehouse load")
    page.get_by_role("button", name="Create token").click()
    page.locator("#token-value").wait_for()
    capture(page, "token-created")
    open_page("settings/tokens")
    capture(page, "tokens")
    webhook_pages(page, open_page, capture)
    for path in ("settings/notifications", "settings/display", "settings/security", "activity"):
        open_page(path)
        capture(page, path.removeprefix("settings/"))
    open_page("insight")
    page.locator(".chart path").first.wait_for()
    capture(page, "insight")
    capture(page, "charts", page.get_by_role("region", name="Member growth"))
    page.get_by_role("link", name="Show all").click()
    page.locator("tbody a").first.click()
    page.get_by_role("heading", name="Message usage").wait_for()
    capture(page, "campaign")
    open_page("files")
    capture(page, "files")
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="Kita").wait_for()
    capture(page, "palette")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Preview of Member Details").click()
    page.locator("dialog table.data").wait_for()
    capture(page, "preview")
    agency = sign_in(browser, base, directory.AGENCY)
    agency.locator(".switcher summary").click()
    agency.get_by_label("Search accounts").fill("01")
    agency.wait_for_timeout(1000)
    capture(agency, "switcher")


def webhook_pages(page: Page, open_page: Callable[[str], None], capture: Capture) -> None:
    """Capture a webhook with one delivery."""
    with Receiver().running() as receiver:
        open_page("settings/webhooks/new")
        page.get_by_label("URL").fill(receiver.url("/events"))
        page.get_by_role("button", name="Create webhook").click()
        page.get_by_role("link", name="Done").click()
        page.get_by_role("button", name="Send test event").click()
        page.locator(".delivery .tag", has_text="delivered").wait_for()
        page.reload()
        page.get_by_text("1 attempt").click()
        capture(page, "webhook")


def operator_pages(browser: Browser, base: str, state: SqliteState, capture: Capture) -> None:
    """Capture the operator pages, with a run under way and a held one."""
    now = datetime.now(UTC)
    held = snapshots.add_held(state, now)
    snapshots.add_building(state, now)
    page = sign_in(browser, base, directory.OPERATOR)
    for path, name in (
        ("runs", "runs"),
        (f"runs/{held}", "held-run"),
        ("freshness", "freshness"),
        ("people?q=o", "people"),
        (f"accounts/{directory.NORTHLIGHT}", "account"),
        (f"seats/{directory.id_of(directory.OWNER)}", "seat"),
        ("consumers", "consumers"),
        ("nodes", "nodes"),
    ):
        page.goto(f"{base}/dashboard/operator/{path}")
        capture(page, name)


def late_pages(browser: Browser, base: str, state: SqliteState, capture: Capture) -> None:
    """Capture late, failed and held files, and the strip on another page."""
    now = datetime.now(UTC)
    day = last_due(now, time_of_day(4))
    page = sign_in(browser, base, directory.OWNER)
    files = f"{base}/dashboard/{directory.NORTHLIGHT}/files"
    page.goto(files)
    capture(page, "late")
    for outcome, name in ((SnapshotState.FAILED, "failed"), (SnapshotState.HELD, "held")):
        end_day(state, day, now, outcome)
        page.goto(files)
        capture(page, name)
    page.goto(f"{base}/dashboard/{directory.NORTHLIGHT}/settings/tokens")
    capture(page, "strip")


def end_day(state: SqliteState, day: date, now: datetime, outcome: SnapshotState) -> None:
    """Add a run that failed or is held."""
    snapshot_id, fence = snapshots.begin_day(state, day, now)
    report = RunReport(code="source_error" if outcome is SnapshotState.FAILED else None)
    state.write(lambda stores: stores.snapshots.finish(snapshot_id, fence, outcome, now, report=report))


def new_service_pages(browser: Browser, base: str, state: SqliteState, capture: Capture) -> None:
    """Capture a service without files, and its first run."""
    now = datetime.now(UTC)
    page = sign_in(browser, base, directory.OWNER)
    files = f"{base}/dashboard/{directory.NORTHLIGHT}/files"
    page.goto(files)
    capture(page, "not-published")
    snapshots.begin_day(state, last_due(now, time_of_day(4)), now)
    page.goto(files)
    capture(page, "first-run")


if __name__ == "__main__":
    main()
