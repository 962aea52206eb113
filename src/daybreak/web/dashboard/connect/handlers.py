"""Handler of the page Connect."""

from __future__ import annotations

from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.domain.errors import Forbidden
from daybreak.web.dashboard.error_pages import error_state
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.tokens.recipes import recipes_of
from daybreak.web.dashboard.tokens.view import DEFAULT_EXPIRY, EXPIRIES


async def show_connect(page: PageRequest) -> Response:
    """Show the recipe of a tool, and the form that creates its token."""
    settings = page.dashboard.services.settings
    recipes = recipes_of(settings, page.client_id)
    recipe = recipes.get(page.request.query_params.get("tool", ""), next(iter(recipes.values())))
    refusal = None
    try:
        require(page.principal, "manage_api_tokens", page.client_id)
    except Forbidden as error:
        refusal = error_state(error)
    context: dict[str, object] = {
        "recipes": list(recipes.values()),
        "recipe": recipe,
        "is_open": recipe.door.is_open(settings),
        "refusal": refusal,
        "expiry": DEFAULT_EXPIRY,
        "expires": EXPIRIES[DEFAULT_EXPIRY][0].lower(),
    }
    return render_page(page, "connect/page.html", context)
