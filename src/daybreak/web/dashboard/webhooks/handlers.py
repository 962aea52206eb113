"""Handlers of the webhook pages."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access.sessions import require_recent_password
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest
from daybreak.domain.events import Webhook
from daybreak.events import webhooks
from daybreak.events.webhooks import LoggedDelivery
from daybreak.web.dashboard.error_pages import error_state
from daybreak.web.dashboard.form_ids import claimed_form, new_form_id
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.password_prompt.handlers import prompt_or_raise, redirect_to_password_prompt
from daybreak.web.dashboard.rendering import redirect, render_template
from daybreak.web.dashboard.webhooks.view import is_pending, log_rows, webhook_view

_PATH = "settings/webhooks"
_SECTION = "webhooks"
_MAXIMUM_URL_LENGTH = 2000


async def list_webhooks(page: PageRequest) -> Response:
    """List the webhooks of the account."""
    empty_state, found = None, []
    try:
        found = await webhooks.list_of_account(page.dashboard.services.access, page.principal)
    except Forbidden as error:
        empty_state = error_state(error)
    context: dict[str, object] = {
        "webhooks": [webhook_view(each, page.now) for each in found],
        "limit": webhooks.MAX_WEBHOOKS,
        "empty_state": empty_state,
    }
    return render_page(page, "webhooks/page.html", _SECTION, context)


async def show_new_webhook_form(page: PageRequest) -> Response:
    """Show the form of a new webhook, after the password prompt if the password was not entered recently."""
    await webhooks.list_of_account(page.dashboard.services.access, page.principal)
    url = page.request.query_params.get("url", "")[:_MAXIMUM_URL_LENGTH]
    return _prompt_if_needed(page, url) or _form_page(page, url)


async def create_webhook(page: PageRequest) -> Response:
    """Create a webhook and show its secret once."""
    form = await read_page_form(page)
    url, form_id = form.get("url", "")[:_MAXIMUM_URL_LENGTH], form.get("form_id", "")
    prompt = _prompt_if_needed(page, url)
    if prompt is not None:
        return prompt
    access = page.dashboard.services.access
    try:
        async with claimed_form(page, form_id) as is_first:
            if not is_first:
                return redirect(page.dashboard, page.path(f"{_PATH}?done=webhook-exists"))
            created = await webhooks.create(access, page.principal, url=url, caller=page.caller)
    except (InvalidRequest, Conflict) as error:
        return _form_page(page, url, rejected(error, "url"))
    return _secret_page(page, created, rotated=False)


async def show_webhook(page: PageRequest) -> Response:
    """Show a webhook and its recent deliveries."""
    webhook = await _requested(page)
    return render_page(page, "webhooks/show.html", _SECTION, await _context(page, webhook))


async def show_deliveries(page: PageRequest) -> Response:
    """Return the log partial, which the page requests every two seconds while a delivery is under way."""
    context = {**await _context(page, await _requested(page)), "csrf_field": None, "account_url": page.url}
    if not context["pending"]:
        # The whole page again: its buttons need a form token.
        return Response(status_code=200, headers={"HX-Refresh": "true", "Cache-Control": "no-store"})
    return render_template(page.dashboard, page.request, "webhooks/log.html", context)


async def send_test(page: PageRequest) -> Response:
    """Have a test event sent."""
    await read_page_form(page)
    access, endpoint_id = page.dashboard.services.access, _endpoint_id(page)
    before = _newest(await webhooks.delivery_log(access, page.principal, endpoint_id))
    await webhooks.send_test(access, page.principal, endpoint_id, page.caller)
    return _redirect(page, "test-sent", after=before)


async def retry_delivery(page: PageRequest) -> Response:
    """Attempt a failed delivery again."""
    await read_page_form(page)
    delivery_id = page.request.path_params["delivery_id"]
    access = page.dashboard.services.access
    retried = await webhooks.retry(access, page.principal, _endpoint_id(page), delivery_id, page.caller)
    return _redirect(page, "delivery-retried" if retried else "delivery-done")


async def disable_webhook(page: PageRequest) -> Response:
    """Stop sending to a webhook."""
    await read_page_form(page)
    await webhooks.disable(page.dashboard.services.access, page.principal, _endpoint_id(page), page.caller)
    return _redirect(page, "webhook-disabled")


async def enable_webhook(page: PageRequest) -> Response:
    """Send to a webhook of the user again."""
    await read_page_form(page)
    if (await _requested(page)).created_by != page.seat.seat_id:
        return redirect(page.dashboard, page.path(f"{_PATH}/{_endpoint_id(page)}/take-over"))
    await webhooks.enable(page.dashboard.services.access, page.principal, _endpoint_id(page), page.caller)
    return _redirect(page, "webhook-enabled")


async def show_take_over_form(page: PageRequest) -> Response:
    """Ask for confirmation before the user becomes the owner of a webhook."""
    return await _confirmation(page, "take-over")


async def take_over_webhook(page: PageRequest) -> Response:
    """Make the user the owner of a webhook, and send to it again."""
    await read_page_form(page)
    try:
        await webhooks.take_over(page.dashboard.services.access, page.principal, _endpoint_id(page), page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, f"{_PATH}/{_endpoint_id(page)}/take-over")
    return _redirect(page, "webhook-taken")


async def show_rotate_form(page: PageRequest) -> Response:
    """Ask for confirmation before a secret is rotated."""
    return await _confirmation(page, "rotate")


async def rotate_secret(page: PageRequest) -> Response:
    """Replace the secret and show the new one once."""
    form = await read_page_form(page)
    access = page.dashboard.services.access
    try:
        require_recent_password(access, page.session)
        async with claimed_form(page, form.get("form_id", "")) as is_first:
            if not is_first:
                return _redirect(page, "secret-exists")
            rotated = await webhooks.rotate(access, page.principal, _endpoint_id(page), page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, f"{_PATH}/{_endpoint_id(page)}/rotate")
    return _secret_page(page, rotated, rotated=True)


async def show_remove_form(page: PageRequest) -> Response:
    """Ask for confirmation before a webhook is removed."""
    return await _confirmation(page, "remove")


async def remove_webhook(page: PageRequest) -> Response:
    """Remove a webhook and its log."""
    await read_page_form(page)
    try:
        await webhooks.remove(page.dashboard.services.access, page.principal, _endpoint_id(page), page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, f"{_PATH}/{_endpoint_id(page)}/remove")
    return redirect(page.dashboard, page.path(f"{_PATH}?done=webhook-removed"))


def _endpoint_id(page: PageRequest) -> str:
    return str(page.request.path_params["endpoint_id"])


async def _requested(page: PageRequest) -> Webhook:
    return await webhooks.find(page.dashboard.services.access, page.principal, _endpoint_id(page))


async def _context(page: PageRequest, webhook: Webhook) -> dict[str, object]:
    log = await webhooks.delivery_log(page.dashboard.services.access, page.principal, webhook.endpoint_id)
    # A test event is in the log only after some time. Until then, the newest entry is the one from before.
    after = page.request.query_params.get("after", "")
    return {
        "webhook": webhook_view(webhook, page.now),
        "is_owner": webhook.created_by == page.seat.seat_id,
        "deliveries": log_rows(log),
        "after": after,
        "pending": is_pending(log, page.now) or after == _newest(log),
        "limit": webhooks.LOG_ENTRIES,
    }


def _newest(log: list[LoggedDelivery]) -> str:
    return log[0].delivery.delivery_id if log else "none"


async def _confirmation(page: PageRequest, action: str) -> Response:
    """Show a confirmation, after the password prompt if the password was not entered recently."""
    webhook = await _requested(page)
    try:
        require_recent_password(page.dashboard.services.access, page.session)
    except Forbidden:
        return redirect_to_password_prompt(page, f"{_PATH}/{webhook.endpoint_id}/{action}")
    context = {"webhook": webhook_view(webhook, page.now), "form_id": new_form_id(page)}
    return render_page(page, f"webhooks/{action}.html", _SECTION, context)


def _secret_page(page: PageRequest, created: webhooks.WebhookSecret, *, rotated: bool) -> Response:
    path = f"{_PATH}/{created.webhook.endpoint_id}"
    context: dict[str, object] = {
        "history_url": page.url(path),
        "webhook": webhook_view(created.webhook, page.now),
        "secret": created.secret,
        "rotated": rotated,
    }
    return render_page(page, "webhooks/secret.html", _SECTION, context)


def _prompt_if_needed(page: PageRequest, url: str) -> Response | None:
    try:
        require_recent_password(page.dashboard.services.access, page.session)
    except Forbidden:
        return redirect_to_password_prompt(page, f"{_PATH}/new?{urlencode({'url': url})}")
    return None


def _form_page(page: PageRequest, url: str, outcome: PageOutcome = SUCCESS) -> Response:
    context: dict[str, object] = {"url": url, "form_id": new_form_id(page)}
    return render_page(page, "webhooks/new.html", _SECTION, context, outcome)


def _redirect(page: PageRequest, done: str, **parameters: str) -> Response:
    query = urlencode({"done": done, **parameters})
    return redirect(page.dashboard, page.path(f"{_PATH}/{_endpoint_id(page)}?{query}"))
