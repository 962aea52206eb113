"""Handlers of the operator's page of one account: API tokens, and the permissions of seats."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from daybreak.access import password_reset
from daybreak.access.directory import edits
from daybreak.access.operators import find_seat
from daybreak.domain.email_address import MAX_EMAIL_LENGTH
from daybreak.domain.errors import InvalidRequest, NotFound, OperatorError
from daybreak.domain.identity import ROLES, Account, Grant, Seat
from daybreak.state.stores import Stores
from daybreak.web.dashboard.confirmation import Confirmation
from daybreak.web.dashboard.formatting import format_name
from daybreak.web.dashboard.operator.directory import load_directory
from daybreak.web.dashboard.operator.endings import ending_tokens, ending_webhooks
from daybreak.web.dashboard.operator.seats import invite_seat, requested_seat
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_PERMISSIONS = ("role", "data_export", "async_rest_api")
_NEW_GRANT = {"email": "", "role": "analyst", "data_export": "yes"}


async def show_account(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Show an account."""
    account, directory = await _requested_account(page), await load_directory(page)
    seats = {seat.seat_id: seat for seat in directory.seats}
    context: dict[str, object] = {
        "item": account,
        "roles": ROLES,
        "values": page.fields if "email" in page.fields else _NEW_GRANT,
        "grants": [
            (seats[grant.seat_id], grant)
            for grant in directory.grants
            if grant.client_id == account.client_id and grant.seat_id in seats
        ],
        "can_invite": password_reset.is_available(page.dashboard.services.settings),
        "synced": bool(page.dashboard.services.settings.directory.accounts),
    }
    return render_page(page, "operator/account.html", context, outcome)


async def confirm_api_tokens_off(page: PageRequest) -> Confirmation:
    """Describe which tokens stop working."""
    account = await _requested_account(page)
    return Confirmation(
        title="Turn off API tokens",
        about=format_name(account.name),
        text="No seat can create or use API tokens on this account until you turn them on again.",
        ends=(await ending_tokens(page, client_id=account.client_id),),
        button="Turn off",
        cancel=f"accounts/{account.client_id}",
    )


async def turn_api_tokens_off(page: PageRequest) -> Response:
    """Refuse API tokens on an account."""
    return await _set_api_tokens(page, enabled=False)


async def turn_api_tokens_on(page: PageRequest) -> Response:
    """Allow API tokens on an account."""
    return await _set_api_tokens(page, enabled=True)


async def put_grant(page: PageRequest) -> Response | PageOutcome:
    """Add the permissions of a seat on an account, or change them. A person without a seat can be invited."""
    form, account = page.form, await _requested_account(page)
    email, invites = form.get("email", "").strip()[: MAX_EMAIL_LENGTH + 1], form.get("invite") == "yes"
    new_seat = Seat(page.dashboard.services.new_id(), email, None)
    reduced: list[Seat] = []

    def work(stores: Stores) -> None:
        if invites and stores.seats.by_email(email) is None:
            edits.add_seat(stores, new_seat, page.now, actor=page.seat.email)
            invite_seat(stores, new_seat, page)
        seat = find_seat(stores, email)
        before, grant = edits.grant_of(stores, seat, account.client_id), _requested_grant(page, account, seat)
        if before is not None and before.exceeds(grant):
            reduced.append(seat)
        else:
            edits.put_grant(stores, seat, grant, page.now, actor=page.seat.email)

    try:
        response = await _change(page, account, work, "grant-invited" if invites else "grant-saved")
    except OperatorError as error:
        return invalid_field("email", error.message)
    if reduced:
        wanted = {name: form[name] for name in _PERMISSIONS if name in form}
        return page.redirect(f"accounts/{account.client_id}/grants/{reduced[0].seat_id}/reduce", **wanted)
    return response


async def confirm_reduction(page: PageRequest) -> Confirmation:
    """Describe what ends when the seat in the path has fewer permissions on the account."""
    account, seat = await _requested_account(page), await requested_seat(page)
    grant, ends = _requested_grant(page, account, seat), []
    if not grant.allows_tokens:
        ends.append(await ending_tokens(page, seat=seat, client_id=account.client_id))
    if not grant.manages_webhooks:
        ends.append(await ending_webhooks(page, seat, account.client_id))
    labels = [*grant.roles, "Data Export" * grant.data_export, "Async REST API" * grant.async_rest_api]
    return Confirmation(
        title="Reduce access",
        about=f"{seat.email} on {format_name(account.name)}",
        text="The person keeps the role and the permissions below. API tokens that stop working do not come back when "
        "you grant access again.",
        facts=(("Keeps", ", ".join(filter(None, labels))),),
        ends=ends,
        hidden=_PERMISSIONS,
        button="Reduce access",
        cancel=f"accounts/{account.client_id}",
    )


async def reduce_grant(page: PageRequest) -> Response:
    """Replace the permissions of the seat in the path on the account by fewer."""
    account, seat = await _requested_account(page), await requested_seat(page)
    grant = _requested_grant(page, account, seat)

    def work(stores: Stores) -> None:
        edits.put_grant(stores, seat, grant, page.now, actor=page.seat.email)

    return await _change(page, account, work, "grant-saved")


async def confirm_grant_removal(page: PageRequest) -> Confirmation:
    """Describe what the seat in the path loses on the account."""
    account, seat = await _requested_account(page), await requested_seat(page)
    return Confirmation(
        title="Remove access",
        about=f"{seat.email} on {format_name(account.name)}",
        text="The person no longer sees this account. Scripts with their API tokens on it stop working immediately. "
        "The tokens do not come back when you grant access again.",
        ends=(
            await ending_tokens(page, seat=seat, client_id=account.client_id),
            await ending_webhooks(page, seat, account.client_id),
        ),
        button="Remove access",
        cancel=f"accounts/{account.client_id}",
    )


async def remove_grant(page: PageRequest) -> Response:
    """Remove the permissions of a seat on an account."""
    account, seat = await _requested_account(page), await requested_seat(page)

    def work(stores: Stores) -> None:
        edits.remove_grant(stores, seat, account.client_id, page.now, actor=page.seat.email)

    return await _change(page, account, work, "grant-removed")


async def _set_api_tokens(page: PageRequest, *, enabled: bool) -> Response:
    account = await _requested_account(page)

    def work(stores: Stores) -> None:
        edits.set_api_tokens_enabled(stores, account, page.now, enabled=enabled, actor=page.seat.email)

    return await _change(page, account, work, "api-tokens-on" if enabled else "api-tokens-off")


async def _change(page: PageRequest, account: Account, work: Callable[[Stores], None], done: str) -> Response:
    await page.run_task(lambda: page.dashboard.services.state.write(work))
    return page.redirect(f"accounts/{account.client_id}", done=done)


def _requested_grant(page: PageRequest, account: Account, seat: Seat) -> Grant:
    """Return the permissions that a form or a query names. Raises InvalidRequest."""
    role, chosen = page.fields.get("role", ""), page.fields.get
    if role not in ROLES:
        raise InvalidRequest(f"Choose a role: {', '.join(ROLES)}.")
    exports, calls = chosen("data_export") == "yes", chosen("async_rest_api") == "yes"
    return Grant(seat.seat_id, account.client_id, (role,), data_export=exports, async_rest_api=calls)


async def _requested_account(page: PageRequest) -> Account:
    client_id = page.request.path_params["account_id"]
    account = await page.dashboard.services.state.aread(lambda stores: stores.directory.account(client_id))
    if account is None:
        raise NotFound("No such account.")
    return account
