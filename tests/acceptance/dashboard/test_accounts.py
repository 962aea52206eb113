"""Account switcher and access to accounts."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.axe import PHONE
from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads
from tests.acceptance.dashboard.sample import directory


@pytest.mark.release
def test_two_tabs_show_two_accounts(sign_in_as: Callable[..., Page], service: Service) -> None:
    first = sign_in_as(address=service.account(directory.NORTHLIGHT))
    second = first.context.new_page()
    second.goto(service.account(directory.KITA))
    first.reload()
    expect(first.locator(".switcher summary")).to_contain_text("Northlight")
    expect(second.locator(".switcher summary")).to_contain_text("Kita")
    for page, name in ((first, "Northlight"), (second, "Kita")):
        page.get_by_role("link", name="API tokens").first.click()
        page.wait_for_url("**/settings/tokens")
        expect(page.locator(".switcher summary")).to_contain_text(name)
    second.close()


def test_switcher_searches_accounts(sign_in_as: Callable[..., Page]) -> None:
    page = sign_in_as(directory.AGENCY)
    assert page.locator("#switch-list a").count() == 0, "the list is loaded when the switcher opens"
    page.locator(".switcher summary").click()
    expect(page.locator("#switch-list a[href$='/files']")).to_have_count(8)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#switch-list a").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Search accounts", exact=True)).to_be_focused()
    page.get_by_label("Search accounts", exact=True).fill("client 077")
    expect(page.locator("#switch-list li")).to_have_count(1)
    page.locator("#switch-list").get_by_role("link", name="Agency Client 077").click()
    expect(page.locator(".switcher summary")).to_contain_text("Agency Client 077")
    page.locator(".switcher summary").click()
    page.keyboard.press("Escape")
    expect(page.locator(".switcher-panel")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.locator("#switch-list a")).to_have_count(8)
    page.get_by_role("link", name="All accounts").focus()
    page.keyboard.press("Tab")
    expect(page.locator(".switcher-panel")).to_be_hidden()


@pytest.mark.release
def test_switcher_fits_on_a_phone(sign_in_as: Callable[..., Page]) -> None:
    page = sign_in_as(directory.AGENCY, viewport=PHONE)
    page.locator(".switcher summary").click()
    expect(page.locator("#switch-list a").first).to_be_visible()
    expect(page.locator(".switcher-panel")).to_be_in_viewport(ratio=1)


def test_foreign_and_unknown_accounts_look_the_same(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as()
    texts = []
    for client_id in (directory.VAULT, "00000000-0000-4000-8000-000000000000", "nonsense"):
        response = page.goto(service.account(client_id))
        assert response is not None
        assert response.status == 403
        texts.append(page.locator("main").inner_text().split("Request")[0])
    assert len(set(texts)) == 1, "foreign and unknown accounts must look the same"
    assert "If you need it, ask your operator (data@northlight.example)." in texts[0]
    response = page.goto(service.account(directory.CLOSED))
    assert response is not None
    assert response.status == 403
    expect(page.get_by_text("This account is inactive.")).to_be_visible()
    ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_account_list_has_pages(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.AGENCY, address=service.account(directory.AGENCY_IDS[0], "accounts"))
    expect(page.locator(".account-grid li")).to_have_count(60)
    page.get_by_role("link", name="Next").last.click()
    expect(page.get_by_text(re.compile("61.120 of 120")).first).to_be_visible()


@pytest.mark.release
def test_palette_finds_pages_files_and_accounts(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT))
    page.keyboard.press("Control+k")
    search = page.get_by_role("combobox", name="Find commands, accounts, pages and files")
    expect(search).to_be_focused()
    options = page.get_by_role("listbox", name="Results").get_by_role("option")
    search.fill("member details")
    expect(options).to_have_count(1)
    search.fill("kita")
    expect(options).to_have_count(1)
    page.keyboard.press("Alt+p")
    expect(options.first).to_contain_text("Account, pinned")
    search.fill("")
    expect(options.first).to_contain_text("Kita")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{directory.KITA}/files")
    page.get_by_role("button", name="Search").first.click()
    page.get_by_role("combobox", name="Find commands, accounts, pages and files").fill("insight")
    page.keyboard.press("Enter")
    page.wait_for_url("**/insight")
    # Until the figures are computed, the page reloads itself, which closes what is open.
    expect(page.get_by_text(re.compile(r"^Compared with"))).to_be_visible()
    page.keyboard.press("Control+k")
    # The pinned account comes first, then the page that was opened last.
    expect(options.nth(0)).to_contain_text("Kita")
    expect(options.nth(1)).to_contain_text("Insight")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.release
def test_palette_opens_actions_and_keeps_the_section(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=None)
    page.add_init_script('Object.defineProperty(navigator, "platform", { value: "MacIntel" })')
    page.goto(service.account(directory.NORTHLIGHT, "activity"))
    expect(page.locator(".palette-open kbd")).to_have_text("⌘ K")
    search = page.get_by_role("combobox", name="Find commands, accounts, pages and files")
    options = page.get_by_role("listbox", name="Results").get_by_role("option")
    page.keyboard.press("Control+k")
    search.fill("kíta")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{directory.KITA}/activity")
    page.keyboard.press("Control+k")
    search.fill("change passw")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/settings/security#password-title")


def test_searches_report_a_server_that_cannot_be_reached(
    sign_in_as: Callable[..., Page], console_messages: list[str]
) -> None:
    page = sign_in_as()
    page.context.set_offline(True)
    page.locator(".switcher summary").click()
    expect(page.locator("#switch-list")).to_have_text("The server can't be reached.")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("kita")
    expect(page.get_by_role("listbox", name="Results")).to_have_text(
        "Accounts and files can't be loaded. Reload the page."
    )
    # Each key sends a request, and the last of them may fail after the text is shown.
    page.context.close()
    console_messages[:] = [message for message in console_messages if "ERR_INTERNET_DISCONNECTED" not in message]


def test_blocked_storage_stops_no_script(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=None)
    blocked = '{ get() { throw new DOMException("blocked"); } }'
    page.add_init_script(f'Object.defineProperty(window, "localStorage", {blocked})')
    page.goto(service.account(directory.KITA))
    page.locator(".switcher summary").click()
    expect(page.get_by_label("Search accounts", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".switcher-panel")).to_be_hidden()
