"""Handlers of the API token pages, with what a token has fetched, and of the page Connect."""

import base64
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.responses import Response

from daybreak.access import api_tokens
from daybreak.access.api_tokens import NewToken, TokenOptions
from daybreak.access.authorization import parse_networks, require
from daybreak.catalogue.resources import RESOURCES
from daybreak.credentials.s3_keys import static_key
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.display import format_count
from daybreak.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound
from daybreak.domain.identity import ApiToken, ServeGzipAs
from daybreak.events.expiring_tokens import DAYS_BEFORE
from daybreak.sharing import PROFILE_NAME, share_profile
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.formatting import format_countdown, format_date, format_number, format_user_agent
from daybreak.web.dashboard.freshness.view import load_status
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.paging import slice_of
from daybreak.web.dashboard.rendering import SUCCESS, PageOutcome, invalid_field, rejected, render_template
from daybreak.web.dashboard.tokens.recipes import examples_of, recipes_of

_PATH = "settings/tokens"
_MAXIMUM_NAME_LENGTH = 100
DEFAULT_EXPIRY = "90"
EXPIRIES: Mapping[str, tuple[str, timedelta | None]] = {
    "30": ("In 30 days", timedelta(days=30)),
    "90": ("In 90 days", timedelta(days=90)),
    "365": ("In 1 year", timedelta(days=365)),
    "never": ("Never", None),
}
"""Label and lifetime of each choice of the expiry menu."""

DELIVERIES: Mapping[str, tuple[str, ServeGzipAs | None]] = {
    "": ("Default of this service", None),
    "file": ("gzip files", "file"),
    "encoding": ("Text, compressed in transfer", "encoding"),
}
"""Label and value of each choice of the delivery menu."""

ACTION = "file.fetched"
_MAXIMUM_EVENTS = 2000
_PAGE_LENGTH = 50
_ROWS_SHOWN = 20
_LIVE_FOR = timedelta(hours=1)
_TITLES = {resource.name: resource.title for resource in RESOURCES}


