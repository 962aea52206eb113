"""Handlers of the API token pages, and of the page Connect."""

from collections.abc import Mapping

from starlette.responses import Response

from daybreak.access import api_tokens
from daybreak.access.api_tokens import TokenOptions
from daybreak.access.authorization import parse_networks, require
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound
from daybreak.domain.identity import ApiToken
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.formatting import format_ago, format_datetime
from daybreak.web.dashboard.freshness.view import load_status
from daybreak.web.dashboard.page_layout import Confirmation, render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, invalid_field, rejected, render_template
from daybreak.web.dashboard.tokens.examples import first_request
from daybreak.web.dashboard.tokens.recipes import recipes_of
from daybreak.web.dashboard.tokens.view import (
    ACTION,
    DEFAULT_EXPIRY,
    DELIVERIES,
    EXPIRIES,
    created_context,
    expiry_badge,
    load_trace,
    ordered_tokens,
)

_PATH = "settings/tokens"
_MAXIMUM_NAME_LENGTH = 100


async def list_tokens(page: PageRequest) -> Response:
    """List the account's tokens that the user may see."""
    tokens: list[ApiToken] = []
    if page.refusal is None:
        tokens = await api_tokens.list_of_account(page.services, page.principal)
    context: dict[str, object] = {
        "tokens": ordered_tokens(tokens, page.now),
        "badge": expiry_badge,
        "empty_state": _with_contact(page, error_state(page.refusal)) if page.refusal is not None else None,
        "status": await load_status(page),
    }
    return render_page(page, "tokens/page.html", context)


