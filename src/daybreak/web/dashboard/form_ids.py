"""Form ids: a form that creates a secret is processed once, even if it is sent twice."""

from __future__ import annotations

from daybreak.domain.errors import InvalidRequest
from daybreak.state.throttle import ThrottleRule
from daybreak.web.dashboard.page_request import PageRequest

_LIFETIME_SECONDS = 86400
_LENGTH = 32


def new_form_id(page: PageRequest) -> str:
    """Return a random id for the form's hidden field `form_id`."""
    return page.dashboard.services.random(_LENGTH // 2).hex()


async def claim_form(page: PageRequest, form_id: str) -> bool:
    """Record that a form is being processed; return False if it already was.

    The record is in the state database, so that two clicks handled by two workers count as one.
    Raises InvalidRequest if the id is malformed.
    """
    if len(form_id) != _LENGTH or not form_id.isalnum():
        raise InvalidRequest("The form is incomplete. Open the page again.")
    rule = ThrottleRule(_key(page, form_id), 1, _LIFETIME_SECONDS)
    limit = await page.dashboard.services.state.awrite(lambda stores: stores.throttle.count([rule], page.now))
    return limit is None


async def release_form(page: PageRequest, form_id: str) -> None:
    """Remove that record, so that a rejected form can be corrected and sent again."""
    await page.dashboard.services.state.awrite(lambda stores: stores.throttle.clear(_key(page, form_id)))


def _key(page: PageRequest, form_id: str) -> str:
    return f"form:{page.session.sid}:{form_id}"
