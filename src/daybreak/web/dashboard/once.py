"""Forms that are processed once, even if they are sent twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from starlette.responses import Response

from daybreak.state.throttle import ThrottleRule
from daybreak.web.dashboard import csrf
from daybreak.web.dashboard.page_request import PageRequest

_LIFETIME_SECONDS = 86400


async def process_once(page: PageRequest, process: Callable[[PageRequest], Awaitable[Response]]) -> Response:
    """Process a form, or redirect to the page `Policy.once` if it was processed before.

    The form token, which differs on every page, identifies the form. The record is in the state database, so that two
    clicks handled by two workers count as one. If the form is rejected, or after any error, the record is removed, so
    that the form can be sent again.
    """
    rule = ThrottleRule(f"form:{page.session.sid}:{csrf.salt_of(page.form[csrf.FIELD])}", 1, _LIFETIME_SECONDS)
    state = page.dashboard.services.state
    if await state.awrite(lambda stores: stores.throttle.count([rule], page.now)) is not None:
        path, _, done = page.policy.once.format(**page.request.path_params).partition("?done=")
        return page.redirect(path, done=done)
    is_processed = False
    try:
        response = await process(page)
        is_processed = response.status_code < HTTPStatus.BAD_REQUEST
        return response
    finally:
        if not is_processed:
            await state.awrite(lambda stores: stores.throttle.clear(rule.key))
