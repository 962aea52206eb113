"""`daybreakd audit`: the trail of who did what."""

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

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
    action: Annotated[str | None, Parameter(help="Only this action, such as login or file.fetched.")] = None,
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

    as_lines = json or follow or not is_terminal()
    client_id = account_id(account, "--account") if account is not None else None
    start = None
    if since is not None:
        start = back_or_instant(since, "--since", now_utc())
    end = instant(until, "--until") if until is not None else None
    with closing(open_state(settings_of(config))) as state:
        seat_id = state.read(lambda stores: seat_named(stores, seat).seat_id) if seat is not None else None

        def read(after_id: int | None, *, newest_first: bool, count: int) -> "list[AuditEvent]":
            return state.read(
                lambda stores: stores.audit.read(
                    client_id=client_id,
                    seat_id=seat_id,
                    action=action,
                    since=start,
                    until=end,
                    after_id=after_id,
                    newest_first=newest_first,
                    limit=count,
                )
            )

        events = read(None, newest_first=True, count=limit)[::-1]
        _show(events, as_lines=as_lines)
        if not events and not follow:
            note("No event matches.")
        last = events[-1].event_id if events else None
        if last is None and follow:
            newest = state.read(lambda stores: stores.audit.read(newest_first=True, limit=1))
            last = newest[0].event_id if newest else None
        while follow:
            time.sleep(_LOOK_SECONDS)
            events = read(last, newest_first=False, count=_AT_ONCE)
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
