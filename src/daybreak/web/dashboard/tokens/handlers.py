"""Handlers of the API token pages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access import api_tokens
from daybreak.access.authorization import require
from daybreak.access.sessions import require_recent_password
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound
from daybreak.domain.identity import ApiToken
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.form_ids import claim_form, new_form_id, release_form
from daybreak.web.dashboard.freshness.queries import load_status
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.password_prompt.handlers import redirect_to_password_prompt
from daybreak.web.dashboard.rendering import redirect
from daybreak.web.dashboard.tokens.view import (
    DEFAULT_EXPIRY,
    DELIVERIES,
    EXPIRIES,
    created_context,
    token_rows,
    token_view,
)

_PATH = "settings/tokens"
_MAXIMUM_NAME_LENGTH = 100


async def list_tokens(page: PageRequest) -> Response:
    """List the account's tokens that the user may see."""
    empty_state = None
    tokens: list[ApiToken] = []
    try:
        tokens = await api_tokens.list_of_account(page.dashboard.services.access, page.principal)
    except Forbidden as error:
        empty_state = _with_contact(page, error_state(error))
    context: dict[str, object] = {
        "tokens": token_rows(tokens, page.now),
        "empty_state": empty_state,
        "status": await load_status(page),
    }
    return render_page(page, "tokens/page.html", "tokens", context)


async def show_new_token_form(page: PageRequest) -> Response:
    """Show the form of a new token, after the password prompt if the password was not entered recently."""
    require(page.principal, "manage_api_tokens", page.client_id)
    parameters = page.request.query_params
    values = {
        "name": parameters.get("name", "")[:_MAXIMUM_NAME_LENGTH],
        "expiry": parameters.get("expiry", DEFAULT_EXPIRY),
        "delivery": parameters.get("delivery", ""),
    }
    return _prompt_if_needed(page, values) or _form_page(page, values)


async def create_token(page: PageRequest) -> Response:
    """Create a token and show it once."""
    form = await read_page_form(page)
    values = {
        "name": form.get("name", "")[:_MAXIMUM_NAME_LENGTH],
        "expiry": form.get("expiry", ""),
        "delivery": form.get("delivery", ""),
    }
    prompt = _prompt_if_needed(page, values)
    if prompt is not None:
        return prompt
    if values["expiry"] not in EXPIRIES:
        return _form_page(page, values, invalid_field("expiry", "Choose an option from the list."))
    if values["delivery"] not in DELIVERIES:
        return _form_page(page, values, invalid_field("delivery", "Choose an option from the list."))
    form_id = form.get("form_id", "")
    if not await claim_form(page, form_id):
        return redirect(page.dashboard, page.path(f"{_PATH}?done=token-exists"))
    _, lifetime = EXPIRIES[values["expiry"]]
    _, serve_gzip_as = DELIVERIES[values["delivery"]]
    try:
        created = await api_tokens.create(
            page.dashboard.services.access,
            page.principal,
            name=values["name"],
            expires_at=page.now + lifetime if lifetime is not None else None,
            caller=page.caller,
            serve_gzip_as=serve_gzip_as,
        )
    except (InvalidRequest, Conflict) as error:
        await release_form(page, form_id)
        return _form_page(page, values, rejected(error, "name"))
    return render_page(page, "tokens/created.html", "tokens", created_context(page, created))


async def show_revoke_form(page: PageRequest) -> Response:
    """Ask for confirmation before a token is revoked."""
    token = await _requested_token(page)
    if token.revoked_at is not None:
        return redirect(page.dashboard, page.path(f"{_PATH}?done=token-gone"))
    return render_page(page, "tokens/revoke.html", "tokens", {"token": token_view(token, page.now)})


async def revoke_token(page: PageRequest) -> Response:
    """Revoke a token."""
    await read_page_form(page)
    token = await _requested_token(page)
    await api_tokens.revoke(page.dashboard.services.access, page.principal, token.token_id, page.caller)
    done = "token-revoked" if token.revoked_at is None else "token-gone"
    return redirect(page.dashboard, page.path(f"{_PATH}?done={done}"))


def _prompt_if_needed(page: PageRequest, values: Mapping[str, str]) -> Response | None:
    try:
        require_recent_password(page.dashboard.services.access, page.session)
    except Forbidden:
        return redirect_to_password_prompt(page, f"{_PATH}/new?{urlencode(values)}")
    return None


def _form_page(page: PageRequest, values: Mapping[str, str], outcome: PageOutcome = SUCCESS) -> Response:
    context: dict[str, object] = {
        "values": values,
        "expiries": [(key, label) for key, (label, _) in EXPIRIES.items()],
        "deliveries": [(key, label) for key, (label, _) in DELIVERIES.items()],
        "form_id": new_form_id(page),
    }
    return render_page(page, "tokens/new.html", "tokens", context, outcome)


def _with_contact(page: PageRequest, empty_state: EmptyState) -> EmptyState:
    contact = page.dashboard.services.settings.operator_contact
    return EmptyState(empty_state.heading, f"{empty_state.text} Contact: {contact}.") if contact else empty_state


async def _requested_token(page: PageRequest) -> ApiToken:
    token_id = page.request.path_params["token_id"]
    for token in await api_tokens.list_of_account(page.dashboard.services.access, page.principal):
        if token.token_id == token_id:
            return token
    raise NotFound("This account has no such token.")
