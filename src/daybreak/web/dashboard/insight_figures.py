"""What the published files say, summed up: pure functions from records to figures.

Each reads one file once, record by record, and keeps sums alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

Days = dict[date, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Usage:
    """Messages and segments by UTC day and channel."""

    messages: Days = field(default_factory=dict)
    segments: Days = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CampaignFigures:
    """One campaign, test campaigns left out. Counts are of Members."""

    name: str
    sent_at: datetime
    recipients: int
    replied: int
    stopped: int


@dataclass(frozen=True, slots=True)
class MemberFigures:
    """Members by subscription state and by home state. `read` of `whole` rows were looked at: as
    the file is ordered by a random id, a part of it is a fair sample.
    """

    by_subscription: Counter[str]
    by_home: Counter[str]
    read: int
    whole: int


def usage_figures(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Usage:
    """From the message segment usage file."""
    day_at, channel_at = columns.index("DATE_DAY"), columns.index("USAGE_CHANNEL")
    messages_at, segments_at = columns.index("MESSAGE_COUNT"), columns.index("SEGMENT_COUNT")
    found = Usage()
    for row in rows:
        instant, channel = _instant(row[day_at]), row[channel_at]
        if instant is None:
            continue
        day = instant.date()
        for sums, at in ((found.messages, messages_at), (found.segments, segments_at)):
            by_channel = sums.setdefault(day, {})
            by_channel[channel] = by_channel.get(channel, 0) + int(row[at])
    return found


def campaign_figures(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[CampaignFigures]:
    """From the campaigns file, newest first."""
    place = {name: columns.index(name) for name in columns}
    found = [
        CampaignFigures(
            name=row[place["CAMPAIGN_NAME"]][:200] or "(no name)",
            sent_at=sent_at,
            recipients=int(row[place["RECIPIENT_COUNT"]]),
            replied=int(row[place["REPLIED_COUNT"]]),
            stopped=int(row[place["STOP_COUNT"]]),
        )
        for row in rows
        if row[place["TEST_CAMPAIGN"]] != "true" and (sent_at := _instant(row[place["SENT_AT"]])) is not None
    ]
    return sorted(found, key=lambda campaign: campaign.sent_at, reverse=True)


def member_figures(columns: Sequence[str], rows: Iterable[Sequence[str]], *, whole: int, most: int) -> MemberFigures:
    """From the first `most` rows of the members file. Deleted Members have no home any more."""
    subscription_at, home_at = columns.index("SUBSCRIPTION_STATE"), columns.index("STATE")
    by_subscription: Counter[str] = Counter()
    by_home: Counter[str] = Counter()
    read = 0
    for row in rows:
        by_subscription[row[subscription_at]] += 1
        if row[subscription_at] != "deleted":
            by_home[row[home_at]] += 1
        read += 1
        if read == most:
            break
    return MemberFigures(by_subscription, by_home, read, whole)


def community_figures(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """From the communities file: names and members, the largest first."""
    name_at, count_at = columns.index("COMMUNITY_NAME"), columns.index("MEMBER_COUNT")
    return sorted(((row[name_at][:200], int(row[count_at])) for row in rows), key=lambda item: (-item[1], item[0]))


def _instant(text: str) -> datetime | None:
    """None beyond Python's calendar (PostgreSQL's `infinity`, years before 1): no period drawn reaches there."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def channels_of(days: Days) -> list[str]:
    """Every channel there is, the busiest first."""
    sums: Counter[str] = Counter()
    for by_channel in days.values():
        sums.update(by_channel)
    return [channel for channel, _ in sums.most_common()]


def top(counts: Counter[str], most: int, *, rest: str, unknown: str) -> list[tuple[str, int]]:
    """The largest counts, the others in one line; "" is called `unknown`."""
    ranked = [(name or unknown, count) for name, count in counts.most_common()]
    head, tail = ranked[:most], ranked[most:]
    return [*head, (rest, sum(count for _, count in tail))] if tail else head
