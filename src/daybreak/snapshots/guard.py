"""The guard between a complete snapshot and its publication: it looks for what an operator would want to look at first.

Figures are compared with the snapshot that is served. What is found holds the publication back; yesterday's files stay
served until the operator accepts or discards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from daybreak.domain.snapshot import Snapshot
from daybreak.ports.snapshot_store import SnapshotStore
from daybreak.snapshots.plan import GuardRules
from daybreak.snapshots.report import count, part, resources_of


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is suspicious. `before` and `now` are rows, or a share of NULLs for `nulls`."""

    kind: Literal["rows", "leader_rows", "nulls", "references", "clock"]
    resource: str
    detail: str
    client_id: str | None = None
    column: str | None = None
    before: float | None = None
    now: float | None = None

    def as_json(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def clock_fault(served: Snapshot | None, now: datetime) -> list[Finding]:
    """A served snapshot of an instant to come, made while a clock was ahead: all that follow are older, and only an
    operator knows which clock is right.
    """
    if served is None or not served.ahead_of(now):
        return []
    detail = (
        f"What is served shows {served.as_of:%Y-%m-%d %H:%M:%S} UTC, which lies ahead of the clock "
        f"({now:%Y-%m-%d %H:%M:%S} UTC). If the clock is right, accept this snapshot."
    )
    return [Finding("clock", "as_of", detail)]


def row_drops(before: Mapping[str, object], now: Mapping[str, object], rules: GuardRules) -> Iterator[Finding]:
    """Resources that lost too large a share of their rows, and Leaders as one more: the small ones among them hold few
    rows, and without them their accounts have no files. Takes two run reports.
    """
    had, has = (
        {"leaders": count(report, "leaders")}
        | {resource: count(figures, "rows") for resource, figures in resources_of(report).items()}
        for report in (before, now)
    )
    for name, old_rows in had.items():
        new_rows = has.get(name, 0)
        if old_rows >= max(rules.drop_least_rows, 1) and old_rows - new_rows > rules.drop_share * old_rows:
            lost, limit = (old_rows - new_rows) / old_rows, f"{rules.drop_share:.0%}"
            detail = f"{name} has {new_rows} rows where it had {old_rows}: {lost:.0%} fewer (limit {limit})."
            yield Finding("rows", name, detail, before=old_rows, now=new_rows)


def null_growth(before: Mapping[str, object], now: Mapping[str, object], rules: GuardRules) -> Iterator[Finding]:
    """Columns whose share of NULLs grew too much. Takes two run reports."""
    for resource, new in resources_of(now).items():
        old = resources_of(before).get(resource, {})
        old_rows, new_rows = count(old, "rows"), count(new, "rows")
        if min(old_rows, new_rows) < max(rules.drop_least_rows, 1):
            continue
        old_nulls, new_nulls = part(old.get("nulls")), part(new.get("nulls"))
        for column in new_nulls:
            if column not in old_nulls:
                continue
            was, is_now = count(old_nulls, column) / old_rows, count(new_nulls, column) / new_rows
            if is_now - was > rules.null_share:
                detail = f"{resource}.{column} is NULL in {is_now:.0%} of the rows where it was in {was:.0%}."
                yield Finding("nulls", resource, detail, column=column, before=round(was, 4), now=round(is_now, 4))


def leader_drops(
    stores: SnapshotStore, served_id: str, snapshot_id: str, resource: str, rules: GuardRules
) -> Iterator[Finding]:
    """Large Leaders that lost too many rows of a resource since the served snapshot, by client_id. The database
    compares the manifests: nearly always it finds nothing to hand over.
    """
    least_rows, share = max(rules.leader_least_rows, 1), rules.leader_drop_share
    for client_id, old, new in stores.rows_lost(served_id, snapshot_id, resource, least_rows=least_rows, share=share):
        lost = (old - new) / old
        detail = f"Leader {client_id} has {new} rows of {resource} where it had {old}: {lost:.0%} fewer."
        yield Finding("leader_rows", resource, detail, client_id=client_id, before=old, now=new)
