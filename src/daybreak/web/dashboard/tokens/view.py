"""Template variables of the API token pages: tokens, and what a token has fetched."""

import base64
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.access.api_tokens import NewToken
from daybreak.catalogue.resources import RESOURCES
from daybreak.credentials.s3_keys import static_key
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.display import format_count
from daybreak.domain.identity import ApiToken, ServeGzipAs
from daybreak.events.expiring_tokens import DAYS_BEFORE
from daybreak.sharing import PROFILE_NAME, share_profile
from daybreak.web.dashboard.formatting import format_date, format_number, format_user_agent
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.tokens.examples import first_request
from daybreak.web.dashboard.tokens.recipes import recipes_of

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
_ROWS_SHOWN = 20
_LIVE_FOR = timedelta(hours=1)
_TITLES = {resource.name: resource.title for resource in RESOURCES}


def ordered_tokens(tokens: Iterable[ApiToken], now: datetime) -> list[ApiToken]:
    """Return live tokens first, then newest first."""
    return sorted(tokens, key=lambda token: (token.state_at(now) != "live", -token.created_at.timestamp()))


def expiry_badge(token: ApiToken, now: datetime) -> tuple[str, str]:
    """Return kind and text of the badge of a token: its state, or when it expires if that is soon."""
    state = token.state_at(now)
    if state == "live" and token.expires_at is not None:
        days = math.ceil((token.expires_at - now) / timedelta(days=1))
        if days <= max(DAYS_BEFORE):
            return ("bad" if days <= min(DAYS_BEFORE) else "warn"), f"expires in {format_count(days, 'day')}"
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
        "examples": first_request(settings, page.client_id).examples(),
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
    state = page.services.state
    # In a thread: an account may have millions of events.
    events = await page.run_task(lambda: state.read(lambda stores: stores.audit.read(query)))
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
    titles = Counter(_title(event) for event in events)
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


def _title(event: AuditEvent) -> str:
    name = str(event.details.get("file", ""))
    return _TITLES.get(name.partition(".")[0], name)
