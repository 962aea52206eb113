"""Passkeys in Chromium, with virtual authenticators: adding, signing in, renaming, removing, and failures."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, Route, expect

from daybreak.credentials import totp
from daybreak.domain.audit import AuditQuery
from daybreak.domain.identity import Passkey
from tests.acceptance.dashboard.conftest import Service, confirm_password, post_form, sign_in_without_form
from tests.acceptance.dashboard.sample import directory

SEAT = directory.id_of(directory.KEEPER)


@dataclass(frozen=True)
class Authenticator:
    """A virtual authenticator of a page (Chrome DevTools Protocol, domain WebAuthn)."""

    session: CDPSession
    authenticator_id: str

    def send(self, command: str, **parameters: Any) -> dict[str, Any]:
        sent: dict[str, Any] = {"authenticatorId": self.authenticator_id, **parameters}
        answer: dict[str, Any] = self.session.send(f"WebAuthn.{command}", sent)
        return answer

    def credentials(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.send("getCredentials")["credentials"]
        return found


def add_authenticator(page: Page) -> Authenticator:
    """Connect an authenticator to the page, which confirms every request."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": True,
    }  # fmt: skip
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return Authenticator(session, added["authenticatorId"])


def sign_in_with_code(page: Page, service: Service) -> None:
    """Sign in with the current code of the authenticator app, through requests."""
    sign_in_without_form(page, service, directory.KEEPER)
    code = totp.code_at(directory.SEED, int(time.time()) // 30)
    assert post_form(page, f"{service.base}/dashboard/second-factor", code=code, next="").status == 303


def add_passkey(page: Page, service: Service, name: str) -> None:
    """Add a passkey, which leads to the security page."""
    page.goto(service.account(directory.KITA, "settings/security/passkeys/new"))
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Add passkey").click()
    expect(page.get_by_text("Passkey added.")).to_be_visible()


def start_login(page: Page, service: Service) -> None:
    """Sign out, and sign in again up to the second factor."""
    page.context.clear_cookies()
    sign_in_without_form(page, service, directory.KEEPER)
    page.goto(f"{service.base}/dashboard/second-factor")
    expect(page.get_by_role("heading", name="Enter your code")).to_be_visible()


def results(service: Service, action: str) -> list[tuple[str, Mapping[str, object]]]:
    """Return result and details of the seat's events of an action, newest first."""
    query = AuditQuery(seat_id=SEAT, action=action, newest_first=True)
    return [(event.result, event.details) for event in service.state.read(lambda stores: stores.audit.read(query))]


@pytest.fixture
def keeper(open_page: Callable[..., Page], service: Service) -> Page:
    """A page of a seat that signed in with an authenticator app."""
    service.reset_seat(directory.KEEPER)
    page = open_page()
    sign_in_with_code(page, service)
    return page


@pytest.mark.release
def test_passkey_is_added_used_renamed_and_removed(keeper: Page, service: Service) -> None:
    authenticator = add_authenticator(keeper)
    add_passkey(keeper, service, "laptop")
    row = keeper.locator("section", has=keeper.get_by_role("heading", name="Passkeys")).locator(".list-row").first
    expect(row).to_contain_text("laptop")
    expect(row).to_contain_text("last used never")
    (credential,) = authenticator.credentials()
    assert credential["rpId"] == "localhost"

    start_login(keeper, service)
    keeper.get_by_role("button", name="Use a passkey").click()
    keeper.wait_for_url("**/files")
    result, details = results(service, "second_factor")[0]
    assert (result, details["proof"], details["name"]) == ("ok", "pop", "laptop")
    (session, _), *_ = service.state.read(lambda stores: stores.sessions.list_open(SEAT, datetime.now(UTC)))
    assert session.amr == ("pwd", "pop")

    keeper.goto(service.account(directory.KITA, "settings/security"))
    expect(row).not_to_contain_text("never")
    keeper.get_by_role("link", name="Rename laptop").click()
    keeper.get_by_label("Name").fill("old laptop")
    keeper.get_by_role("button", name="Rename").click()
    expect(keeper.get_by_text("Passkey renamed.")).to_be_visible()
    expect(row).to_contain_text("old laptop")
    keeper.get_by_role("link", name="Remove old laptop").click()
    keeper.get_by_role("button", name="Remove passkey").click()
    expect(keeper.get_by_text("Passkey removed.")).to_be_visible()
    assert service.state.read(lambda stores: stores.passkeys.list_for(SEAT)) == []
    keeper.goto(service.account(directory.KITA, "activity"))
    for label in ("Passkey added", "Passkey renamed", "Passkey removed"):
        expect(keeper.locator("tbody tr", has_text=label).first).to_contain_text("laptop")

    start_login(keeper, service)
    expect(keeper.get_by_role("button", name="Use a passkey")).to_have_count(0)
    expect(keeper.get_by_label("Six-digit code")).to_be_visible()


@pytest.mark.release
def test_device_with_a_passkey_is_not_registered_twice(keeper: Page, service: Service) -> None:
    add_authenticator(keeper)
    add_passkey(keeper, service, "laptop")
    keeper.get_by_role("link", name="Add passkey").click()
    keeper.get_by_label("Name").fill("laptop again")
    keeper.get_by_role("button", name="Add passkey").click()
    expect(keeper.get_by_text("This device already has a passkey for you.")).to_be_visible()
    assert len(service.state.read(lambda stores: stores.passkeys.list_for(SEAT))) == 1


@pytest.mark.release
def test_other_authenticator_is_refused_and_codes_work(keeper: Page, service: Service) -> None:
    own = add_authenticator(keeper)
    add_passkey(keeper, service, "laptop")
    own.send("removeVirtualAuthenticator")
    add_authenticator(keeper)
    start_login(keeper, service)
    keeper.get_by_role("button", name="Use a passkey").click()
    expect(keeper.get_by_text("No passkey was used")).to_be_visible()
    keeper.get_by_role("link", name="Use recovery code").click()
    expect(keeper.get_by_role("button", name="Use a passkey")).to_have_count(0)
    keeper.get_by_label("Recovery code").fill(directory.RECOVERY_CODE)
    keeper.get_by_role("button", name="Continue").click()
    keeper.wait_for_url("**/files")


@pytest.mark.release
def test_dialog_without_an_answer_ends_with_a_message(keeper: Page, service: Service) -> None:
    authenticator = add_authenticator(keeper)
    add_passkey(keeper, service, "laptop")
    authenticator.send("setAutomaticPresenceSimulation", enabled=False)

    def shorten(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "timeout": 1})

    keeper.route("**/options", shorten)
    keeper.get_by_role("link", name="Add passkey").click()
    keeper.get_by_label("Name").fill("unanswered")
    keeper.get_by_role("button", name="Add passkey").click()
    expect(keeper.get_by_text("No passkey was created")).to_be_visible()
    start_login(keeper, service)
    button = keeper.get_by_role("button", name="Use a passkey")
    button.click()
    expect(keeper.get_by_text("No passkey was used")).to_be_visible()
    keeper.unroute("**/options")
    authenticator.send("setAutomaticPresenceSimulation", enabled=True)
    button.click()
    keeper.wait_for_url("**/files")


