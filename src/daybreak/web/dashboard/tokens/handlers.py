"""Handlers of the API token pages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.responses import Response

from daybreak.access import api_tokens
from daybreak.access.allowed_networks import parse_networks
from daybreak.access.api_tokens import TokenOptions
from daybreak.access.authorization import require
from daybreak.access.sessions import require_recent_password
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound
from daybreak.domain.identity import ApiToken
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.form_ids import claimed_form, new_form_id
from daybreak.web.dashboard.freshness.queries import load_status
from daybreak.web.dashboard.outcome import SUCCESS, PageOutcome, invalid_field, rejected
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.password_prompt.handlers import prompt_or_raise, redirect_to_password_prompt
from daybreak.web.dashboard.rendering import redirect, render_template
from daybreak.web.dashboard.tokens.view import (
    DEFAULT_EXPIRY,
    DELIVERIES,
    EXPIRIES,
    created_context,
    first_request,
    is_waiting,
    token_rows,
    token_view,
)

_PATH = "settings/tokens"
_MAXIMUM_NAME_LENGTH = 100
_MAXIMUM_NETWORKS_LENGTH = 3000


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
        "networks": parameters.get("networks", "")[:_MAXIMUM_NETWORKS_LENGTH],
    }
    return _prompt_if_needed(page, values) or _form_page(page, values)


async def create_token(page: PageRequest) -> Response:
    """Create a token and show it once."""
    form = await read_page_form(page)
    values = {
        "name": form.get("name", "")[:_MAXIMUM_NAME_LENGTH],
        "expiry": form.get("expiry", ""),
        "delivery": form.get("delivery", ""),
        "networks": form.get("networks", ""),
    }
    prompt = _prompt_if_needed(page, values)
    if prompt is not None:
        return prompt
    if values["expiry"] not in EXPIRIES:
        return _form_page(page, values, invalid_field("expiry", "Choose an option from the list."))
    if values["delivery"] not in DELIVERIES:
        return _form_page(page, values, invalid_field("delivery", "Choose an option from the list."))
    _, lifetime = EXPIRIES[values["expiry"]]
    _, serve_gzip_as = DELIVERIES[values["delivery"]]
    try:
        async with claimed_form(page, form.get("form_id", "")) as is_first:
            if not is_first:
                return redirect(page.dashboard, page.path(f"{_PATH}?done=token-exists"))
            created = await api_tokens.create(
                page.dashboard.services.access,
                page.principal,
                name=values["name"],
                expires_at=page.now + lifetime if lifetime is not None else None,
                caller=page.caller,
                options=TokenOptions(serve_gzip_as, _networks(values)),
            )
    except (InvalidRequest, Conflict) as error:
        return _form_page(page, values, rejected(error, _field_of(error)))
    return render_page(page, "tokens/created.html", "tokens", created_context(page, created))


async def show_token(page: PageRequest) -> Response:
    """Show a token: its use and expiry, its name, and examples that use it."""
    return _token_page(page, await _requested_token(page), page.request.query_params)


async def show_first_use(page: PageRequest) -> Response:
    """Return the partial about the first request, which pages request until a token is used."""
    token = await _requested_token(page)
    if is_waiting(token, page.now):
        # htmx leaves the page unchanged, so that screen readers do not repeat the line.
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
    context: dict[str, object] = {"token": token_view(token, page.now), "account_url": page.url}
    return render_template(page.dashboard, page.request, "tokens/first_use.html", context)


async def change_token(page: PageRequest) -> Response:
    """Change the name and the allowed addresses of a token. The latter requires a recent password."""
    form = await read_page_form(page)
    token, access = await _requested_token(page), page.dashboard.services.access
    values = {"name": form.get("name", ""), "networks": form.get("networks", "")}
    path = f"{_PATH}/{token.token_id}"
    try:
        networks = _networks(values)
        if networks != token.allowed_networks:
            require_recent_password(access, page.session)
        await api_tokens.change(
            access,
            page.principal,
            token.token_id,
            name=values["name"][:_MAXIMUM_NAME_LENGTH],
            allowed_networks=networks,
            caller=page.caller,
        )
    except InvalidRequest as error:
        return _token_page(page, token, values, rejected(error, _field_of(error)))
    except Forbidden as error:
        return prompt_or_raise(page, error, f"{path}?{urlencode({**values, 'done': 'confirm-again'})}")
    return redirect(page.dashboard, page.path(f"{path}?done=token-changed"))


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
        "address": page.caller.address,
        "form_id": new_form_id(page),
    }
    return render_page(page, "tokens/new.html", "tokens", context, outcome)


def _token_page(
    page: PageRequest, token: ApiToken, values: Mapping[str, str], outcome: PageOutcome = SUCCESS
) -> Response:
    """Return the page of a token. `values` are those of a form that was not saved."""
    context: dict[str, object] = {
        "token": token_view(token, page.now),
        "name": values.get("name", token.name)[:_MAXIMUM_NAME_LENGTH],
        "networks": values.get("networks", "\n".join(token.allowed_networks))[:_MAXIMUM_NETWORKS_LENGTH],
        "address": page.caller.address,
        "examples": first_request(page).examples(),
    }
    return render_page(page, "tokens/show.html", "tokens", context, outcome)


def _networks(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the networks of a form, separated by spaces, commas or line breaks. Raises InvalidRequest."""
    return parse_networks(values["networks"].replace(",", " ").split())


def _field_of(error: InvalidRequest | Conflict) -> str:
    """Return the form field that an error is about."""
    faults = error.faults if isinstance(error, InvalidRequest) else ()
    return "networks" if any(fault.pointer == "/allowed_networks" for fault in faults) else "name"


def _with_contact(page: PageRequest, empty_state: EmptyState) -> EmptyState:
    contact = page.dashboard.services.settings.operator_contact
    return EmptyState(empty_state.heading, f"{empty_state.text} Contact: {contact}.") if contact else empty_state


async def _requested_token(page: PageRequest) -> ApiToken:
    token_id = page.request.path_params["token_id"]
    for token in await api_tokens.list_of_account(page.dashboard.services.access, page.principal):
        if token.token_id == token_id:
            return token
    raise NotFound("This account has no such token.")
