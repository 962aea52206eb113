"""Single sign-on with a real provider, in a browser."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from playwright.sync_api import Page, expect

from daybreak.domain.audit import AuditEvent
from tests.acceptance.conftest import new_installation
from tests.acceptance.dashboard.conftest import ignore_failed_loads
from tests.acceptance.installation import CARL, DREW, IVAN, MAYA, NORTH, TWIN, VAULT, VIC, seat_id
from tests.acceptance.service import Service, serving
from tests.parts.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, oidc_provider
from tests.parts.ports import free_port
from tests.parts.warm import daybreakd

BUTTON = "Sign in with Example ID"


@dataclass(frozen=True)
class SingleSignOn:
    """A service and its provider."""

    service: Service
    provider: OidcProvider

    def open(self, page: Page, user: str, *, path: str = "/dashboard/") -> None:
        """Open a page, and sign in at the provider."""
        page.goto(self.service.base_url + path)
        page.get_by_role("link", name=BUTTON).click()
        self.log_in(page, user)

    def log_in(self, page: Page, user: str) -> None:
        """Fill in the form of the provider."""
        page.get_by_label("User").fill(user)
        page.get_by_role("button", name="Log in").click()

    def run(self, *arguments: str, check: bool = True, environment: Mapping[str, str] | None = None) -> str:
        """Run `daybreakd` with the configuration of the service, and return its output."""
        file = self.service.installation.folder / "daybreak.toml"
        done = daybreakd(*arguments, "--config", file, environment=environment)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def events(self, action: str) -> list[AuditEvent]:
        """Return the audit events of an action, newest first."""
        return self.service.installation.events(action=action, newest_first=True)


def single_sign_on(folder: Path, **settings: Any) -> Iterator[SingleSignOn]:
    """Run a service with a provider. `settings` are those of the section `oidc`."""
    installation, port = new_installation(folder), free_port()
    secret = installation.folder / "client-secret"
    secret.touch(mode=0o600)
    secret.write_text(CLIENT_SECRET + "\n")
    values = {
        "oidc.issuer": f"http://127.0.0.1:{port}",
        "oidc.client_id": CLIENT_ID,
        "oidc.client_secret_file": "client-secret",
        "oidc.name": "Example ID",
        **{f"oidc.{name}": value for name, value in settings.items()},
    }
    with (
        serving(installation, workers=1, settings=values) as service,
        oidc_provider(f"{service.base_url}/dashboard/sign-in/oidc/callback", port=port) as provider,
    ):
        yield SingleSignOn(service, provider)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SingleSignOn]:
    """A service that matches seats by email and accepts passwords too."""
    yield from single_sign_on(tmp_path_factory.mktemp("sso"))


@pytest.fixture
def sso(shared: SingleSignOn) -> SingleSignOn:
    """The shared service, with the users of every test."""
    shared.provider.set_users(
        {
            "maya": {"email": MAYA, "email_verified": True},
            "unverified": {"email": VIC, "email_verified": False},
            "stranger": {"email": "stranger@example.org", "email_verified": True},
            "drew": {"email": DREW, "email_verified": True},
            "ivan": {"email": IVAN, "email_verified": True},
        }
    )
    return shared


def test_user_signs_in_and_returns_to_the_page(page: Page, sso: SingleSignOn) -> None:
    sso.open(page, "maya", path=f"/dashboard/{NORTH}/activity?action=login")
    page.wait_for_url(f"**/dashboard/{NORTH}/activity?action=login")
    expect(page.get_by_role("heading", name="Activity")).to_be_visible()
    event = sso.events("login")[0]
    assert (event.result, event.seat_id) == ("ok", seat_id(MAYA))
    assert event.details == {"kind": "dashboard", "method": "oidc", "provider": sso.provider.issuer}
    log = sso.service.program.log()
    assert "/dashboard/sign-in/oidc/callback" in log
    assert "code=" not in log
    assert "state=" not in log


def test_used_response_leads_back_to_the_session(page: Page, sso: SingleSignOn) -> None:
    """As with the back button, or after another tab has signed in."""
    sso.open(page, "maya")
    page.wait_for_url("**/files")
    page.goto(f"{sso.service.base_url}/dashboard/sign-in/oidc/callback?code=used&state=used")
    page.wait_for_url("**/files")
    assert sso.events("login")[0].result == "no_request"


@pytest.mark.release
@pytest.mark.parametrize(
    ("user", "reason", "text"),
    [
        ("stranger", "no_seat", "has no access to this service"),
        ("unverified", "email_unverified", "has not verified your email address"),
        ("drew", "seat_disabled", "has no access to this service"),
        ("ivan", "no_active_account", "Your seat has no access to an active account yet"),
    ],
)
def test_refused_user_gets_a_page_with_a_way_back(
    user: str, reason: str, text: str, page: Page, sso: SingleSignOn, console_messages: list[str]
) -> None:
    sso.service.installation.change(lambda stores: stores.seats.set_disabled(seat_id(DREW), disabled=True))
    sso.open(page, user, path="/dashboard/")
    expect(page.get_by_text(text)).to_be_visible()
    assert sso.events("login")[0].result == reason
    page.get_by_role("link", name=re.compile("Back to sign-in|Sign in again")).click()
    expect(page.get_by_role("link", name=BUTTON)).to_be_visible()
    ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_canceled_sign_in_leads_back(page: Page, sso: SingleSignOn, console_messages: list[str]) -> None:
    page.goto(sso.service.base_url + "/dashboard/")
    page.get_by_role("link", name=BUTTON).click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Example ID did not confirm the sign-in.")).to_be_visible()
    assert sso.events("login")[0].result == "denied_by_provider"
    ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_provider_confirms_before_secrets_change(page: Page, sso: SingleSignOn) -> None:
    sso.open(page, "maya", path=f"/dashboard/{NORTH}/settings/security")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("heading", name="Confirm your password")).to_be_visible()
    page.get_by_role("link", name="Confirm with Example ID").click()
    # The provider has a session, and asks nevertheless.
    sso.log_in(page, "maya")
    page.wait_for_url(f"**/dashboard/{NORTH}/settings/security")
    page.get_by_role("button", name="Set up").click()
    expect(page.get_by_role("heading", name=re.compile("second factor", re.IGNORECASE))).to_be_visible()
    assert page.locator("#manual-key").count() == 1
    assert sso.events("reauthenticated")[0].details["method"] == "oidc"


@pytest.mark.release
def test_another_user_cannot_confirm(page: Page, sso: SingleSignOn, console_messages: list[str]) -> None:
    sso.open(page, "maya", path=f"/dashboard/{NORTH}/settings/security")
    page.get_by_role("button", name="Set up").click()
    page.get_by_role("link", name="Confirm with Example ID").click()
    sso.log_in(page, "stranger")
    expect(page.get_by_text("You signed in as another user.")).to_be_visible()
    assert sso.events("reauthenticated")[0].result == "another_user"
    ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_sign_in_page_is_accessible_and_works_with_the_keyboard(
    open_page: Callable[..., Page], sso: SingleSignOn, project_folder: Path
) -> None:
    # Without transitions, axe measures final colors.
    page = open_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    page.add_init_script(path=project_folder / "tests/vendored/axe-4.14.1.min.js")
    page.goto(sso.service.base_url + "/dashboard/")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        violations = page.evaluate("() => axe.run().then(done => done.violations.map(each => each.id))")
        assert violations == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name=BUTTON)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("User")).to_be_visible()


def test_cookie_of_the_request_is_private_and_short(page: Page, sso: SingleSignOn) -> None:
    page.goto(sso.service.base_url + "/dashboard/")
    page.get_by_role("link", name=BUTTON).click()
    expect(page.get_by_label("User")).to_be_visible()
    (cookie,) = [each for each in page.context.cookies() if each["name"] == "daybreak-oidc"]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
    assert 0 < cookie["expires"] - time.time() <= 600
    sso.log_in(page, "maya")
    page.wait_for_url("**/files")
    assert [each for each in page.context.cookies() if each["name"] == "daybreak-oidc"] == []


def test_other_sites_cannot_start_a_sign_in(sso: SingleSignOn) -> None:
    address = f"{sso.service.base_url}/dashboard/sign-in/oidc"
    own = {"Sec-Fetch-Site": "same-origin"}
    started = requests.get(address, headers=own, allow_redirects=False, timeout=60)
    assert (started.status_code, started.headers["Location"].partition("?")[0]) == (303, f"{sso.provider.issuer}/auth")
    refused = requests.get(address, headers={"Sec-Fetch-Site": "cross-site"}, allow_redirects=False, timeout=60)
    assert (refused.status_code, refused.headers["Location"]) == (303, "/dashboard/sign-in")
    assert "Set-Cookie" not in refused.headers
    outside = requests.get(f"{address}?next=//evil.example/", allow_redirects=False, timeout=60)
    assert "evil" not in outside.headers["Location"]


def test_secrets_are_not_in_log_and_state_database(page: Page, sso: SingleSignOn) -> None:
    received: list[str] = []
    page.on("request", lambda request: received.append(request.url))
    sso.open(page, "maya")
    page.wait_for_url("**/files")
    (callback,) = [url for url in received if "/callback?" in url]
    (request,) = [url for url in received if url.startswith(f"{sso.provider.issuer}/auth?")]
    values = [parse_qs(urlsplit(callback).query)["code"][0], parse_qs(urlsplit(request).query)["nonce"][0]]
    folder = sso.service.installation.folder
    stored = b"".join(file.read_bytes() for file in folder.glob("state.db*"))
    for value in [*values, CLIENT_SECRET]:
        assert value not in sso.service.program.log()
        assert value.encode() not in stored


@pytest.mark.release
def test_doctor_checks_the_provider(sso: SingleSignOn) -> None:
    found = sso.run("doctor", check=False)
    assert f"ok    single sign-on: {sso.provider.issuer}, 1 key; register the redirect URI" in found
    assert f"{sso.service.base_url}/dashboard/sign-in/oidc/callback" in found
    other = sso.run("doctor", check=False, environment={"DAYBREAK_OIDC__ISSUER": f"{sso.provider.issuer}/"})
    assert "FAULT single sign-on: oidc.issuer: the provider names itself" in other
    port = free_port()
    down = sso.run("doctor", check=False, environment={"DAYBREAK_OIDC__ISSUER": f"http://127.0.0.1:{port}"})
    assert f"FAULT single sign-on: oidc.issuer: http://127.0.0.1:{port}/" in down


@pytest.fixture(scope="module")
def exclusive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SingleSignOn]:
    """A service without passwords that matches seats by subject and trusts the provider's second factor."""
    folder = tmp_path_factory.mktemp("exclusive")
    yield from single_sign_on(folder, match="subject", password_login=False, trust_second_factor=True)


