"""Settings > Webhooks and Settings > Notifications."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect
from standardwebhooks.webhooks import Webhook as Verifier

from daybreak.access.end_credentials import stop_ownerless_webhooks
from daybreak.domain.events import ACCOUNT_EVENTS, EventType
from daybreak.domain.identity import Seat
from tests.acceptance.dashboard.axe import axe_violations
from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads, post_form, sign_in_without_form
from tests.acceptance.dashboard.sample import directory
from tests.parts.webhook_receiver import Answer, Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as found:
        yield found


@pytest.fixture(autouse=True)
def _remove_webhooks(service: Service) -> Iterator[None]:
    """Remove the webhooks of the account after the test."""
    yield
    for webhook in service.state.read(lambda stores: stores.webhooks.list_for(directory.NORTHLIGHT)):
        service.state.write(lambda stores, found=webhook: stores.webhooks.remove(found.endpoint_id))  # type: ignore[misc]


def _create(page: Page, service: Service, url: str) -> str:
    """Create a webhook without its form, return its secret, and open its page."""
    address = service.account(directory.NORTHLIGHT, "settings/webhooks")
    created = post_form(page, f"{address}/new", url=url, **dict.fromkeys(ACCOUNT_EVENTS, "on")).text()
    secret, shown = (
        re.search(r"whsec_[A-Za-z0-9+/]{43}=", created),
        re.search(r"/settings/webhooks/([\w-]+)\"", created),
    )
    assert secret is not None
    assert shown is not None
    page.goto(f"{address}/{shown[1]}")
    return secret[0]


def test_webhook_is_created_tested_and_logged(
    open_with_axe: Callable[[], Page], service: Service, receiver: Receiver
) -> None:
    page = open_with_axe()
    sign_in_without_form(page, service, directory.OWNER)
    page.goto(service.account(directory.NORTHLIGHT, "settings/webhooks"))
    page.get_by_role("link", name="Create webhook").click()
    page.get_by_label("URL").fill(receiver.url("/events"))
    page.get_by_role("button", name="Create webhook").click()
    expect(page.get_by_role("heading", name="Webhook created")).to_be_visible()
    secret = page.locator("#webhook-secret").inner_text()
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
    page.get_by_role("link", name="Done").click()
    expect(page.get_by_text("No deliveries yet")).to_be_visible()
    page.get_by_role("button", name="Send test event").click()
    expect(page.get_by_text("Test event queued.")).to_be_visible()
    # The page reloads the log until the result is there.
    expect(page.locator(".delivery .tag")).to_have_text("delivered")
    document = Verifier(secret).verify(receiver.received[0].body, receiver.received[0].headers)
    assert document["type"] == "webhook.test"
    assert document["data"]["client_id"] == directory.NORTHLIGHT
    page.get_by_text("1 attempt").click()
    expect(page.get_by_role("cell", name="200")).to_be_visible()
    assert secret not in page.content()
    assert axe_violations(page, "webhook") == []
    page.goto(service.account(directory.NORTHLIGHT, "activity"))
    expect(page.locator("table.events")).to_contain_text("Webhook tested")


@pytest.mark.release
def test_failed_delivery_is_retried_by_hand(
    sign_in_as: Callable[..., Page], service: Service, receiver: Receiver
) -> None:
    receiver.script = lambda _request, number: Answer(410 if number == 1 else 200)
    page = sign_in_as(address=None)
    _create(page, service, receiver.url("/gone"))
    page.get_by_role("button", name="Send test event").click()
    expect(page.locator(".delivery .tag")).to_have_text("failed")
    page.reload()
    expect(page.get_by_text("This webhook is disabled.")).to_be_visible()
    expect(page.get_by_text("410 Gone")).to_be_visible()
    assert page.get_by_role("button", name="Retry").count() == 0
    page.get_by_role("button", name="Enable").click()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".delivery .tag")).to_have_text("delivered")
    assert len({each.headers["webhook-id"] for each in receiver.received}) == 1


@pytest.mark.release
def test_secret_is_rotated_after_the_password(
    open_with_axe: Callable[[], Page], service: Service, receiver: Receiver
) -> None:
    page = open_with_axe()
    sign_in_without_form(page, service, directory.OWNER)
    old = _create(page, service, receiver.url("/rotated"))
    page.get_by_role("link", name="Rotate secret").click()
    violations = axe_violations(page, "rotation of a secret")
    page.get_by_role("button", name="Rotate secret").click()
    new = page.locator("#webhook-secret").inner_text()
    violations += axe_violations(page, "new secret")
    assert new != old
    page.get_by_role("link", name="Done").click()
    expect(page.get_by_text("The old secret also signs until")).to_be_visible()
    page.get_by_text("Events: New files, Late files, Late files arrived").click()
    violations += axe_violations(page, "events of a webhook")
    page.get_by_label("Late files arrived").uncheck()
    page.get_by_role("button", name="Save events").click()
    expect(page.get_by_text("Events: New files, Late files", exact=True)).to_be_visible()
    page.get_by_role("button", name="Send test event").click()
    (received,) = receiver.wait_for(1)
    for secret in (old, new):
        Verifier(secret).verify(received.body, received.headers)
    page.get_by_role("link", name="Remove").click()
    assert [*violations, *axe_violations(page, "removal of a webhook")] == []


def test_private_urls_are_refused(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "settings/webhooks/new"))
    for url, message in (
        ("https://10.0.0.1/", "Use a public address."),
        ("http://example.org/", "Use https."),
        ("https://user:pass@example.org/", "Remove the user name"),
    ):
        page.get_by_label("URL").fill(url)
        page.get_by_role("button", name="Create webhook").click()
        expect(page.locator("#e-url")).to_contain_text(message)
        expect(page.get_by_label("URL")).to_have_value(url)
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    page.get_by_role("button", name="Create webhook").click()
    expect(page.get_by_role("group", name="Events")).to_have_accessible_description("Choose at least one event.")
    expect(page.locator(":target")).to_have_count(0)
    page.get_by_role("link", name="Choose at least one event.").click()
    expect(page.locator(":target")).to_have_role("group")
    ignore_failed_loads(console_messages, 400)


@pytest.mark.release
def test_account_has_up_to_five_webhooks(sign_in_as: Callable[..., Page], service: Service, receiver: Receiver) -> None:
    page = sign_in_as(address=None)
    for number in range(5):
        _create(page, service, receiver.url(f"/{number}"))
    page.goto(service.account(directory.NORTHLIGHT, "settings/webhooks"))
    expect(page.locator("tbody tr")).to_have_count(5)
    assert page.get_by_role("link", name="Create webhook").count() == 0
    page.get_by_role("link", name=receiver.url("/3")).click()
    page.get_by_role("link", name="Remove").click()
    page.get_by_role("button", name="Remove webhook").click()
    expect(page.get_by_text("Webhook removed.")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(4)


@pytest.mark.release
def test_webhook_of_a_user_who_left_is_taken_over(
    open_with_axe: Callable[[], Page], service: Service, receiver: Receiver
) -> None:
    page = open_with_axe()
    sign_in_without_form(page, service, directory.OWNER)
    _create(page, service, receiver.url("/left"))
    endpoint_id = page.url.rpartition("/")[2].partition("?")[0]
    left = Seat("90000000-0000-4000-8000-000000000009", "former@example.org")
    service.state.write(lambda stores: stores.webhooks.take_over(endpoint_id, left))
    service.state.write(lambda stores: stop_ownerless_webhooks(stores, datetime.now(UTC), endpoint_id=endpoint_id))
    page.reload()
    expect(page.get_by_text("Its owner former@example.org no longer manages webhooks")).to_be_visible()
    assert page.get_by_role("button", name="Enable").count() == 0
    page.get_by_role("link", name="Take over").click()
    assert axe_violations(page, "take-over of a webhook") == []
    page.get_by_role("button", name="Take over").click()
    expect(page.get_by_text("You own this webhook now.")).to_be_visible()
    page.get_by_role("button", name="Send test event").click()
    expect(page.locator(".delivery .tag")).to_have_text("delivered")


def test_analyst_cannot_manage_webhooks(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as(directory.ANALYST, address=service.account(directory.NORTHLIGHT, "settings/webhooks"))
    expect(page.get_by_text("Only owners and admins of this account can manage webhooks.")).to_be_visible()
    assert page.get_by_role("link", name="Create webhook").count() == 0
    response = page.goto(service.account(directory.NORTHLIGHT, "settings/webhooks/new"))
    assert response is not None
    assert response.status == 403
    ignore_failed_loads(console_messages, 403)


@pytest.mark.release
def test_choices_are_saved_with_the_keyboard(sign_in_as: Callable[..., Page], service: Service) -> None:
    seat_id = directory.id_of(directory.OWNER)
    page = sign_in_as()
    page.get_by_role("link", name="Notifications").click()
    expect(page.get_by_label("Late files", exact=False).first).to_be_checked()
    box = page.locator('input[name="snapshot.published"]')
    expect(box).not_to_be_checked()
    assert page.locator('input[name="snapshot.held"]').count() == 0
    box.focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_text("Notifications saved.")).to_be_visible()
    expect(box).to_be_checked()
    choices = service.state.read(lambda stores: stores.notifications.choices(seat_id))
    assert choices[EventType.SNAPSHOT_PUBLISHED] is True
    service.state.write(lambda stores: stores.notifications.choose(seat_id, {EventType.SNAPSHOT_PUBLISHED: False}))


@pytest.mark.release
def test_operator_can_choose_events_of_runs(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(directory.OPERATOR, address=service.account(directory.NORTHLIGHT, "settings/notifications"))
    expect(page.locator('input[name="snapshot.held"]')).not_to_be_checked()
    expect(page.locator('input[name="snapshot.failed"]')).not_to_be_checked()