async def show_new_token_form(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    context: dict[str, object] = {
        "values": _values(page),
        "expiries": [(key, label) for key, (label, _) in EXPIRIES.items()],
        "deliveries": [(key, label) for key, (label, _) in DELIVERIES.items()],
        "address": page.caller.address,
    }
    return render_page(page, "tokens/new.html", context, outcome)


async def create_token(page: PageRequest) -> Response | PageOutcome:
    """Create a token and show it once."""
    values = _values(page)
    if values["expiry"] not in EXPIRIES:
        return invalid_field("expiry", "Choose an option from the list.")
    if values["delivery"] not in DELIVERIES:
        return invalid_field("delivery", "Choose an option from the list.")
    _, lifetime = EXPIRIES[values["expiry"]]
    _, serve_gzip_as = DELIVERIES[values["delivery"]]
    try:
        created = await api_tokens.create(
            page.services,
            page.principal,
            name=values["name"],
            expires_at=page.now + lifetime if lifetime is not None else None,
            caller=page.caller,
            options=TokenOptions(serve_gzip_as, _networks(values)),
        )
    except (InvalidRequest, Conflict) as error:
        return rejected(error, _field_of(error))
    return render_page(page, "tokens/created.html", created_context(page, created, values["tool"]))


async def show_token(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """Show a token: its use and expiry, its name, and examples that use it."""
    token, fields = await _requested_token(page), page.fields
    context: dict[str, object] = {
        "token": token,
        "badge": expiry_badge,
        "name": fields.get("name", token.name)[:_MAXIMUM_NAME_LENGTH],
        "networks": fields.get("networks", "\n".join(token.allowed_networks)),
        "address": page.caller.address,
        "examples": first_request(page.services.settings, page.client_id).examples(),
        "trace": await load_trace(page, token),
        "trace_query": {"token": token.token_id, "action": ACTION},
    }
    return render_page(page, "tokens/show.html", context, outcome)


async def show_first_use(page: PageRequest) -> Response:
    """Return the partial about the first request, which pages request until a token is used."""
    token = await _requested_token(page)
    if token.last_used_at is None and token.state_at(page.now) == "live":
        # The page stays unchanged, so that screen readers do not repeat the line.
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
    context: dict[str, object] = {"token": token, "account_url": page.url}
    return render_template(page, "tokens/first_use.html", context)


async def show_trace(page: PageRequest) -> Response:
    """Return the partial about fetched files, which the page of a new token requests at intervals."""
    token = await _requested_token(page)
    context: dict[str, object] = {"token": token, "trace": await load_trace(page, token), "account_url": page.url}
    return render_template(page, "tokens/trace.html", context)


async def change_token(page: PageRequest) -> Response | PageOutcome:
    """Change the name and the allowed addresses of a token."""
    token = await _requested_token(page)
    try:
        await api_tokens.change(
            page.services,
            page.principal,
            token.token_id,
            name=page.form.get("name", "")[:_MAXIMUM_NAME_LENGTH],
            allowed_networks=_networks(page.form),
            caller=page.caller,
        )
    except InvalidRequest as error:
        return rejected(error, _field_of(error))
    return page.redirect(f"{_PATH}/{token.token_id}", done="token-changed")


async def confirm_revocation(page: PageRequest) -> Confirmation | Response:
    """Describe what ends when a token is revoked."""
    token = await _requested_token(page)
    if token.revoked_at is not None:
        return page.redirect(_PATH, done="token-gone")
    return Confirmation(
        title="Revoke",
        name=token.name,
        text="Scripts using this token stop working immediately, including download links already issued. "
        f"You can't undo this. {(await load_trace(page, token)).text}",
        facts=(
            ("Token", f"\N{HORIZONTAL ELLIPSIS}{token.last_four}"),
            ("Created", f"{format_datetime(token.created_at)} by {token.created_by_email}"),
            ("Last used", format_ago(token.last_used_at, page.now)),
        ),
        button="Revoke token",
        cancel=_PATH,
    )


async def revoke_token(page: PageRequest) -> Response:
    token = await _requested_token(page)
    await api_tokens.revoke(page.services, page.principal, token.token_id, page.caller)
    return page.redirect(_PATH, done="token-revoked" if token.revoked_at is None else "token-gone")


def _values(page: PageRequest) -> dict[str, str]:
    fields = page.fields
    return {
        "name": fields.get("name", "")[:_MAXIMUM_NAME_LENGTH],
        "expiry": fields.get("expiry", DEFAULT_EXPIRY),
        "delivery": fields.get("delivery", ""),
        "networks": fields.get("networks", ""),
        "tool": fields.get("tool", ""),
    }


def _networks(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the networks of a form, separated by spaces, commas or line breaks. Raises InvalidRequest."""
    return parse_networks(values.get("networks", "").replace(",", " ").split())


def _field_of(error: InvalidRequest | Conflict) -> str:
    faults = error.faults if isinstance(error, InvalidRequest) else ()
    return "networks" if any(fault.pointer == "/allowed_networks" for fault in faults) else "name"


def _with_contact(page: PageRequest, empty_state: EmptyState) -> EmptyState:
    contact = page.services.settings.operator_contact
    return EmptyState(empty_state.heading, f"{empty_state.text} Contact: {contact}.") if contact else empty_state


async def _requested_token(page: PageRequest) -> ApiToken:
    token_id = page.request.path_params["token_id"]
    for token in await api_tokens.list_of_account(page.services, page.principal):
        if token.token_id == token_id:
            return token
    raise NotFound("This account has no such token.")


async def show_connect(page: PageRequest) -> Response:
    """Show the recipe of a tool, and the form that creates its token."""
    settings = page.services.settings
    recipes = recipes_of(settings, page.client_id)
    recipe = recipes.get(page.request.query_params.get("tool", ""), next(iter(recipes.values())))
    refusal = None
    try:
        require(page.principal, "manage_api_tokens", page.client_id)
    except Forbidden as error:
        refusal = error_state(error)
    context: dict[str, object] = {
        "recipes": list(recipes.values()),
        "recipe": recipe,
        "is_open": recipe.door.is_open(settings),
        "refusal": refusal,
        "expiry": DEFAULT_EXPIRY,
        "expires": EXPIRIES[DEFAULT_EXPIRY][0].lower(),
    }
    return render_page(page, "tokens/connect.html", context)