@pytest.mark.release
def test_passkeys_need_a_recent_password(keeper: Page, service: Service) -> None:
    add_authenticator(keeper)
    add_passkey(keeper, service, "laptop")
    keeper.get_by_role("link", name="Add passkey").click()
    service.age_password(directory.KEEPER)
    keeper.get_by_label("Name").fill("second")
    keeper.get_by_role("button", name="Add passkey").click()
    expect(keeper.get_by_role("heading", name="Confirm your password")).to_be_visible()
    confirm_password(keeper)
    expect(keeper.get_by_label("Name")).to_have_value("second")
    keeper.goto(service.account(directory.KITA, "settings/security"))
    service.age_password(directory.KEEPER)
    keeper.get_by_role("link", name="Remove laptop").click()
    expect(keeper.get_by_role("heading", name="Confirm your password")).to_be_visible()
    assert len(service.state.read(lambda stores: stores.passkeys.list_for(SEAT))) == 1


def test_passkeys_need_an_authenticator_app(sign_in_as: Callable[..., Page], service: Service) -> None:
    service.reset_seat(directory.ENROLLER)
    page = sign_in_as(directory.ENROLLER, address=service.account(directory.KITA, "settings/security"))
    expect(page.get_by_text("Set up the authenticator app first.")).to_be_visible()
    expect(page.get_by_role("link", name="Add passkey")).to_have_count(0)
    page.goto(service.account(directory.KITA, "settings/security/passkeys/new"))
    page.wait_for_url("**/settings/security")


@pytest.mark.release
def test_browser_without_passkeys_uses_codes(open_page: Callable[..., Page], service: Service) -> None:
    """A browser without JavaScript, and one without WebAuthn."""
    passkey = Passkey("bGFwdG9w", SEAT, "a2V5", 0, "laptop", datetime.now(UTC))
    without_script, without_webauthn = open_page(java_script_enabled=False), open_page()
    without_webauthn.add_init_script("delete window.PublicKeyCredential")
    for page in (without_script, without_webauthn):
        service.reset_seat(directory.KEEPER)
        service.state.write(lambda stores: stores.passkeys.add(passkey))
        start_login(page, service)
        expect(page.get_by_label("Six-digit code")).to_be_visible()
        expect(page.get_by_role("button", name="Use a passkey")).to_be_hidden()
        page.get_by_role("link", name="Use recovery code").click()
        page.get_by_label("Recovery code").fill(directory.RECOVERY_CODE)
        page.get_by_role("button", name="Continue").click()
        page.wait_for_url("**/files")
        page.goto(service.account(directory.KITA, "settings/security/passkeys/new"))
        expect(page.get_by_text("This browser cannot create passkeys.")).to_be_visible()
        expect(page.get_by_role("button", name="Add passkey")).to_be_hidden()


@pytest.mark.release
def test_browser_without_json_methods_works(open_page: Callable[..., Page], service: Service) -> None:
    service.reset_seat(directory.KEEPER)
    page = open_page()
    page.add_init_script(
        "delete PublicKeyCredential.parseCreationOptionsFromJSON;"
        "delete PublicKeyCredential.parseRequestOptionsFromJSON;"
        "delete PublicKeyCredential.prototype.toJSON;"
    )
    sign_in_with_code(page, service)
    add_authenticator(page)
    add_passkey(page, service, "older browser")
    start_login(page, service)
    page.get_by_role("button", name="Use a passkey").click()
    page.wait_for_url("**/files")


@pytest.mark.release
def test_keyboard_reaches_passkeys(keeper: Page, service: Service) -> None:
    add_authenticator(keeper)
    keeper.goto(service.account(directory.KITA, "settings/security"))
    keeper.get_by_role("link", name="Add passkey").press("Enter")
    expect(keeper.get_by_label("Name")).to_be_focused()
    keeper.keyboard.type("keyboard")
    keeper.keyboard.press("Enter")
    expect(keeper.get_by_text("Passkey added.")).to_be_visible()
    start_login(keeper, service)
    expect(keeper.get_by_label("Six-digit code")).to_be_focused()
    keeper.keyboard.press("Tab")
    keeper.keyboard.press("Tab")
    expect(keeper.get_by_role("button", name="Use a passkey")).to_be_focused()
    keeper.keyboard.press("Enter")
    keeper.wait_for_url("**/files")
