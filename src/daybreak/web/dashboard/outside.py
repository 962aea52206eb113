"""Refusals at addresses outside the dashboard that people open too: a page for them, a problem for programs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak.domain.errors import DaybreakError, NotFound
from daybreak.web.dashboard.desk import Desk, render
from daybreak.web.negotiation import weights
from daybreak.web.problems import problem_headers, problem_of, problem_response
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Handler

# Authorization is not to be named: caches keep apart what was asked with it (RFC 9110 §12.5.5).
_VARY = {"Vary": "Accept, Accept-Encoding"}


def for_people(desk: Desk, handler: Handler) -> Handler:
    """The handler, whose errors are pages for people: what happened, and ways on."""

    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except DaybreakError as error:
            request_id, base_url = facts_of(request).request_id, desk.services.settings.base_url
            if not _is_person(request):
                return problem_response(error, request_id=request_id, base_url=base_url, headers=_VARY)
            problem = problem_of(error, request_id=request_id, base_url=base_url)
            context: dict[str, object] = {
                "heading": problem.title,
                "text": problem.detail,
                "request_id": request_id,
                "actions": [
                    {"url": f"{desk.root}/dashboard/", "text": "To your files"},
                    {"url": f"{desk.root}/docs", "text": "API description"},
                ],
                "publish_clock": desk.publish_clock,
            }
            headers = {**problem_headers(error), **_VARY}
            return render(desk, request, "message.html", context, status=problem.status, headers=headers)

    return told


def nowhere(desk: Desk) -> Handler:
    """A handler for what no route has: 404, `not_found`."""

    async def nothing(_request: Request) -> Response:
        raise NotFound("There is nothing at this address. It may have been cut short or mistyped.")

    return for_people(desk, nothing)


def _is_person(request: Request) -> bool:
    """Whether a page is preferred to JSON. Who brings a token is a program: Java's name text/html unasked."""
    if "authorization" in request.headers:
        return False
    qualities = weights(request.headers.getlist("accept"))
    page = qualities.get("text/html", 0.0)
    return page > max(qualities.get(name, 0.0) for name in ("application/json", "application/problem+json"))
