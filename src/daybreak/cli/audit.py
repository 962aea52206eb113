"""`daybreakd audit`: the audit trail."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from msgspec.structs import asdict, replace

from daybreak.access.operators import find_seat
from daybreak.cli.options import (
    AsJson,
    Config,
    Flag,
    Limit,
    parse_client_id,
    parse_instant,
    parse_instant_or_age,
    state_of,
)
from daybreak.cli.output import format_instant, is_terminal, print_json, print_note, print_table
from daybreak.domain.audit import AuditEvent, AuditQuery
from daybreak.domain.clock import now_utc

_POLL_SECONDS = 1.0
_PAGE_SIZE = 1000


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Options that select events."""

    account: Annotated[str | None, Parameter(help="Only events on this account (client_id).")] = None
    seat: Annotated[str | None, Parameter(help="Only events of this seat (email).")] = None
    action: Annotated[
        str | None, Parameter(help="Only this action, such as file.fetched. A prefix ends in *, such as token.*.")
    ] = None
    since: Annotated[str | None, Parameter(help="From this instant, or an age such as 2h or 7d.")] = None
    until: Annotated[str | None, Parameter(help="Before this instant.")] = None


_ALL_EVENTS = EventFilter()


def audit(
    *,
    event_filter: EventFilter = _ALL_EVENTS,
    limit: Limit = 100,
    follow: Annotated[Flag, Parameter(name=["--follow", "-f"], help="Keep printing new events.")] = False,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """Print the audit trail, oldest first. In a pipe and with --json each event is one JSON line."""
    client_id, since, until, email = event_filter.account, event_filter.since, event_filter.until, event_filter.seat
    query = AuditQuery(
        client_id=parse_client_id(client_id, "--account") if client_id is not None else None,
        action=event_filter.action,
        since=parse_instant_or_age(since, "--since", now_utc()) if since is not None else None,
        until=parse_instant(until, "--until") if until is not None else None,
    )
    with state_of(config) as state:
        if email is not None:
            query = replace(query, seat_id=state.read(lambda stores: find_seat(stores, email).seat_id))

        def read(**page: Any) -> list[AuditEvent]:
            return state.read(lambda stores: stores.audit.read(replace(query, **page)))

        # Read first: an event that is recorded from here on is either printed or followed.
        newest = state.read(lambda stores: stores.audit.read(AuditQuery(newest_first=True, limit=1)))
        events = read(newest_first=True, limit=limit)[::-1]
        _print_events(events, as_lines=json or follow or not is_terminal())
        if follow:
            last = events[-1:] or newest
            _follow(read, last[0].event_id if last else None)
        elif not events:
            print_note("No event matches.")


def _follow(read: Callable[..., list[AuditEvent]], last_id: int | None) -> None:
    """Print events after `last_id` until the process is interrupted."""
    while True:
        time.sleep(_POLL_SECONDS)
        events = read(after_id=last_id, limit=_PAGE_SIZE)
        _print_events(events, as_lines=True)
        last_id = events[-1].event_id if events else last_id


def _print_events(events: list[AuditEvent], *, as_lines: bool) -> None:
    if as_lines:
        for event in events:
            print_json({name: value for name, value in asdict(event).items() if value not in (None, "", {})})
        sys.stdout.flush()
        return
    print_table(
        ("AT (UTC)", "ACTION", "RESULT", "ACTOR", "ACCOUNT", "FROM", "DETAILS"),
        [
            (
                format_instant(event.at),
                event.action,
                event.result,
                event.actor,
                event.client_id,
                event.address,
                " ".join(f"{name}={value}" for name, value in event.details.items()),
            )
            for event in events
        ],
    )
