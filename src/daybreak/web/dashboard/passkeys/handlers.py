"""Handlers of the pages that add, rename and remove a passkey."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access import passkeys
from daybreak.access.sessions import require_recent_password
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unauthenticated
from daybreak.domain.identity import Passkey
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.password_prompt.handlers import prompt_or_raise
from daybreak.web.dashboard.rendering import redirect

_SECURITY_PATH = "settings/security"
_PATH = f"{_SECURITY_PATH}/passkeys"
_MAXIMUM_NAME_LENGTH = 100


async def show_new_passkey_form(page: PageRequest) -> Response:
    """Show the form of a new passkey, after the password prompt if the password was not entered recently."""
    name = page.request.query_params.get("name", "")[:_MAXIMUM_NAME_LENGTH]
    try:
        require_recent_password(page.dashboard.services.access, page.session)
    except Forbidden as error:
        return prompt_or_raise(page, error, _new_path(name))
    return _form_page(page, name)


async def issue_options(page: PageRequest) -> Response:
    """Return the options with which the browser creates a passkey, as JSON."""
    form = await read_page_form(page)
    try:
        options = await passkeys.begin_adding(page.dashboard.services.access, page.active_session)
    except Forbidden as error:
        return prompt_or_raise(page, error, _new_path(form.get("name", "")[:_MAXIMUM_NAME_LENGTH]))
    return Response(options, media_type="application/json")


async def add_passkey(page: PageRequest) -> Response:
    """Add the passkey that the browser created."""
    form = await read_page_form(page)
    name, response = form.get("name", "")[:_MAXIMUM_NAME_LENGTH], form.get("response", "")
    access = page.dashboard.services.access
    try:
        await passkeys.add(access, page.active_session, name=name, response=response, caller=page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, _new_path(name))
    except (InvalidRequest, Conflict) as error:
        return _form_page(page, name, rejected(error, "name"))
    except Unauthenticated as error:
        return _form_page(page, name, rejected(error, "passkey"))
    return _redirect(page, "passkey-added")


async def show_rename_form(page: PageRequest) -> Response:
    """Ask for a new name."""
    passkey = await _requested_passkey(page)
    return _rename_page(page, passkey, passkey.name)


async def rename_passkey(page: PageRequest) -> Response:
    """Rename a passkey."""
    form = await read_page_form(page)
    passkey, name = await _requested_passkey(page), form.get("name", "")[:_MAXIMUM_NAME_LENGTH]
    try:
        await passkeys.rename(page.dashboard.services.access, page.active_session, passkey, name, page.caller)
    except InvalidRequest as error:
        return _rename_page(page, passkey, name, rejected(error, "name"))
    return _redirect(page, "passkey-renamed")


async def show_remove_form(page: PageRequest) -> Response:
    """Ask for confirmation before a passkey is removed, after the password prompt."""
    passkey = await _requested_passkey(page)
    try:
        require_recent_password(page.dashboard.services.access, page.session)
    except Forbidden as error:
        return prompt_or_raise(page, error, f"{_PATH}/{passkey.reference}/remove")
    return render_page(page, "passkeys/remove.html", "security", {"passkey": passkey})


async def remove_passkey(page: PageRequest) -> Response:
    """Remove a passkey."""
    await read_page_form(page)
    try:
        passkey = await _requested_passkey(page)
    except NotFound:
        # The form was sent twice; the first request has removed it.
        return _redirect(page, "passkey-gone")
    try:
        removed = await passkeys.remove(page.dashboard.services.access, page.active_session, passkey, page.caller)
    except Forbidden as error:
        return prompt_or_raise(page, error, f"{_PATH}/{passkey.reference}/remove")
    return _redirect(page, "passkey-removed" if removed else "passkey-gone")


async def _requested_passkey(page: PageRequest) -> Passkey:
    access, reference = page.dashboard.services.access, page.request.path_params["reference"]
    return await passkeys.find(access, page.seat, reference)


def _redirect(page: PageRequest, done: str) -> Response:
    return redirect(page.dashboard, page.path(f"{_SECURITY_PATH}?done={done}"))


def _new_path(name: str) -> str:
    return f"{_PATH}/new?{urlencode({'name': name})}" if name else f"{_PATH}/new"


def _form_page(page: PageRequest, name: str, outcome: PageOutcome = SUCCESS) -> Response:
    available = passkeys.are_available(page.dashboard.services.access)
    if not available or not page.seat.second_factor_enrolled:
        # The list explains why.
        return redirect(page.dashboard, page.path(_SECURITY_PATH))
    return render_page(page, "passkeys/new.html", "security", {"name": name}, outcome)


def _rename_page(page: PageRequest, passkey: Passkey, name: str, outcome: PageOutcome = SUCCESS) -> Response:
    return render_page(page, "passkeys/rename.html", "security", {"passkey": passkey, "name": name}, outcome)
