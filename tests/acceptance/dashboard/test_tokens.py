"""API tokens and the password prompt."""

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from daybreak.domain.identity import ApiToken
from daybreak.state.stores import Stores
from tests.acceptance.dashboard.conftest import Service, confirm_password, ignore_failed_loads, unique
from tests.acceptance.dashboard.sample import directory


def _create(page: Page, service: Service, name: str, client_id: str = directory.NORTHLIGHT) -> str:
    page.goto(service.account(client_id, "settings/tokens/new"))
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create token").click()
    return page.locator("#token-value").inner_text().strip()


def test_token_is_shown_once_and_can_be_revoked(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=None)
    nightly = unique("Nightly")
    secret = _create(page, service, f"{nightly} {directory.HOSTILE[:40]}")
    assert re.fullmatch(r"service_api_[0-9A-Za-z]{38}", secret)
    address = re.search(r"http://\S+", page.locator("#curl-3").inner_text())
    assert address is not None
    request = urllib.request.Request(address[0], headers={"Authorization": f"Bearer {secret}"})
    with urllib.request.urlopen(request, timeout=60) as found:
        assert found.read(2) == b"\x1f\x8b"
    page.reload()
    expect(page.get_by_role("heading", name=re.compile(nightly))).to_be_visible()
    assert secret not in page.content()
    page.get_by_role("link", name="API tokens", exact=True).last.click()
    row = page.get_by_role("row", name=re.compile(nightly))
    expect(row).to_contain_text(f"…{secret[-4:]}")
    expect(row).to_contain_text(directory.OWNER)
    expect(row).to_contain_text("just now")
    page.go_back()
    assert secret not in page.content(), "the token was shown again"
    page.goto(service.account(directory.NORTHLIGHT, "settings/tokens"))
    page.get_by_role("link", name=re.compile(f"Revoke {nightly}")).click()
    page.get_by_role("button", name="Revoke token").click()
    expect(page.get_by_text("Token revoked.")).to_be_visible()
    assert "done" not in page.url
    page.reload()
    expect(page.get_by_role("heading", name="API tokens")).to_be_visible()
    expect(page.get_by_text("Token revoked.")).to_have_count(0)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=60)


def test_token_can_send_texts(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "settings/tokens/new"))
    page.get_by_label("Name").fill(unique("Parsons"))
    page.get_by_label("Files", exact=True).select_option("Text, compressed in transfer")
    page.get_by_role("button", name="Create token").click()
    secret = page.locator("#token-value").inner_text().strip()
    address = re.search(r"http://\S+", page.locator("#curl-3").inner_text())
    assert address is not None
    headers = {"Authorization": f"Bearer {secret}", "Accept-Encoding": "gzip"}
    with urllib.request.urlopen(urllib.request.Request(address[0], headers=headers), timeout=90) as found:
        assert found.headers["Content-Encoding"] == "gzip"


@pytest.mark.release
def test_error_of_a_choice_is_described(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as(address=None)
    for label, hint in (("Expires", ""), ("Files", "Choose text for a program")):
        page.goto(service.account(directory.NORTHLIGHT, "settings/tokens/new"))
        page.get_by_label("Name").fill("altered")
        choice = page.get_by_label(label, exact=True)
        choice.evaluate("select => { select.selectedOptions[0].value = 'altered'; }")
        page.get_by_role("button", name="Create token").click()
        expect(choice).to_have_accessible_description(re.compile(f"^Choose an option from the list. ?{hint}"))
        expect(choice).to_have_attribute("aria-invalid", "true")
    ignore_failed_loads(console_messages, 400)


@pytest.mark.release
def test_form_sent_twice_creates_one_token(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=None)
    twice, again = unique("Twice"), unique("Sent again")
    page.goto(service.account(directory.KITA, "settings/tokens/new"))
    page.get_by_label("Name").fill(twice)
    page.get_by_role("button", name="Create token").dblclick()
    expect(page.locator("#token-value")).to_be_visible()
    # Without the script, the server rejects the second submission.
    page.goto(service.account(directory.KITA, "settings/tokens/new"))
    csrf = page.locator("form[action$='tokens/new'] [name=csrf]").input_value()
    form: dict[str, Any] = {"csrf": csrf, "name": again, "expiry": "30"}
    address = service.account(directory.KITA, "settings/tokens/new")
    first = page.request.post(address, form=form)
    second = page.request.post(address, form=form)
    assert "service_api_" in first.text()
    assert "service_api_" not in second.text()
    assert "This form was already sent" in second.text()
    page.goto(service.account(directory.KITA, "settings/tokens"))
    expect(page.get_by_role("rowheader", name=twice)).to_have_count(1)
    expect(page.get_by_role("rowheader", name=again)).to_have_count(1)


def test_password_is_required_before_a_secret(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as(address=None)
    service.age_password(directory.OWNER)
    page.goto(service.account(directory.NORTHLIGHT, "settings/tokens/new?name=kept"))
    expect(page.get_by_role("heading", name="Confirm your password")).to_be_visible()
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("The password is wrong.")
    confirm_password(page)
    expect(page.get_by_label("Name")).to_have_value("kept")
    page.get_by_label("Name").fill("")
    page.locator("#f-name").evaluate("field => { field.required = false; }")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_role("alert")).to_contain_text("Use 1 to 80 characters")
    ignore_failed_loads(console_messages, 400, 401)


def test_polling_keeps_typed_text_and_a_secret(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.CHANGER, address=None)
    page.clock.install()
    page.goto(service.account(directory.KITA, "settings/tokens/new"))
    page.get_by_label("Name").fill("polled")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#token-value")).to_contain_text("service_api_")
    token = page.context.new_page()
    token.clock.install()
    token.goto(service.account(directory.KITA, "settings/tokens"))
    token.get_by_role("link", name="polled").first.click()
    token.get_by_label("Allowed addresses").fill("203.0.113.0/24")
    service.end_sessions(directory.CHANGER)
    for each in (page, token):
        with each.expect_response("**/first-use") as polled:
            each.clock.fast_forward(2000)
        assert "sign-in" in polled.value.headers["daybreak-location"]
    expect(page.locator("#token-value")).to_be_visible()
    token.get_by_role("button", name="Save").click()
    token.wait_for_url("**/sign-in?next=*203.0.113.0*")


def test_missing_permission_names_the_operator(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.ANALYST, address=service.account(directory.NORTHLIGHT, "settings/tokens"))
    expect(page.get_by_text("No Async REST API access")).to_be_visible()
    expect(page.get_by_text("Contact: data@northlight.example")).to_be_visible()
    assert page.get_by_role("link", name="Create token").count() == 0


def test_long_list_of_tokens_is_shown_in_pages(sign_in_as: Callable[..., Page], service: Service) -> None:
    now = datetime.now(UTC)
    seat_id, client_id = directory.id_of(directory.AGENCY), directory.AGENCY_IDS[3]

    def add(stores: Stores) -> None:
        for number in range(60):
            name, created_at = f"Token {number}", now - timedelta(hours=number)
            token_id, digest = directory.id_of(name), f"{number:064x}"
            stores.api_tokens.add(ApiToken(token_id, digest, seat_id, client_id, name, "wxyz", created_at))

    service.state.write(add)
    page = sign_in_as(directory.AGENCY, address=service.account(client_id, "settings/tokens"))
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Next").click()
    expect(page.locator("tbody tr")).to_have_count(10)
    expect(page.get_by_role("link", name="Token 59", exact=True)).to_be_visible()
