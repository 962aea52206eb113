"""What an API token has fetched, from the audit trail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.counts import format_count
from daybreak.domain.identity import ApiToken
from daybreak.web.dashboard.formatting import format_date, format_number, format_user_agent
from daybreak.web.dashboard.page_request import PageRequest

ACTION = "file.fetched"
_MAXIMUM_EVENTS = 2000
_ROWS_SHOWN = 20
_LIVE_FOR = timedelta(hours=1)
_TITLES = {resource.name: resource.title for resource in RESOURCES}


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
    state = page.dashboard.services.state
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
