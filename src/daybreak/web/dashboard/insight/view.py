"""Template variables of the Insight page: figures, charts and tables of one period."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from daybreak.web.dashboard.formatting import format_number, format_percentage
from daybreak.web.dashboard.insight.figures import (
    CampaignFigures,
    CommunityFigures,
    CountsByDay,
    MemberFigures,
    channels_by_volume,
)
from daybreak.web.dashboard.insight.queries import AccountFigures

DEFAULT_PERIOD = "30"
PERIODS = {"30": "30 days", "90": "90 days", "365": "1 year"}
"""Label of each period by its number of days."""

_CHART_CHANNELS = 4
_TABLE_ROWS = 12
_CAMPAIGN_ROWS = 10


@dataclass(frozen=True, slots=True)
class Period:
    """UTC days from `first` to `last`, both included."""

    first: date
    last: date

    @classmethod
    def ending(cls, last: date, days: str) -> Period:
        """Return the period of `days` days that ends on `last`."""
        return cls(last - timedelta(days=int(days) - 1), last)

    @property
    def days(self) -> list[date]:
        """Every day, newest first."""
        return [self.last - timedelta(days=back) for back in range((self.last - self.first).days + 1)]

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last


def insight_context(figures: AccountFigures, period: Period) -> dict[str, object]:
    """Return the variables of the page."""
    campaigns = [campaign for campaign in figures.campaigns if campaign.sent_at.date() in period]
    messages = _in_period(figures.usage.messages, period)
    segments = _in_period(figures.usage.segments, period)
    return {
        "figures": _summary(messages, segments, campaigns, figures.members),
        "charts": [
            _day_chart("messages", "Messages by day and channel", messages, period),
            _day_chart("segments", "Segments by day and channel", segments, period),
            _rate_chart(campaigns),
        ],
        "breakdowns": [*_member_breakdowns(figures.members), _community_breakdown(figures)],
        "campaigns": sorted(campaigns, key=lambda campaign: -campaign.recipients)[:_CAMPAIGN_ROWS],
    }


def _summary(
    messages: CountsByDay, segments: CountsByDay, campaigns: list[CampaignFigures], members: MemberFigures
) -> list[dict[str, str]]:
    recipients = sum(campaign.recipients for campaign in campaigns)
    replied = sum(campaign.replied for campaign in campaigns)
    stopped = sum(campaign.stopped for campaign in campaigns)
    values = {
        "Messages": format_number(_total(messages)),
        "Segments": format_number(_total(segments)),
        "Campaigns": format_number(len(campaigns)),
        "Response rate": format_percentage(replied, recipients),
        "Stop rate": format_percentage(stopped, recipients),
        "Members": format_number(members.total_rows),
    }
    return [{"label": label, "value": value} for label, value in values.items()]


def _in_period(counts: CountsByDay, period: Period) -> CountsByDay:
    return {day: by_channel for day, by_channel in counts.items() if day in period}


def _total(counts: CountsByDay) -> int:
    return sum(sum(by_channel.values()) for by_channel in counts.values())


def _day_chart(chart_id: str, title: str, counts: CountsByDay, period: Period) -> dict[str, object]:
    channels = channels_by_volume(counts)[:_CHART_CHANNELS]
    # Days without messages are zeros, not gaps.
    days = period.days if counts else []
    return {
        "id": chart_id,
        "title": title,
        "note": "UTC days",
        "columns": channels,
        "rows": [{"day": day, "values": [counts.get(day, {}).get(channel, 0) for channel in channels]} for day in days],
        "kind": "bars",
        "unit": "count",
    }


def _rate_chart(campaigns: list[CampaignFigures]) -> dict[str, object]:
    by_day: dict[date, list[CampaignFigures]] = {}
    for campaign in campaigns:
        by_day.setdefault(campaign.sent_at.date(), []).append(campaign)
    rows = []
    for day, sent in sorted(by_day.items(), reverse=True):
        recipients = sum(campaign.recipients for campaign in sent)
        if recipients:
            replied, stopped = sum(each.replied for each in sent), sum(each.stopped for each in sent)
            rows.append({"day": day, "values": [round(100 * count / recipients, 2) for count in (replied, stopped)]})
    return {
        "id": "rates",
        "title": "Response and stop rates",
        "note": "Share of recipients by day sent",
        "columns": ["Replied", "Stopped"],
        "rows": rows,
        "kind": "line",
        "unit": "percent",
    }


def _member_breakdowns(members: MemberFigures) -> list[dict[str, object]]:
    sample = ""
    if members.rows_read != members.total_rows:
        sample = f"Sample of {members.rows_read:,} of {members.total_rows:,}"
    homes = _largest(members.by_home, other="Other", unknown="Unknown")
    states = members.by_subscription.most_common()
    return [
        _breakdown("homes", "Members by state", "State", homes, sample or "Without deleted Members"),
        _breakdown("subscriptions", "Members by subscription", "Subscription", states, sample),
    ]


def _community_breakdown(figures: AccountFigures) -> dict[str, object]:
    communities: list[CommunityFigures] = figures.communities
    shown = [(community.name, community.members) for community in communities[:_TABLE_ROWS]]
    note = f"Largest {len(shown)} of {len(communities)}" if len(communities) > len(shown) else ""
    block = _breakdown("communities", "Communities by size", "Community", shown, note)
    # Members can be in several communities: shares are of all Members.
    return {**block, "total": figures.members.total_rows}


def _breakdown(block_id: str, title: str, column: str, rows: Sequence[tuple[str, int]], note: str) -> dict[str, object]:
    counts = [count for _, count in rows]
    return {
        "id": block_id,
        "title": title,
        "column": column,
        "note": note,
        "rows": [{"name": name, "count": count} for name, count in rows],
        "maximum": max(counts, default=0),
        "total": sum(counts),
    }


def _largest(counts: Counter[str], *, other: str, unknown: str) -> list[tuple[str, int]]:
    """Return the largest counts; the rest are summed as `other`. The empty name is called `unknown`."""
    ranked = [(name or unknown, count) for name, count in counts.most_common()]
    shown, rest = ranked[:_TABLE_ROWS], ranked[_TABLE_ROWS:]
    return [*shown, (other, sum(count for _, count in rest))] if rest else shown
