"""Pictures of every page of the dashboard, in light, dark and on a phone, into docs/images/.

Serves the stage of the browser tests and looks at it with the system's Chromium. Needs pngquant for small files, and
fonts for the scripts in the sample texts (Debian: pngquant fonts-noto-cjk fonts-noto-color-emoji).

    python tools/screenshots.py [NAME ...]      only the pages of those names
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright  # noqa: E402

from daybreak.credentials import totp  # noqa: E402
from daybreak.state.sqlite_state import SqliteState  # noqa: E402
from tests.acceptance.dashboard import stage  # noqa: E402
from tests.parts.browser import QUIET, chromium_path  # noqa: E402
from tests.parts.processes import running  # noqa: E402
from tests.parts.waiting import free_port  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDE: ViewportSize = {"width": 1200, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 800}
Shoot = Callable[[Page, str], None]


def main() -> None:
    """Takes the pictures that are named, all without names."""
    pngquant = shutil.which("pngquant")
    if pngquant is None:
        sys.exit("pngquant is missing: apt-get install pngquant")
    wanted = set(sys.argv[1:])
    taken: list[Path] = []

    def shoot(page: Page, name: str) -> None:
        if wanted and name not in wanted:
            return
        for look, scheme, size in (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE)):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
            # Charts are drawn anew for the new width and colours.
            page.wait_for_timeout(500)
            path = IMAGES / f"{name}-{look}.png"
            page.screenshot(path=path, animations="disabled")
            taken.append(path)
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")

    IMAGES.mkdir(parents=True, exist_ok=True)
    with served() as (base, state), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=QUIET)
        before_the_door(browser, base, shoot)
        account_pages(browser, base, shoot)
        operator_pages(browser, base, state, shoot)
        browser.close()
    for path in taken:
        subprocess.run(
            [pngquant, "--force", "--skip-if-larger", "--strip", "--speed=1", "--ext=.png", path], check=False
        )
    print(f"{len(taken)} pictures, {sum(path.stat().st_size for path in taken):,} bytes")


@contextmanager
def served() -> Iterator[tuple[str, SqliteState]]:
    """The stage with a week of snapshots: its address and its state database."""
    with tempfile.TemporaryDirectory(prefix="daybreak-stage-") as folder:
        port = free_port()
        command = [sys.executable, "-m", "tests.acceptance.dashboard.stage", folder, str(port), "4", "2600", "7"]
        with running(command, folder=ROOT) as program:
            program.wait_for_log("ready", 120)
            state = SqliteState(Path(folder) / "state.db")
            try:
                yield f"http://127.0.0.1:{port}", state
            finally:
                state.close()


def visitor(browser: Browser, base: str, email: str) -> Page:
    """A page on which somebody has given email and password."""
    context: BrowserContext = browser.new_context(viewport=WIDE)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{base}/dashboard/sign-in")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(stage.PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
    return page


def before_the_door(browser: Browser, base: str, shoot: Shoot) -> None:
    """Signing in, the second factor, its enrolment and the recovery codes."""
    page = browser.new_context(viewport=WIDE).new_page()
    page.goto(f"{base}/dashboard/sign-in")
    shoot(page, "sign-in")
    shoot(visitor(browser, base, stage.CAREFUL), "second-factor")
    page = visitor(browser, base, stage.NEWCOMER)
    page.locator(".qr svg").wait_for()
    shoot(page, "enrolment")
    seed = stage.seed_of(page.locator("#manual-key").inner_text())
    page.get_by_label("Six-digit code").fill(totp.code_at(seed, int(time.time()) // totp.STEP_SECONDS))
    page.get_by_role("button", name="Confirm").click()
    page.locator("#recovery-codes").wait_for()
    shoot(page, "recovery-codes")


def account_pages(browser: Browser, base: str, shoot: Shoot) -> None:
    """What account people see."""
    page = visitor(browser, base, stage.OWNER)

    def visit(path: str) -> None:
        page.goto(f"{base}/dashboard/{stage.NORTHLIGHT}/{path}")

    visit("settings/tokens/new")
    page.get_by_label("Name").fill("Nightly warehouse load")
    page.get_by_role("button", name="Create the token").click()
    page.locator("#token-value").wait_for()
    shoot(page, "token-created")
    visit("settings/tokens")
    shoot(page, "tokens")
    visit("settings/security")
    shoot(page, "security")
    visit("activity")
    shoot(page, "activity")
    visit("insight")
    page.locator(".chart canvas").first.wait_for()
    shoot(page, "insight")
    visit("files")
    shoot(page, "files")
    row = page.locator(".resource", has_text="Member Details")
    row.get_by_text("Preview, columns, curl").click()
    row.get_by_role("link", name="Show the first 50 rows").click()
    row.locator("table.data").wait_for()
    row.evaluate("row => row.scrollIntoView()")
    shoot(page, "preview")
    agency = visitor(browser, base, stage.AGENCY)
    agency.locator(".switcher summary").click()
    agency.get_by_label("Search accounts").fill("01")
    agency.wait_for_timeout(1000)
    shoot(agency, "switcher")


def operator_pages(browser: Browser, base: str, state: SqliteState, shoot: Shoot) -> None:
    """What operators see, with a run under way and one that is held."""
    now = datetime.now(UTC)
    held = stage.add_held(state, now)
    stage.add_building(state, now)
    page = visitor(browser, base, stage.OPERATOR)
    for path, name in (
        ("runs", "runs"),
        (f"runs/{held}", "held-run"),
        ("freshness", "freshness"),
        ("people?q=o", "people"),
        ("nodes", "nodes"),
    ):
        page.goto(f"{base}/dashboard/operator/{path}")
        shoot(page, name)


if __name__ == "__main__":
    main()
