"""Handlers of the pages that add, rename and remove a passkey."""

from __future__ import annotations

from starlette.responses import Response

from daybreak.access import passkeys
from daybreak.domain.errors import Conflict, InvalidRequest, NotFound, Unauthenticated
from daybreak.domain.identity import Passkey
from daybreak.web.dashboard.confirmation import Confirmation
from daybreak.web.dashboard.formatting import format_ago, format_datetime
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest

_SECURITY_PATH = "settings/security"
_MAXIMUM_NAME_LENGTH = 100


async def show_new_passkey_form(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    available = passkeys.are_available(page.services)
    if not available or not page.seat.second_factor_enrolled:
        # The list explains why.
        return page.redirect(_SECURITY_PATH)
    return render_page(page, "passkeys/new.html", {"name": _name(page, "")}, outcome)


async def issue_options(page: PageRequest) -> Response:
    """Return the options with which the browser creates a passkey, as JSON."""
    options = await passkeys.begin_adding(page.services, page.active_session)
    return Response(options, media_type="application/json")


async def add_passkey(page: PageRequest) -> Response | PageOutcome:
    """Add the passkey that the browser created."""
    services, response = page.services, page.form.get("response", "")
    try:
        await passkeys.add(services, page.active_session, name=_name(page, ""), response=response, caller=page.caller)
    except (InvalidRequest, Conflict) as error:
        return rejected(error, "name")
    except Unauthenticated as error:
        return rejected(error, "passkey")
    return page.redirect(_SECURITY_PATH, done="passkey-added")


async def show_rename_form(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    passkey = await _requested_passkey(page)
    context: dict[str, object] = {"passkey": passkey, "name": _name(page, passkey.name)}
    return render_page(page, "passkeys/rename.html", context, outcome)


async def rename_passkey(page: PageRequest) -> Response | PageOutcome:
    passkey, services = await _requested_passkey(page), page.services
    try:
        await passkeys.rename(services, page.active_session, passkey, _name(page, ""), page.caller)
    except InvalidRequest as error:
        return rejected(error, "name")
    return page.redirect(_SECURITY_PATH, done="passkey-renamed")


async def confirm_removal(page: PageRequest) -> Confirmation:
    """Describe what ends when a passkey is removed."""
    passkey = await _requested_passkey(page)
    return Confirmation(
        title="Remove",
        name=passkey.name,
        text="You won't be able to sign in with this passkey. Codes of your authenticator app keep working. Delete the "
        "passkey on your device too.",
        facts=(
            ("Added", format_datetime(passkey.created_at)),
            ("Last used", format_ago(passkey.last_used_at, page.now)),
        ),
        button="Remove passkey",
        cancel=_SECURITY_PATH,
    )


async def remove_passkey(page: PageRequest) -> Response:
    services = page.services
    try:
        removed = await passkeys.remove(services, page.active_session, await _requested_passkey(page), page.caller)
    except NotFound:
        # The form was sent twice; the first request has removed it.
        removed = False
    return page.redirect(_SECURITY_PATH, done="passkey-removed" if removed else "passkey-gone")


def _name(page: PageRequest, default: str) -> str:
    return page.fields.get("name", default)[:_MAXIMUM_NAME_LENGTH]


async def _requested_passkey(page: PageRequest) -> Passkey:
    services, reference = page.services, page.request.path_params["reference"]
    return await passkeys.find(services, page.seat, reference)
