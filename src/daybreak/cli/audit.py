"""`daybreakd audit`: the trail of who did what."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from daybreak.cli.options import AsJson, Config, Limit, account_id, back_or_instant, instant, settings_of
from daybreak.cli.output import is_terminal, note, say_json, say_table, shown_instant

if TYPE_CHECKING:
    from daybreak.domain.audit import AuditEvent

_LOOK_SECONDS = 1.0
_AT_ONCE = 1000


def audit(
    *,
    account: Annotated[str | None, Parameter(help="Only events on this account (client_id).")] = None,
    seat: Annotated[str | None, Parameter(help="Only events of this seat (email).")] = None,
    action: Annotated[
        str | None, Parameter(help="Only this action, such as file.fetched; token.* for all that begin so.")
    ] = None,
    since: Annotated[str | None, Parameter(help="From this instant on, or a time back such as 2h or 7d.")] = None,
    until: Annotated[str | None, Parameter(help="Before this instant.")] = None,
    limit: Limit = 100,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative="", help="Go on with what happens from now.")
    ] = False,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """Read the audit trail, oldest first. In a pipe and with --json each event is one JSON line."""
    from daybreak.access.operators import seat_named
    from daybreak.bootstrap import now_utc, open_state

    client_id = account_id(account, "--account") if account is not None else None
    start = back_or_instant(since, "--since", now_utc()) if since is not None else None
    end = instant(until, "--until") if until is not None else None
    with closing(open_state(settings_of(config))) as state:
        seat_id = state.read(lambda stores: seat_named(stores, seat).seat_id) if seat is not None else None

        def read(**page: Any) -> "list[AuditEvent]":
            return state.read(
                lambda stores: stores.audit.read(
                    client_id=client_id, seat_id=seat_id, action=action, since=start, until=end, **page
                )
            )

        events = read(newest_first=True, limit=limit)[::-1]
        _show(events, as_lines=json or follow or not is_terminal())
        if follow:
            newest = events[-1:] or state.read(lambda stores: stores.audit.read(newest_first=True, limit=1))
            _follow(read, newest[0].event_id if newest else None)
        elif not events:
            note("No event matches.")


def _follow(read: "Callable[..., list[AuditEvent]]", last: int | None) -> None:
    """Shows what comes after an event, until it is interrupted."""
    while True:
        time.sleep(_LOOK_SECONDS)
        events = read(after_id=last, limit=_AT_ONCE)
        _show(events, as_lines=True)
        last = events[-1].event_id if events else last


def _show(events: "list[AuditEvent]", *, as_lines: bool) -> None:
    import sys

    from msgspec.structs import asdict

    if as_lines:
        for event in events:
            say_json({name: value for name, value in asdict(event).items() if value not in (None, "", {})})
        sys.stdout.flush()
        return
    say_table(
        ("AT (UTC)", "ACTION", "RESULT", "ACTOR", "ACCOUNT", "FROM", "DETAILS"),
        [
            (
                shown_instant(event.at),
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
