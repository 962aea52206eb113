"""Handlers of the notification page."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from daybreak.domain.errors import Forbidden
from daybreak.domain.events import ACCOUNT_EVENTS, SECURITY_EVENTS, EventType
from daybreak.events.notifications import choose_events, chosen_events, offered_events
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.password_prompt.handlers import prompt_or_raise
from daybreak.web.dashboard.rendering import redirect

_PATH = "settings/notifications"
_LABELS: Mapping[EventType, tuple[str, str]] = {
    EventType.SNAPSHOT_PUBLISHED: ("New files", "New files were published."),
    EventType.SNAPSHOT_LATE: ("Late files", "The publication time passed without new files."),
    EventType.SNAPSHOT_RECOVERED: ("Late files arrived", "New files were published after they were late."),
    EventType.SNAPSHOT_HELD: ("Held snapshots", "The guard blocked a publication."),
    EventType.SNAPSHOT_FAILED: ("Failed runs", "A run failed, and a retry did not help."),
    EventType.DIRECTORY_FAILING: ("Failed directory sync", "Accounts and seats were not synchronized for a day."),
    EventType.TOKEN_EXPIRING: ("Expiring tokens", "One of your API tokens expires in 14 days, or in 2 days."),
    EventType.TOKEN_LEAKED: ("Leaked tokens", "One of your API tokens was found in public and revoked."),
    EventType.SECOND_FACTOR_CHANGED: ("Second factor", "Your second factor was changed."),
    EventType.PASSWORD_CHANGED: ("Password", "Your password was changed."),
}
"""Label and explanation of each event that a seat can choose."""


async def show_notifications(page: PageRequest) -> Response:
    """Show the events that the user receives by mail."""
    chosen = await chosen_events(page.dashboard.services.access, page.seat)
    groups: dict[str, list[dict[str, object]]] = {"Files": [], "Operator": [], "Security": []}
    for event in offered_events(page.seat):
        label, hint = _LABELS[event]
        group = "Files" if event in ACCOUNT_EVENTS else "Security" if event in SECURITY_EVENTS else "Operator"
        groups[group].append({"name": event.value, "label": label, "hint": hint, "chosen": event in chosen})
    context: dict[str, object] = {
        "groups": {name: events for name, events in groups.items() if events},
        "mail_enabled": page.dashboard.services.settings.mail.enabled,
    }
    return render_page(page, "notifications/page.html", "notifications", context)


async def save_notifications(page: PageRequest) -> Response:
    """Save the events that the user receives by mail."""
    form = await read_page_form(page)
    chosen = [event for event in offered_events(page.seat) if event.value in form]
    try:
        await choose_events(page.dashboard.services.access, page.active_session, chosen, page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, f"{_PATH}?done=confirm-again")
    return redirect(page.dashboard, page.path(f"{_PATH}?done=notifications-saved"))
