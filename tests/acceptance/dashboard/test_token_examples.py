"""The page of a token: examples that are pasted and run, the line about the first request, and the tabs."""

import os
import re
import shutil
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from playwright.sync_api import Page, expect

from daybreak.domain.identity import ApiToken
from daybreak.state.stores import Stores
from tests.acceptance.dashboard.axe import PHONE
from tests.acceptance.dashboard.conftest import Service, confirm_password, ignore_failed_loads, sign_in, unique
from tests.acceptance.dashboard.sample import directory
from tests.acceptance.recorded_arguments import record_arguments
from tests.parts.presence import absent

PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class CreatedToken:
    """A token, the page that showed it, and the steps of its examples by tab."""

    secret: str
    page: Page
    steps: dict[str, list[str]]


@dataclass(frozen=True)
class Shell:
    """A folder with programs that record their arguments."""

    folder: Path
    recorded: Path

    def run(self, script: str, secret: str) -> str:
        """Run a script. The token is typed at its first prompt. Returns the output."""
        path = f"{self.recorded.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["bash", "-euc", script], cwd=self.folder, env=environment, input=f"{secret}\n",
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert secret not in self.recorded.read_text("utf-8"), "users of the machine can list the arguments"
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An empty folder for the downloads of an example."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    recorded = record_arguments(tmp_path / "programs", path)
    folder = tmp_path / "work"
    folder.mkdir()
    return Shell(folder, recorded)


@pytest.fixture
def created(sign_in_as: Callable[..., Page], service: Service) -> CreatedToken:
    """A new token of the owner."""
    return _create(sign_in_as(address=None), service)


def _create(page: Page, service: Service, name: str = "") -> CreatedToken:
    page.goto(service.account(directory.NORTHLIGHT, "settings/tokens/new"))
    page.get_by_label("Name").fill(name or unique("Examples"))
    page.get_by_role("button", name="Create token").click()
    secret = page.locator("#token-value").inner_text().strip()
    tabs = page.locator(".tabset > input").evaluate_all("inputs => inputs.map(each => each.value)")
    # Panels of other tabs are hidden: their text content is what the buttons copy.
    steps = {tab: [text.strip() for text in page.locator(f"pre[id^='{tab}-']").all_text_contents()] for tab in tabs}
    assert all(steps.values())
    assert not [text for texts in steps.values() for text in texts if secret in text]
    return CreatedToken(secret, page, steps)


def _program(interpreter: str, text: str) -> str:
    return f"{interpreter} <<'END_OF_PROGRAM'\n{text}\nEND_OF_PROGRAM"


