"""Handlers of unsubscribe links. They need no sign-in, because mail programs follow them (RFC 8058)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak.events.notifications import event_of_link, unsubscribe
from daybreak.web.dashboard.context import DashboardContext
from daybreak.web.dashboard.rendering import render_template
from daybreak.web.request_state import caller_of


async def show_unsubscribe_form(dashboard: DashboardContext, request: Request) -> Response:
    """Ask for confirmation: programs that scan mails open links too."""
    event = event_of_link(dashboard.services, request.path_params["token"])
    return render_template(dashboard, request, "unsubscribe/page.html", {"event": event.value, "done": False})


async def stop_mails(dashboard: DashboardContext, request: Request) -> Response:
    """Stop mails about one type of event. The link is the permission, so the form needs no token."""
    event = await unsubscribe(dashboard.services, request.path_params["token"], caller_of(request))
    return render_template(dashboard, request, "unsubscribe/page.html", {"event": event.value, "done": True})