async def list_tokens(page: PageRequest) -> Response:
    """List the account's tokens that the user may see, live ones first, then newest first."""
    tokens: list[ApiToken] = []
    if page.refusal is None:
        tokens = await api_tokens.list_of_account(page.services, page.principal)
    tokens = sorted(tokens, key=lambda each: (each.state_at(page.now) != "live", -each.created_at.timestamp()))
    context: dict[str, object] = {
        "tokens": slice_of(page, tokens, _PAGE_LENGTH, lambda number: page.url("settings/tokens", page=number)),
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
    expires_at = page.now + lifetime if lifetime is not None else None
    try:
        options = TokenOptions(values["name"], expires_at, serve_gzip_as, _networks(values))
        created = await api_tokens.create(page.services, page.principal, options, page.caller)
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
        "examples": examples_of(page.services.settings, page.client_id).values(),
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


async def load_live_token(page: PageRequest) -> dict[str, object] | Response:
    """Return the variables of the page that asks to confirm a revocation. Redirect if the token was revoked."""
    token = await _requested_token(page)
    if token.revoked_at is not None:
        return page.redirect(_PATH, done="token-gone")
    return {"token": token, "trace": await load_trace(page, token)}


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


def expiry_badge(token: ApiToken, now: datetime) -> tuple[str, str]:
    """Return kind and text of the badge of a token: its state, or when it expires if that is soon."""
    state = token.state_at(now)
    if state == "live" and token.expires_at is not None:
        days = math.ceil((token.expires_at - now) / timedelta(days=1))
        if days <= max(DAYS_BEFORE):
            left = f"in {format_count(days, 'day')}" if days > 1 else format_countdown(token.expires_at, now)
            return ("bad" if days <= min(DAYS_BEFORE) else "warn"), f"expires {left}"
    return {"live": ("good", "active"), "expired": ("", "expired"), "revoked": ("bad", "revoked")}[state]


def created_context(page: PageRequest, created: NewToken, tool: str) -> dict[str, object]:
    """Return the variables of the page that shows a new token with the recipe of a tool, or examples that use it."""
    settings, keyring = page.services.settings, page.services.keyring.current()
    return {
        "recipe": recipes_of(settings, page.client_id).get(tool),
        # After a reload, the page of the token replaces the secret.
        "history_url": page.url(f"settings/tokens/{created.token.token_id}"),
        "token": created.token,
        "secret": created.secret,
        "examples": examples_of(settings, page.client_id).values(),
        "profile_url": _profile_url(page, created),
        "profile_name": PROFILE_NAME,
        "s3_key": static_key(created.token.token_id, keyring=keyring) if settings.attach.s3 else None,
        "s3_endpoint": settings.attach_url,
    }


def _profile_url(page: PageRequest, created: NewToken) -> str:
    """Return the data URL of a Delta Sharing profile, "" unless the service has the protocol enabled."""
    settings = page.services.settings
    if not settings.sharing.enabled:
        return ""
    profile = share_profile(settings.base_url, created.secret, created.token.expires_at)
    # A data URL (RFC 2397) needs no second request.
    return f"data:application/json;base64,{base64.b64encode(profile).decode()}"


@dataclass(frozen=True, slots=True)
class Fetches:
    """Equal fetches: the same file, by the same client, from the same address. `size_bytes` is that of the last one."""

    file: str
    size_bytes: int | None
    address: str
    client: str
    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """The most recent fetches with a token. `text` is a sentence about them."""

    rows: Sequence[Fetches]
    text: str
    is_live: bool


async def load_trace(page: PageRequest, token: ApiToken) -> TokenTrace:
    """Read what a token has fetched, up to 2,000 files."""
    query = AuditQuery(
        client_id=token.client_id,
        seat_id=token.seat_id,
        subject=token.subject,
        action=ACTION,
        succeeded=True,
        since=token.created_at,
        newest_first=True,
        limit=_MAXIMUM_EVENTS,
    )
    # In a thread: an account may have millions of events.
    events = await page.read_long(lambda stores: stores.audit.read(query))
    return trace_of(events, is_live=page.now < token.created_at + _LIVE_FOR)


def trace_of(events: Sequence[AuditEvent], *, is_live: bool) -> TokenTrace:
    """Return the trace of events, which are newest first."""
    keyed = [(_key(event), event) for event in events]
    counts = Counter(key for key, _ in keyed)
    newest = dict(reversed(keyed))
    rows = [
        Fetches(key[0], _size(event), *key[1:], counts[key], event.at)
        for key, event in sorted(newest.items(), key=lambda each: each[1].at, reverse=True)
    ]
    return TokenTrace(rows[:_ROWS_SHOWN], trace_text(events), is_live)


def trace_text(events: Sequence[AuditEvent]) -> str:
    """Return a sentence: which file the token fetched most often, from where, and since when."""
    if not events:
        return "It has fetched no files."
    names = [str(event.details.get("file", "")) for event in events]
    titles = Counter(_TITLES.get(name.partition(".")[0], name) for name in names)
    addresses = {event.address for event in events}
    where = f"from {addresses.pop()}" if len(addresses) == 1 else f"from {format_number(len(addresses))} addresses"
    since = "at least since" if len(events) == _MAXIMUM_EVENTS else "since"
    source = f"{where} {since} {format_date(events[-1].at)}"
    (title, most), *others = titles.most_common()
    if not others:
        return f"It has fetched {title} {'once' if most == 1 else f'{format_number(most)} times'} {source}."
    favorite = f", most often {title}" if most > others[0][1] else ""
    return f"{format_count(len(events), 'download')} of {format_count(len(titles), 'file')} {source}{favorite}."


def _key(event: AuditEvent) -> tuple[str, str, str]:
    client = format_user_agent(event.user_agent) if event.user_agent else ""
    return str(event.details.get("file", "")), event.address, client


def _size(event: AuditEvent) -> int | None:
    size_bytes = event.details.get("bytes")
    return size_bytes if isinstance(size_bytes, int) else None