def test_curl_example_runs(created: CreatedToken, shell: Shell) -> None:
    shell.run("\n".join(created.steps["curl"]), created.secret)
    assert (shell.folder / "campaigns.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert stat.S_IMODE((shell.folder / "daybreak-token.txt").stat().st_mode) == 0o600


@pytest.mark.release
def test_python_example_runs(created: CreatedToken, shell: Shell) -> None:
    enter, program = created.steps["python"]
    shell.run(f"{enter}\n{_program('python3 -', program)}", created.secret)
    assert (shell.folder / "campaigns.csv.gz").read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.release
def test_r_example_runs(created: CreatedToken, shell: Shell) -> None:
    if shutil.which("Rscript") is None:
        absent("R", "apt-get install r-base-core")
    enter, program = created.steps["r"]
    assert "CAMPAIGN_ID" in shell.run(f"{enter}\n{_program('Rscript -', program)}", created.secret)


@pytest.mark.release
def test_duckdb_example_runs(created: CreatedToken, shell: Shell) -> None:
    *commands, program = created.steps["duckdb"]
    output = shell.run("\n".join([*commands, _program("python3 -", program)]), created.secret)
    assert "CAMPAIGN_ID" in output


@pytest.mark.release
def test_sync_example_runs(created: CreatedToken, shell: Shell) -> None:
    shell.run("\n".join(created.steps["sync"]), created.secret)
    with duckdb.connect(str(shell.folder / "daybreak.duckdb"), read_only=True) as database:
        ((rows,),) = database.sql("SELECT count(*) FROM campaigns").fetchall()
    assert rows > 0
    assert len(list((shell.folder / "exports").glob("*.csv.gz"))) == 9


@pytest.mark.release
def test_powershell_example_runs(created: CreatedToken, shell: Shell) -> None:
    if shutil.which("pwsh") is None:
        pytest.skip("PowerShell is not installed, and not part of Debian")
    _, program = created.steps["powershell"]
    enter = created.steps["curl"][0]
    shell.run(f"{enter}\n{_program('pwsh -NoProfile -Command -', program)}", created.secret)
    assert (shell.folder / "campaigns.csv.gz").read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.release
def test_line_turns_green_after_the_first_request(created: CreatedToken, shell: Shell, service: Service) -> None:
    page = created.page
    expect(page.get_by_text("Waiting for the first request.")).to_be_visible()
    shell.run("\n".join(created.steps["curl"]), created.secret)
    expect(page.get_by_text("First request received.")).to_be_visible()
    expect(page.locator("#first-use")).to_have_class(re.compile("used"))
    expect(page.locator("#token-value")).to_have_text(created.secret)
    page.reload()
    expect(page.get_by_text("First request received.")).to_be_visible()
    assert created.secret not in page.content()
    assert page.url.startswith(service.account(directory.NORTHLIGHT, "settings/tokens/"))


@pytest.mark.release
def test_polling_does_not_keep_the_session_open(created: CreatedToken, service: Service) -> None:
    """Only the page itself counts as activity."""
    page = created.page
    seat_id = directory.id_of(directory.OWNER)

    def last_use() -> datetime:
        sessions = service.state.read(lambda stores: stores.sessions.list_open(seat_id, datetime.now(UTC)))
        return max(session.last_used_at for session, _ in sessions)

    earlier = datetime.now(UTC) - timedelta(minutes=10)

    def age_sessions(stores: Stores) -> None:
        now = datetime.now(UTC)
        for session, _ in stores.sessions.list_open(seat_id, now):
            stores.sessions.record_activity(session.sid, earlier, not_after=now)

    service.state.write(age_sessions)
    with page.expect_response(re.compile("/first-use$")) as polled:
        pass
    assert polled.value.status == 204
    assert last_use() == earlier


@pytest.mark.release
def test_tabs_move_with_the_arrow_keys(created: CreatedToken) -> None:
    page = created.page
    expect(page.locator("#curl-1")).to_be_visible()
    page.get_by_role("radio", name="curl").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Python")).to_be_focused()
    expect(page.locator("#python-1")).to_be_visible()
    expect(page.locator("#curl-1")).to_be_hidden()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("radio", name="daybreak sync")).to_be_focused()
    expect(page.locator("#sync-1")).to_be_visible()


@pytest.fixture
def plain_page(open_page: Callable[..., Page], service: Service) -> Page:
    """A signed-in page without JavaScript."""
    page = open_page(java_script_enabled=False)
    sign_in(page, service, directory.OWNER)
    page.wait_for_url("**/files")
    return page


@pytest.mark.release
def test_page_works_without_javascript(plain_page: Page, service: Service, shell: Shell) -> None:
    created = _create(plain_page, service)
    plain_page.locator("label", has_text="PowerShell").click()
    expect(plain_page.locator("#powershell-1")).to_be_visible()
    expect(plain_page.locator("#curl-1")).to_be_hidden()
    plain_page.get_by_role("link", name="Open the page of the token").click()
    expect(plain_page.get_by_text("Waiting for the first request.")).to_be_visible()
    shell.run("\n".join(created.steps["curl"]), created.secret)
    plain_page.reload()
    expect(plain_page.get_by_text("First request received.")).to_be_visible()


@pytest.mark.release
def test_token_can_be_renamed(sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]) -> None:
    page = sign_in_as(address=None)
    before, after = unique("Before"), unique("After")
    _create(page, service, before)
    page.get_by_role("link", name="Done").click()
    page.get_by_role("link", name=before, exact=True).click()
    page.get_by_label("Name").fill("  ")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Use 1 to 80 characters")
    ignore_failed_loads(console_messages, 400)
    page.get_by_label("Name").fill(after)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Token changed.")).to_be_visible()
    expect(page.get_by_role("heading", name=after)).to_be_visible()
    page.goto(service.account(directory.NORTHLIGHT, "activity"))
    expect(page.get_by_role("row", name=re.compile(f"API token renamed.*{after}")).first).to_be_visible()


