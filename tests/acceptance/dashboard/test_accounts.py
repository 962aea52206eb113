"""Account switcher and access to accounts."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads
from tests.acceptance.dashboard.sample import directory


def test_two_tabs_show_two_accounts(sign_in_as: Callable[..., Page], service: Service) -> None:
    first = sign_in_as()
    first.goto(service.account(directory.NORTHLIGHT))
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
    page.locator(".switcher summary").click()
    assert page.locator("#switch-list a[href$='/files']").count() == 8
    page.get_by_label("Search accounts").fill("client 077")
    expect(page.locator("#switch-list li")).to_have_count(1)
    page.locator("#switch-list").get_by_role("link", name="Agency Client 077").click()
    expect(page.locator(".switcher summary")).to_contain_text("Agency Client 077")
    page.locator(".switcher summary").click()
    page.keyboard.press("Escape")
    expect(page.locator(".switcher-panel")).to_be_hidden()


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
    response = page.goto(service.account(directory.CLOSED))
    assert response is not None
    assert response.status == 403
    expect(page.get_by_text("This account is inactive.")).to_be_visible()
    ignore_failed_loads(console_messages, 403)
