"""Form ids: a form that creates a secret is processed once, even if it is sent twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from daybreak.domain.errors import InvalidRequest
from daybreak.state.throttle import ThrottleRule
from daybreak.web.dashboard.page_request import PageRequest

_LIFETIME_SECONDS = 86400
_LENGTH = 32


def new_form_id(page: PageRequest) -> str:
    """Return a random id for the form's hidden field `form_id`."""
    return page.dashboard.services.random(_LENGTH // 2).hex()


@asynccontextmanager
async def claimed_form(page: PageRequest, form_id: str) -> AsyncIterator[bool]:
    """Record that a form is being processed, and enter with False if it already was.

    The record is in the state database, so that two clicks handled by two workers count as one. After any error it is
    removed, so that the form can be sent again. Raises InvalidRequest if the id is malformed.
    """
    if len(form_id) != _LENGTH or not form_id.isalnum():
        raise InvalidRequest("The form is incomplete. Open the page again.")
    rule = ThrottleRule(f"form:{page.session.sid}:{form_id}", 1, _LIFETIME_SECONDS)
    state = page.dashboard.services.state
    claimed = await state.awrite(lambda stores: stores.throttle.count([rule], page.now)) is None
    try:
        yield claimed
    except BaseException:
        if claimed:
            await state.awrite(lambda stores: stores.throttle.clear(rule.key))
        raise
