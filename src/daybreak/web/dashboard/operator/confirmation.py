"""Recent password of an operator, which changes to accounts and seats and decisions on runs require."""

from __future__ import annotations

from starlette.responses import Response

from daybreak.access.sessions import require_recent_password
from daybreak.domain.errors import Forbidden
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.password_prompt.handlers import redirect_to_password_prompt


def prompt_if_needed(page: PageRequest, next_path: str) -> Response | None:
    """Redirect to the password prompt unless the password was entered recently. `next_path` is below /operator."""
    try:
        require_recent_password(page.dashboard.services.access, page.session)
    except Forbidden:
        return redirect_to_password_prompt(page, next_path)
    return None