@pytest.mark.release
def test_only_bound_users_sign_in_by_subject(page: Page, exclusive: SingleSignOn, console_messages: list[str]) -> None:
    exclusive.provider.set_users({"maya": {"email": MAYA, "email_verified": True}})
    exclusive.open(page, "maya")
    expect(page.get_by_text("has no access to this service")).to_be_visible()
    event = exclusive.events("login")[0]
    assert (event.result, event.details["identity"]) == ("no_seat", "maya")
    exclusive.run("seat", "bind", MAYA, "maya")
    page.context.clear_cookies()
    exclusive.open(page, "maya")
    page.wait_for_url("**/files")
    assert "maya" in exclusive.run("seat", "list")
    exclusive.run("seat", "unbind", MAYA)
    page.reload()
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_passwords_are_refused_where_single_sign_on_replaces_them(page: Page, exclusive: SingleSignOn) -> None:
    refused = exclusive.service.log_in(MAYA)
    assert (refused.status_code, refused.json()["code"]) == (403, "password_login_disabled")
    assert exclusive.service.log_in("stranger@example.org").json()["code"] == "password_login_disabled"
    page.goto(exclusive.service.base_url + "/dashboard/")
    expect(page.get_by_role("link", name=BUTTON)).to_be_visible()
    expect(page.get_by_label("Password")).to_have_count(0)


@pytest.mark.release
def test_trusted_second_factor_is_accepted(page: Page, exclusive: SingleSignOn) -> None:
    exclusive.provider.set_users({"carl": {"amr": ["pwd", "mfa"]}, "twin": {}})
    exclusive.run("seat", "bind", CARL, "carl")
    exclusive.open(page, "carl", path=f"/dashboard/{VAULT}/settings/security")
    page.wait_for_url(f"**/dashboard/{VAULT}/settings/security")
    expect(page.get_by_role("heading", name="Security")).to_be_visible()
    expect(page.get_by_role("heading", name="Password", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Set up again").click()
    expect(page.get_by_role("heading", name="Confirm your identity")).to_be_visible()
    expect(page.get_by_label("Password")).to_have_count(0)
    exclusive.run("seat", "bind", TWIN, "twin")
    page.context.clear_cookies()
    exclusive.open(page, "twin")
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()
