"""Figures computed from the rows of published files. Each function reads one file once and keeps only sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

CountsByDay = dict[date, dict[str, int]]

_MAXIMUM_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Usage:
    """Messages and segments by UTC day and channel."""

    messages: CountsByDay = field(default_factory=dict)
    segments: CountsByDay = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CampaignFigures:
    """One campaign that was not a test. Counts are of Members."""

    name: str
    sent_at: datetime
    recipients: int
    replied: int
    stopped: int


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """Members by subscription state and by home state, from the first `rows_read` of `total_rows`.

    The file is ordered by a random id, so its first rows are a random sample.
    """

    by_subscription: Counter[str]
    by_home: Counter[str]
    rows_read: int
    total_rows: int


@dataclass(frozen=True, slots=True)
class CommunityFigures:
    """Name and number of Members of one community."""

    name: str
    members: int


def usage_figures(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Usage:
    """Return the sums of the message segment usage file."""
    day_index, channel_index = columns.index("DATE_DAY"), columns.index("USAGE_CHANNEL")
    message_index, segment_index = columns.index("MESSAGE_COUNT"), columns.index("SEGMENT_COUNT")
    usage = Usage()
    for row in rows:
        sent_at, channel = _parse_datetime(row[day_index]), row[channel_index]
        if sent_at is None:
            continue
        for counts, index in ((usage.messages, message_index), (usage.segments, segment_index)):
            by_channel = counts.setdefault(sent_at.date(), {})
            by_channel[channel] = by_channel.get(channel, 0) + int(row[index])
    return usage


def campaign_figures(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[CampaignFigures]:
    """Return the figures of all campaigns except tests, newest first."""
    index = {name: columns.index(name) for name in columns}
    campaigns = [
        CampaignFigures(
            name=row[index["CAMPAIGN_NAME"]][:_MAXIMUM_NAME_LENGTH] or "(no name)",
            sent_at=sent_at,
            recipients=int(row[index["RECIPIENT_COUNT"]]),
            replied=int(row[index["REPLIED_COUNT"]]),
            stopped=int(row[index["STOP_COUNT"]]),
        )
        for row in rows
        if row[index["TEST_CAMPAIGN"]] != "true" and (sent_at := _parse_datetime(row[index["SENT_AT"]])) is not None
    ]
    return sorted(campaigns, key=lambda campaign: campaign.sent_at, reverse=True)


def member_figures(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, total_rows: int, maximum_rows: int
) -> MemberFigures:
    """Return counts of the first `maximum_rows` rows of the members file. Deleted Members have no home state."""
    subscription_index, home_index = columns.index("SUBSCRIPTION_STATE"), columns.index("STATE")
    by_subscription: Counter[str] = Counter()
    by_home: Counter[str] = Counter()
    rows_read = 0
    for row in rows:
        by_subscription[row[subscription_index]] += 1
        if row[subscription_index] != "deleted":
            by_home[row[home_index]] += 1
        rows_read += 1
        if rows_read == maximum_rows:
            break
    return MemberFigures(by_subscription, by_home, rows_read, total_rows)


def community_figures(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[CommunityFigures]:
    """Return the figures of all communities, largest first."""
    name_index, count_index = columns.index("COMMUNITY_NAME"), columns.index("MEMBER_COUNT")
    communities = [CommunityFigures(row[name_index][:_MAXIMUM_NAME_LENGTH], int(row[count_index])) for row in rows]
    return sorted(communities, key=lambda community: (-community.members, community.name))


def channels_by_volume(counts: CountsByDay) -> list[str]:
    """Return the channels, largest total first."""
    totals: Counter[str] = Counter()
    for by_channel in counts.values():
        totals.update(by_channel)
    return [channel for channel, _ in totals.most_common()]


def _parse_datetime(text: str) -> datetime | None:
    """Parse a timestamp; None outside Python's range (PostgreSQL's `infinity`, years BC), which no chart shows."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
