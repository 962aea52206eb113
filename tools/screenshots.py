"""Take screenshots of every page of the dashboard into docs/images/: light, dark and on a phone.

Serves the sample data of the browser tests and opens it with the system's Chromium. Needs pngquant, and fonts for the
scripts in the sample texts (Debian: pngquant fonts-noto-cjk fonts-noto-color-emoji).

    python tools/screenshots.py [NAME ...]      take only the named ones
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from datetime import time as time_of_day
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, sync_playwright  # noqa: E402

from daybreak.credentials import totp  # noqa: E402
from daybreak.domain.run_report import RunReport  # noqa: E402
from daybreak.domain.snapshot import SnapshotState  # noqa: E402
from daybreak.snapshots.schedule import last_due  # noqa: E402
from daybreak.state.sqlite_state import SqliteState  # noqa: E402
from tests.acceptance.dashboard.sample import directory, snapshots  # noqa: E402
from tests.acceptance.dashboard.sample.service import MAIL_URL_VARIABLE  # noqa: E402
from tests.parts.browser import CHROMIUM_OPTIONS, chromium_path  # noqa: E402
from tests.parts.ports import free_port  # noqa: E402
from tests.parts.processes import running  # noqa: E402
from tests.parts.webhook_receiver import Receiver  # noqa: E402

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
        for variant, scheme, size in (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE)):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
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
    with served() as (base, state), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_OPTIONS)
        public_pages(browser, base, capture)
        account_pages(browser, base, capture)
        operator_pages(browser, base, state, capture)
        browser.close()
    with served(days_late=1) as (base, state), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_OPTIONS)
        late_pages(browser, base, state, capture)
        browser.close()
    with served(days=0) as (base, state), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_OPTIONS)
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
    open_page("settings/notifications")
    capture(page, "notifications")
    open_page("settings/display")
    capture(page, "display")
    open_page("settings/security")
    capture(page, "security")
    open_page("activity")
    capture(page, "activity")
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
        snapshot_id, fence = snapshots.begin_day(state, day, now)
        report = RunReport(code="source_error" if outcome is SnapshotState.FAILED else None)
        finish_run(state, snapshot_id, fence, outcome, now, report)
        page.goto(files)
        capture(page, name)
    page.goto(f"{base}/dashboard/{directory.NORTHLIGHT}/settings/tokens")
    capture(page, "strip")


def finish_run(
    state: SqliteState, snapshot_id: str, fence: int, outcome: SnapshotState, now: datetime, report: RunReport
) -> None:
    """End a run."""
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