@pytest.mark.release
def test_addresses_of_a_token_are_limited(
    sign_in_as: Callable[..., Page], service: Service, shell: Shell, console_messages: list[str]
) -> None:
    page = sign_in_as(address=None)
    name = unique("Office")
    page.goto(service.account(directory.NORTHLIGHT, "settings/tokens/new"))
    page.get_by_label("Name").fill(name)
    page.get_by_label("Allowed addresses").fill("203.0.113.9/24")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("alert")).to_contain_text("203.0.113.9/24 is an address within a network.")
    page.get_by_label("Allowed addresses").fill("203.0.113.0/24, 2001:db8::/32")
    page.get_by_role("button", name="Create token").click()
    secret = page.locator("#token-value").inner_text().strip()
    address = re.search(r"http://\S+", page.locator("#curl-3").inner_text())
    assert address is not None
    request = urllib.request.Request(address[0], headers={"Authorization": f"Bearer {secret}"})
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
    assert '"address_not_allowed"' in refused.value.read().decode()
    page.get_by_role("link", name="Done").click()
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_text("203.0.113.0/24, 2001:db8::/32")).to_be_visible()
    page.set_viewport_size(PHONE)
    page.get_by_role("link", name="API tokens", exact=True).last.click()
    expect(page.get_by_text(f"…{secret[-4:]}")).to_be_visible()
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_text("Your address is 127.0.0.1.")).to_be_visible()
    service.age_password(directory.OWNER)
    page.get_by_label("Allowed addresses").fill("127.0.0.0/8\n::1")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Confirm your password")).to_be_visible()
    confirm_password(page)
    expect(page.get_by_text("Nothing was saved yet.")).to_be_visible()
    expect(page.get_by_label("Allowed addresses")).to_have_value("127.0.0.0/8\n::1")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Token changed.")).to_be_visible()
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as found:
        assert found.read(2) == b"\x1f\x8b"
    page.goto(service.account(directory.NORTHLIGHT, "activity"))
    for text in (f"Allowed addresses of an API token changed.*{name}", f"API token refused.*{name}"):
        expect(page.get_by_role("row", name=re.compile(text)).first).to_be_visible()
    ignore_failed_loads(console_messages, 400)


@pytest.mark.release
def test_many_addresses_survive_sign_in_and_password_prompt(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as(address=None)
    networks = "\n".join(f"2001:db8:{number:x}:ffff::/64" for number in range(40))
    page.goto(service.account(directory.KITA, "settings/tokens/new"))
    page.get_by_label("Name").fill(unique("Many"))
    page.get_by_label("Allowed addresses").fill(networks)
    service.age_password(directory.OWNER)
    page.get_by_role("button", name="Create token").click()
    confirm_password(page)
    expect(page.get_by_label("Allowed addresses")).to_have_value(networks)
    page.get_by_label("Allowed addresses").fill("\n".join(networks.replace("ffff", part) for part in "abcd"))
    service.end_sessions(directory.OWNER)
    page.get_by_role("button", name="Create token").click()
    sign_in_again(page)
    field = page.get_by_label("Allowed addresses")
    expect(field).to_have_value(re.compile("…$"))
    page.get_by_role("button", name="Create token").click()
    # Once above the form, and once at the field.
    expect(page.get_by_text("is not an address or a network")).to_have_count(2)
    ignore_failed_loads(console_messages, 400)


def sign_in_again(page: Page) -> None:
    page.get_by_label("Email").fill(directory.OWNER)
    page.get_by_label("Password").fill(directory.PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_badges_name_the_days_until_expiry(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=None)
    now = datetime.now(UTC)
    names = {}
    for days, badge in ((1.5, "expires in 2 days"), (9.5, "expires in 10 days"), (-1, "expired"), (60, "")):
        names[badge] = unique("Badge")
        token = ApiToken(
            token_id=directory.id_of(names[badge]), digest=names[badge], seat_id=directory.id_of(directory.OWNER),
            client_id=directory.KITA, name=names[badge], last_four="aaaa", created_at=now - timedelta(days=2),
            expires_at=now + timedelta(days=days), created_by_email=directory.OWNER,
        )  # fmt: skip
        service.state.write(lambda stores, token=token: stores.api_tokens.add(token))  # type: ignore[misc]
    page.goto(service.account(directory.KITA, "settings/tokens"))
    for badge, name in names.items():
        row = page.get_by_role("row", name=re.compile(name))
        expect(row.locator(".tag")).to_have_text([badge] if badge else [])
