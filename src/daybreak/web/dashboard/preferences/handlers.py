"""Handlers of Settings > Notifications, of unsubscribe links, and of Settings > Display.

The links need no sign-in, because mail programs follow them (RFC 8058).
"""

from collections.abc import Mapping

from starlette.responses import Response

from daybreak.domain.display import DEFAULT_NUMBER_FORMAT, DEFAULT_ZONE, NUMBER_FORMATS, time_zones
from daybreak.domain.events import ACCOUNT_EVENTS, SECURITY_EVENTS, TOKEN_EVENTS, EventType
from daybreak.events.notifications import choose_events, chosen_events, offered_events, parse_link, unsubscribe
from daybreak.web.dashboard.context import DashboardRequest
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, invalid_field, render_template

EVENT_LABELS: Mapping[EventType, tuple[str, str]] = {
    EventType.SNAPSHOT_PUBLISHED: ("New files", "New files were published."),
    EventType.SNAPSHOT_LATE: ("Late files", "The publication time passed without new files."),
    EventType.SNAPSHOT_RECOVERED: ("Late files arrived", "New files were published after they were late."),
    EventType.TOKEN_IDLE: ("Stopped scripts", "A script that fetched files daily did not for three days."),
    EventType.SNAPSHOT_HELD: ("Held snapshots", "The guard blocked a publication."),
    EventType.SNAPSHOT_FAILED: ("Failed runs", "A run failed, and a retry did not help."),
    EventType.DIRECTORY_FAILING: ("Failed directory sync", "Accounts and seats were not synchronized for a day."),
    EventType.TOKEN_EXPIRING: ("Expiring tokens", "One of your API tokens expires in 14 days, or in 2 days."),
    EventType.TOKEN_LEAKED: ("Leaked tokens", "One of your API tokens was found in public and revoked."),
    EventType.SECOND_FACTOR_CHANGED: ("Second factor", "Your second factor was changed."),
    EventType.PASSWORD_CHANGED: ("Password", "Your password was changed."),
}
"""Label and explanation of each event that a seat can choose."""


async def show_notifications(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    offered = offered_events(page.seat)
    if "sent" in page.fields:
        chosen = frozenset(event for event in offered if event.value in page.fields)
    else:
        chosen = await chosen_events(page.services, page.seat)
    about_files, about_security = {*ACCOUNT_EVENTS, *TOKEN_EVENTS}, {*SECURITY_EVENTS}
    groups = {
        "Files": [event for event in offered if event in about_files],
        "Operator": [event for event in offered if event not in about_files | about_security],
        "Security": [event for event in offered if event in about_security],
    }
    context: dict[str, object] = {
        "groups": {name: events for name, events in groups.items() if events},
        "labels": EVENT_LABELS,
        "chosen": chosen,
        "mail_enabled": page.services.settings.mail.enabled,
    }
    return render_page(page, "preferences/notifications.html", context, outcome)


async def save_notifications(page: PageRequest) -> Response:
    chosen = [event for event in offered_events(page.seat) if event.value in page.form]
    await choose_events(page.services, page.active_session, chosen, page.caller)
    return page.redirect("settings/notifications", done="notifications-saved")


async def show_unsubscribe_form(page: DashboardRequest) -> Response:
    """Ask for confirmation: programs that scan mails open links too."""
    _, event = parse_link(page.services, page.request.path_params["token"])
    return render_template(page, "preferences/unsubscribe.html", {"event": event.value, "done": False})


async def stop_mails(page: DashboardRequest) -> Response:
    """Stop mails about one type of event. The link is the permission, so the form needs no token."""
    event = await unsubscribe(page.services, page.request.path_params["token"], page.caller)
    return render_template(page, "preferences/unsubscribe.html", {"event": event.value, "done": True})


async def show_display(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    fields = page.fields
    context = {
        "time_zone": fields.get("time_zone", page.seat.time_zone or DEFAULT_ZONE),
        "number_format": fields.get("number_format", page.seat.number_format or DEFAULT_NUMBER_FORMAT),
        "time_zones": time_zones(),
        "number_formats": NUMBER_FORMATS,
    }
    return render_page(page, "preferences/display.html", context, outcome)


async def save_display(page: PageRequest) -> Response | PageOutcome:
    time_zone, number_format = page.form.get("time_zone", ""), page.form.get("number_format", "")
    if time_zone not in time_zones():
        return invalid_field("time_zone", "Choose a time zone from the list.")
    if number_format not in NUMBER_FORMATS:
        return invalid_field("number_format", "Choose a number format from the list.")
    seat_id = page.seat.seat_id
    await page.services.state.awrite(lambda stores: stores.seats.set_display(seat_id, time_zone, number_format))
    return page.redirect("settings/display", done="display-saved")
