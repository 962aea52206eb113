"""Insight: what the snapshot shows, drawn from the published files themselves.

Files are read off the event loop, at most so many bytes of each, and what they say is kept by
their digest: the same bytes are read once per worker.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeVar, cast

from starlette.responses import Response

from daybreak.access.authorization import require
from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import FileStoreError, Forbidden, Unavailable
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.ports.files import FileStore
from daybreak.ports.state import Stores
from daybreak.snapshots.freshness import freshness
from daybreak.web.dashboard.desk import Desk
from daybreak.web.dashboard.doorway import account_page
from daybreak.web.dashboard.file_reading import csv_rows, json_records
from daybreak.web.dashboard.insight_figures import (
    CampaignFigures,
    Days,
    MemberFigures,
    Usage,
    campaign_figures,
    channels_of,
    community_figures,
    member_figures,
    top,
    usage_figures,
)
from daybreak.web.dashboard.presentation import number, share
from daybreak.web.dashboard.visit import Visit, fault_of, show
from daybreak.web.routing import Route, methods

T = TypeVar("T")
_PERIODS = {"30": 30, "90": 90, "365": 365}
_MOST_BYTES = 256 << 20
_MOST_MEMBERS = 300_000
_KEPT = 64
_TOP = 12


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The figures of one account's files."""

    usage: Usage
    campaigns: list[CampaignFigures]
    members: MemberFigures
    communities: list[tuple[str, int]]


def insight_pages(desk: Desk) -> list[Route]:
    """The page."""
    return [methods("/dashboard/{client_id}/insight", GET=account_page(desk, _insight))]


async def _insight(visit: Visit) -> Response:
    try:
        require(visit.principal, "see_files", visit.client_id)
    except Forbidden as fault:
        heading, text = fault_of(fault)
        return _page(visit, {"blocked": {"heading": heading, "text": text}})
    publish_at = visit.desk.services.downloads.settings.publish_at

    def read(stores: Stores) -> tuple[Snapshot | None, dict[str, ManifestEntry]]:
        snapshot = freshness(stores.snapshots, visit.now, publish_at).snapshot
        if snapshot is None:
            return None, {}
        entries = stores.snapshots.manifest(snapshot.snapshot_id, visit.client_id)
        return snapshot, {entry.resource: entry for entry in entries}

    snapshot, entries = await visit.desk.services.state.aread(read)
    if snapshot is None or not entries:
        return _page(
            visit,
            {"blocked": {"heading": "No files yet", "text": "There is nothing to draw before the first publication."}},
        )
    drawn = await _drawn(visit, entries)
    asked = visit.request.query_params.get("days", "30")
    period = asked if asked in _PERIODS else "30"
    last = snapshot.as_of.date()
    first = last - timedelta(days=_PERIODS[period] - 1)
    return _page(visit, {**_context(drawn, first, last), "as_of": snapshot.as_of, "periods": _periods(visit, period)})


def _page(visit: Visit, context: dict[str, object]) -> Response:
    empty: dict[str, object] = {
        "blocked": None,
        "as_of": None,
        "periods": [],
        "figures": [],
        "charts": [],
        "breakdowns": [],
        "campaigns": [],
        "uses_charts": True,
    }
    return show(visit, "insight.html", "insight", {**empty, **context})


async def _drawn(visit: Visit, entries: dict[str, ManifestEntry]) -> _Drawn:
    desk = visit.desk

    async def kept(resource: str, make: Callable[[Sequence[str], Iterable[Sequence[str]]], T]) -> T:
        entry = entries[resource]
        stored = entry.formats.get("csv") or next(iter(entry.formats.values()))
        place = (resource, stored.content_sha256)
        if place not in desk.figures:
            try:
                made = await desk.off_loop(lambda: _read(desk.services.files, entry, make))
            except (FileStoreError, csv.Error, ValueError):
                raise Unavailable(
                    "The stored files cannot be read at the moment. Try again.", code="files_unavailable"
                ) from None
            if len(desk.figures) >= _KEPT:
                # The oldest goes first: a dict keeps the order things came in.
                del desk.figures[next(iter(desk.figures))]
            desk.figures[place] = made
        return cast("T", desk.figures[place])

    whole = entries["members"].rows
    return _Drawn(
        usage=await kept("outbound_message_type_usage", usage_figures),
        campaigns=await kept("campaigns", campaign_figures),
        members=await kept(
            "members", lambda columns, rows: member_figures(columns, rows, whole=whole, most=_MOST_MEMBERS)
        ),
        communities=await kept("communities", community_figures),
    )


def _read(store: FileStore, entry: ManifestEntry, make: Callable[[Sequence[str], Iterable[Sequence[str]]], T]) -> T:
    columns = resource_named(entry.resource).column_names
    if "csv" in entry.formats:
        rows: Iterable[Sequence[str]] = csv_rows(store, entry.formats["csv"].key, most_bytes=_MOST_BYTES)
        return make(columns, (row for row in rows if len(row) == len(columns)))
    records = json_records(store, entry.formats["json"].key, most_bytes=_MOST_BYTES)
    return make(columns, ([_plain(record.get(name)) for name in columns] for record in records))


