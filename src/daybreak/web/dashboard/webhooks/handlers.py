"""Handlers of the webhook pages."""

from datetime import datetime

from starlette.responses import Response

from daybreak.domain.errors import Conflict, InvalidRequest
from daybreak.domain.events import ACCOUNT_EVENTS, DeliveryState, EventType, Webhook
from daybreak.events import webhooks
from daybreak.events.webhooks import LoggedDelivery
from daybreak.web.dashboard.error_pages import error_state
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.preferences.handlers import EVENT_LABELS
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, rejected, reload_page, render_template

_PATH = "settings/webhooks"
_MAXIMUM_URL_LENGTH = 2000


async def list_webhooks(page: PageRequest) -> Response:
    found = []
    if page.refusal is None:
        found = await webhooks.list_of_account(page.services, page.principal)
    context: dict[str, object] = {
        "webhooks": found,
        "limit": webhooks.MAX_WEBHOOKS,
        "empty_state": error_state(page.refusal) if page.refusal is not None else None,
    }
    return render_page(page, "webhooks/page.html", context)


async def show_new_webhook_form(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    return render_page(page, "webhooks/new.html", {"url": _url(page), **_event_choices(page)}, outcome)


async def create_webhook(page: PageRequest) -> Response | PageOutcome:
    """Create a webhook and show its secret once."""
    services, chosen = page.services, _posted_events(page)
    try:
        created = await webhooks.create(
            services, page.principal, url=_url(page), caller=page.caller, event_types=chosen
        )
    except (InvalidRequest, Conflict) as error:
        return rejected(error, "url" if chosen else "events")
    return _secret_page(page, created, rotated=False)


async def show_webhook(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Show a webhook and its recent deliveries."""
    webhook = await _requested(page)
    return render_page(page, "webhooks/show.html", await _context(page, webhook), outcome)


async def choose_events(page: PageRequest) -> Response | PageOutcome:
    services, chosen = page.services, _posted_events(page)
    try:
        await webhooks.choose_events(services, page.principal, _endpoint_id(page), chosen, page.caller)
    except InvalidRequest as error:
        return rejected(error, "events")
    return _redirect(page, "events-saved")


async def show_deliveries(page: PageRequest) -> Response:
    """Return the log partial, which the page requests every two seconds while a delivery is under way."""
    context = {**await _context(page, await _requested(page)), "csrf_field": None, "account_url": page.url}
    if not context["pending"]:
        # The whole page again: its buttons need a form token.
        return reload_page()
    return render_template(page, "webhooks/log.html", context)


async def send_test(page: PageRequest) -> Response:
    services, endpoint_id = page.services, _endpoint_id(page)
    before = _newest(await webhooks.delivery_log(services, page.principal, endpoint_id))
    await webhooks.send_test(services, page.principal, endpoint_id, page.caller)
    return _redirect(page, "test-sent", after=before)


async def retry_delivery(page: PageRequest) -> Response:
    delivery_id = page.request.path_params["delivery_id"]
    services = page.services
    retried = await webhooks.retry(services, page.principal, _endpoint_id(page), delivery_id, page.caller)
    return _redirect(page, "delivery-retried" if retried else "delivery-done")


async def disable_webhook(page: PageRequest) -> Response:
    await webhooks.disable(page.services, page.principal, _endpoint_id(page), page.caller)
    return _redirect(page, "webhook-disabled")


async def enable_webhook(page: PageRequest) -> Response:
    """Send to a webhook of the user again."""
    if (await _requested(page)).created_by != page.seat.seat_id:
        return page.redirect(f"{_PATH}/{_endpoint_id(page)}/take-over")
    await webhooks.enable(page.services, page.principal, _endpoint_id(page), page.caller)
    return _redirect(page, "webhook-enabled")


async def take_over_webhook(page: PageRequest) -> Response:
    """Make the user the owner of a webhook, and send to it again."""
    await webhooks.take_over(page.services, page.principal, _endpoint_id(page), page.caller)
    return _redirect(page, "webhook-taken")


async def rotate_secret(page: PageRequest) -> Response:
    """Replace the secret and show the new one once."""
    services = page.services
    rotated = await webhooks.rotate(services, page.principal, _endpoint_id(page), page.caller)
    return _secret_page(page, rotated, rotated=True)


async def remove_webhook(page: PageRequest) -> Response:
    """Remove a webhook and its log."""
    await webhooks.remove(page.services, page.principal, _endpoint_id(page), page.caller)
    return page.redirect(_PATH, done="webhook-removed")


def _url(page: PageRequest) -> str:
    return page.fields.get("url", "")[:_MAXIMUM_URL_LENGTH]


def _posted_events(page: PageRequest) -> list[EventType]:
    return [event for event in ACCOUNT_EVENTS if event.value in page.fields]


def _event_choices(page: PageRequest, webhook: Webhook | None = None) -> dict[str, object]:
    """Return the variables of the checkboxes of event types: as posted, or as the webhook has them."""
    chosen = [event for event in ACCOUNT_EVENTS if webhook is None or webhook.receives(event)]
    return {
        "events": ACCOUNT_EVENTS,
        "labels": EVENT_LABELS,
        "chosen": _posted_events(page) if "sent" in page.fields else chosen,
    }


def _endpoint_id(page: PageRequest) -> str:
    return str(page.request.path_params["endpoint_id"])


async def _requested(page: PageRequest) -> Webhook:
    return await webhooks.find(page.services, page.principal, _endpoint_id(page))


async def load_webhook(page: PageRequest) -> dict[str, object]:
    """Return the variables of pages that ask to confirm a change of a webhook."""
    return {"webhook": await _requested(page)}


async def _context(page: PageRequest, webhook: Webhook) -> dict[str, object]:
    log = await webhooks.delivery_log(page.services, page.principal, webhook.endpoint_id)
    # A test event is in the log only after some time. Until then, the newest entry is the one from before.
    after = page.request.query_params.get("after", "")
    return {
        "webhook": webhook,
        **_event_choices(page, webhook),
        "is_owner": webhook.created_by == page.seat.seat_id,
        "deliveries": log,
        "after": after,
        "pending": is_pending(log, page.now) or after == _newest(log),
        "limit": webhooks.LOG_ENTRIES,
    }


def _newest(log: list[LoggedDelivery]) -> str:
    return log[0].delivery.delivery_id if log else "none"


def _secret_page(page: PageRequest, created: webhooks.WebhookSecret, *, rotated: bool) -> Response:
    context: dict[str, object] = {
        "history_url": page.url(f"{_PATH}/{created.webhook.endpoint_id}"),
        "webhook": created.webhook,
        "secret": created.secret,
        "rotated": rotated,
    }
    return render_page(page, "webhooks/secret.html", context)


def _redirect(page: PageRequest, done: str, **parameters: str) -> Response:
    return page.redirect(f"{_PATH}/{_endpoint_id(page)}", done=done, **parameters)


def is_pending(log: list[LoggedDelivery], now: datetime) -> bool:
    """Return whether a first attempt, or a retry that is due, is under way."""
    pending = [each.delivery for each in log if each.delivery.state is DeliveryState.PENDING]
    return any(not each.attempts or (each.next_attempt_at or now) <= now for each in pending)
