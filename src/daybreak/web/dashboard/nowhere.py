"""The answer at addresses that nothing has: a page for people, a problem for programs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from daybreak.domain.errors import NotFound
from daybreak.web.dashboard.desk import Desk, render
from daybreak.web.negotiation import weights
from daybreak.web.problems import problem_response, status_of
from daybreak.web.request_facts import facts_of
from daybreak.web.routing import Handler

# Authorization is not to be named: caches keep apart what was asked with it (RFC 9110 §12.5.5).
_VARY = "Accept, Accept-Encoding"


def nowhere(desk: Desk) -> Handler:
    """A handler for what no route has: 404, `not_found`."""

    async def handler(request: Request) -> Response:
        error = NotFound("There is nothing at this path.")
        request_id = facts_of(request).request_id
        if not _is_person(request):
            base_url = desk.services.settings.base_url
            return problem_response(error, request_id=request_id, base_url=base_url, headers={"Vary": _VARY})
        context: dict[str, object] = {
            "heading": "Nothing is here",
            "text": "There is no such page. Its address may have been cut short or mistyped.",
            "request_id": request_id,
            "actions": [
                {"url": f"{desk.root}/dashboard/", "text": "To your files"},
                {"url": f"{desk.root}/docs", "text": "API description"},
            ],
            "publish_clock": desk.publish_clock,
        }
        return render(desk, request, "message.html", context, status=status_of(error), headers={"Vary": _VARY})

    return handler


def _is_person(request: Request) -> bool:
    """Whether a page is preferred to JSON. Who brings a token is a program: Java's name text/html unasked."""
    if "authorization" in request.headers:
        return False
    qualities = weights(request.headers.getlist("accept"))
    page = qualities.get("text/html", 0.0)
    return page > max(qualities.get(name, 0.0) for name in ("application/json", "application/problem+json"))