def _plain(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _context(drawn: _Drawn, first: date, last: date) -> dict[str, object]:
    campaigns = [campaign for campaign in drawn.campaigns if first <= campaign.sent_at.date() <= last]
    messages = _within(drawn.usage.messages, first, last)
    segments = _within(drawn.usage.segments, first, last)
    recipients = sum(campaign.recipients for campaign in campaigns)
    members = drawn.members
    sample = "" if members.read == members.whole else f"a sample of {members.read:,} of {members.whole:,}"
    homes = top(members.by_home, _TOP, rest="Others", unknown="Not known")
    states = members.by_subscription.most_common()
    communities = drawn.communities[:_TOP]
    return {
        "figures": [
            {"label": "messages sent", "value": number(sum(sum(day.values()) for day in messages.values()))},
            {"label": "segments", "value": number(sum(sum(day.values()) for day in segments.values()))},
            {"label": "campaigns", "value": number(len(campaigns))},
            {
                "label": "replied to campaigns",
                "value": share(sum(campaign.replied for campaign in campaigns), recipients),
            },
            {"label": "stopped", "value": share(sum(campaign.stopped for campaign in campaigns), recipients)},
            {"label": "Members", "value": number(members.whole)},
        ],
        "charts": [
            _day_chart("messages", "Messages by day and channel", messages, first, last),
            _day_chart("segments", "Segments by day and channel", segments, first, last),
            _rate_chart(campaigns),
        ],
        "breakdowns": [
            _breakdown(("homes", "Members by state", "State"), homes, sample or "deleted ones left out"),
            _breakdown(("subscriptions", "Members by subscription", "Subscription"), states, sample),
            _breakdown(
                ("communities", "Communities by size", "Community"),
                communities,
                f"the largest {len(communities)} of {len(drawn.communities)}" if len(drawn.communities) > _TOP else "",
                whole=members.whole,
            ),
        ],
        "campaigns": [
            {
                "name": campaign.name,
                "sent_at": campaign.sent_at,
                "recipients": campaign.recipients,
                "replied": campaign.replied,
                "stopped": campaign.stopped,
            }
            for campaign in sorted(campaigns, key=lambda found: -found.recipients)[:10]
        ],
    }


def _within(days: Days, first: date, last: date) -> Days:
    return {day: sums for day, sums in days.items() if first <= day <= last}


def _day_chart(chart_id: str, title: str, days: Days, first: date, last: date) -> dict[str, object]:
    channels = channels_of(days)[:4]
    # Days without messages are zeros, not gaps: the axis is the calendar.
    calendar = [last - timedelta(days=back) for back in range((last - first).days + 1)] if days else []
    rows = [{"day": day, "values": [days.get(day, {}).get(channel, 0) for channel in channels]} for day in calendar]
    return {
        "id": chart_id,
        "title": title,
        "note": "UTC days",
        "columns": channels,
        "rows": rows,
        "kind": "bars",
        "unit": "count",
    }


def _rate_chart(campaigns: list[CampaignFigures]) -> dict[str, object]:
    by_day: dict[date, list[int]] = {}
    for campaign in campaigns:
        sums = by_day.setdefault(campaign.sent_at.date(), [0, 0, 0])
        sums[0] += campaign.recipients
        sums[1] += campaign.replied
        sums[2] += campaign.stopped
    rows = [
        {"day": day, "values": [round(100 * sums[1] / sums[0], 2), round(100 * sums[2] / sums[0], 2)]}
        for day, sums in sorted(by_day.items(), reverse=True)
        if sums[0]
    ]
    return {
        "id": "rates",
        "title": "Campaign response and stop rates",
        "note": "share of recipients, by day of sending",
        "columns": ["Replied", "Stopped"],
        "rows": rows,
        "kind": "line",
        "unit": "percent",
    }


def _breakdown(
    names: tuple[str, str, str], rows: Sequence[tuple[str, int]], note: str, *, whole: int | None = None
) -> dict[str, object]:
    """A table with bars; `names` are its id, its title and the heading of its first column."""
    block_id, title, what = names
    return {
        "id": block_id,
        "title": title,
        "what": what,
        "counted": "Members",
        "note": note,
        "rows": [{"name": name, "count": count} for name, count in rows],
        "most": max((count for _, count in rows), default=0),
        "whole": whole if whole is not None else sum(count for _, count in rows),
    }


def _periods(visit: Visit, chosen: str) -> list[dict[str, object]]:
    labels = {"30": "30 days", "90": "90 days", "365": "A year"}
    return [
        {"label": labels[key], "url": visit.here("insight") + f"?days={key}", "chosen": key == chosen}
        for key in _PERIODS
    ]
