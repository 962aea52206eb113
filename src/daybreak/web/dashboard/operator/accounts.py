"""Handlers of the operator's page of one account: API tokens, and the permissions of seats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from starlette.responses import Response

from daybreak.access.directory import edits
from daybreak.access.operators import find_seat
from daybreak.domain.errors import NotFound, OperatorError
from daybreak.domain.identity import ROLES, Account, Grant
from daybreak.state.stores import Stores
from daybreak.web.dashboard.operator.confirmation import prompt_if_needed
from daybreak.web.dashboard.operator.directory import load_directory
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field
from daybreak.web.dashboard.page_layout import operator_path, render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.rendering import redirect

_MAXIMUM_EMAIL_LENGTH = 254


async def show_account(page: PageRequest) -> Response:
    """Show an account."""
    return await _account_page(page, await _requested_account(page))


async def set_api_tokens(page: PageRequest) -> Response:
    """Allow or refuse API tokens on an account."""
    form, account = await read_page_form(page), await _requested_account(page)
    enabled = form.get("enabled") == "yes"

    def work(stores: Stores) -> None:
        edits.set_api_tokens_enabled(stores, account, page.now, enabled=enabled, actor=page.seat.email)

    return await _change(page, account, work, "api-tokens-on" if enabled else "api-tokens-off", {})


async def put_grant(page: PageRequest) -> Response:
    """Add the permissions of a seat on an account, or change them."""
    form, account = await read_page_form(page), await _requested_account(page)

    def work(stores: Stores) -> None:
        seat = find_seat(stores, form.get("email", "")[:_MAXIMUM_EMAIL_LENGTH])
        grant = Grant(
            seat.seat_id,
            account.client_id,
            (form.get("role", ""),),
            data_export=form.get("data_export") == "yes",
            async_rest_api=form.get("async_rest_api") == "yes",
        )
        edits.put_grant(stores, seat, grant, page.now, actor=page.seat.email)

    return await _change(page, account, work, "grant-saved", form)


async def remove_grant(page: PageRequest) -> Response:
    """Remove the permissions of a seat on an account."""
    form, account = await read_page_form(page), await _requested_account(page)

    def work(stores: Stores) -> None:
        seat = find_seat(stores, form.get("email", "")[:_MAXIMUM_EMAIL_LENGTH])
        edits.remove_grant(stores, seat, account.client_id, page.now, actor=page.seat.email)

    return await _change(page, account, work, "grant-removed", {})


async def _change(
    page: PageRequest, account: Account, work: Callable[[Stores], None], done: str, form: Mapping[str, str]
) -> Response:
    """Apply a change after a recent password, and show the account."""
    prompt = prompt_if_needed(page, f"accounts/{account.client_id}")
    if prompt is not None:
        return prompt
    try:
        await asyncio.to_thread(page.dashboard.services.state.write, work)
    except OperatorError as error:
        return await _account_page(page, account, invalid_field("email", error.message), form)
    return redirect(page.dashboard, operator_path(page, f"accounts/{account.client_id}", done=done))


async def _account_page(
    page: PageRequest, account: Account, outcome: PageOutcome = SUCCESS, form: Mapping[str, str] | None = None
) -> Response:
    directory = await load_directory(page)
    seats = {seat.seat_id: seat for seat in directory.seats}
    path = operator_path(page, f"accounts/{account.client_id}")
    context: dict[str, object] = {
        "item": account,
        "roles": ROLES,
        "values": form or {"email": "", "role": "analyst", "data_export": "yes"},
        "grants": [
            (seats[grant.seat_id], grant)
            for grant in directory.grants
            if grant.client_id == account.client_id and grant.seat_id in seats
        ],
        "synced": bool(page.dashboard.services.settings.directory.accounts),
        "history_url": page.dashboard.root + path if page.request.method == "POST" else "",
    }
    return render_page(page, "operator/account.html", "people", context, outcome)


async def _requested_account(page: PageRequest) -> Account:
    client_id, directory = page.request.path_params["account_id"], await load_directory(page)
    account = next((each for each in directory.accounts if each.client_id == client_id), None)
    if account is None:
        raise NotFound("No such account.")
    return account
