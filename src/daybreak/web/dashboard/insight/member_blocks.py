"""Blocks of Members, and of the messages and segments that were sent to them."""

from collections import Counter
from collections.abc import Sequence

from daybreak.insight.members import CommunityFigures, GrowthDay, GrowthFigures, MemberFigures, UsageFigures
from daybreak.insight.periods import Period
from daybreak.web.dashboard.formatting import format_number
from daybreak.web.dashboard.insight.blocks import Block, Cell, Column, Row, share, sum_of, value_label
from daybreak.web.dashboard.insight.selection import BucketFinder, Selection

_GAINS = {"joined": "Joined", "returned": "Returned"}
_LOSSES = {"opted_out": "Opted out", "blocked": "Blocked", "deleted": "Deleted", "other": "Other"}
_UNKNOWN = "Unknown"
_MESSAGES, _SEGMENTS = 0, 1
_SHOWN_CHANNELS = 4
_OTHER = "Other channels"


def growth_block(growth: GrowthFigures, members: MemberFigures, selection: Selection) -> Block:
    """Return joined and lost Members by bucket, and the number of live Members at its end."""
    finder = BucketFinder.of(selection.period)
    sums = [sum_of(GrowthDay, changes) for changes in finder.group(growth)]
    total = sum_of(GrowthDay, sums)
    live = sum(change.net for day, change in growth.items() if day < selection.period.first)
    labels = {name: label for name, label in {**_GAINS, **_LOSSES}.items() if name != "other" or total.other}
    rows = []
    for bucket, change in zip(finder.buckets, sums, strict=True):
        live += change.net
        rows.append(Row(bucket, (*(getattr(change, name) for name in labels), change.net, live)))
    return Block(
        name="growth",
        title="Member growth",
        note=_growth_note(growth, members),
        columns=(
            Column("Period", "text"),
            *map(Column, labels.values()),
            Column("Net"),
            Column("Live at end"),
        ),
        rows=tuple(rows) if growth else (),
        total=(*(getattr(total, name) for name in labels), total.net, live),
        series=tuple(range(len(labels))),
        below=frozenset(range(len(_GAINS), len(labels))),
    )


def live_block(growth: Block) -> Block:
    """Return the number of live Members at the end of each bucket, from the block of growth."""
    return Block(
        name="live-members",
        title="Live Members",
        note="At the end of each bar of the growth chart. The key figure is as of the snapshot.",
        columns=(Column("Period", "text"), Column("Live Members")),
        rows=tuple(Row(row.name, row.cells[-1:]) for row in growth.rows),
        total=growth.total[-1:] if growth.total else None,
        series=(0,),
        line=True,
        legend="At the end",
    )


def joined_in(growth: GrowthFigures, period: Period) -> int:
    """Return the number of Members who became live for the first time in a period."""
    return sum(change.joined for day, change in growth.items() if day in period)


def subscriptions_block(members: MemberFigures) -> Block:
    """Return the current Members by subscription state."""
    ranked = sorted(members.by_subscription.items(), key=lambda item: (-item[1], item[0]))
    named = [(value_label(state), count) for state, count in ranked]
    return _breakdown("subscriptions", "Members by subscription", "Subscription", named, "All Members")


def homes_block(members: MemberFigures, *, limit: int) -> Block:
    """Return the current Members by home state, without deleted ones. The rest is one row."""
    named = [(home or _UNKNOWN, count) for home, count in members.by_home]
    rest = members.other_homes + sum(count for _, count in named[limit:])
    deleted = members.by_subscription.get("deleted", 0)
    note = f"Without {format_number(deleted)} deleted Members" if deleted else "All Members"
    return _breakdown("homes", "Members by home state", "State", named[:limit], note, rest)


def communities_block(communities: CommunityFigures, members: MemberFigures, *, limit: int) -> Block:
    """Return the largest communities. Members can be in several of them, so shares are of all Members."""
    shown = communities.largest[:limit]
    hidden = communities.largest[limit:]
    rows = [Row(each.name, (each.members, share(each.members, members.total))) for each in shown]
    rest = len(hidden) + communities.other_communities
    count = len(shown) + rest
    if rest:
        other = communities.other_members + sum(each.members for each in hidden)
        rows.append(Row(f"{format_number(rest)} more communities", (other, None), is_rest=True))
    return Block(
        name="communities",
        title="Communities",
        note=f"{format_number(count)} communities; a Member can be in several" if count > 1 else "",
        columns=(Column("Community", "text"), Column("Members"), Column("Share of all", "share")),
        rows=tuple(rows),
    )


def _growth_note(growth: GrowthFigures, members: MemberFigures) -> str:
    recorded = sum(change.net for change in growth.values())
    if recorded == members.live:
        return "From the history of subscription states"
    known, listed = format_number(recorded), format_number(members.live)
    return f"The history ends with {known} live Members, the member list has {listed}"


def _breakdown(name: str, title: str, column: str, named: Sequence[tuple[str, int]], note: str, rest: int = 0) -> Block:
    """Return Members by a property. `rest` is the number of those whose value has no row."""
    total = rest + sum(count for _, count in named)
    rows = [Row(label, (count, share(count, total))) for label, count in named]
    if rest:
        rows.append(Row("Other", (rest, share(rest, total)), is_rest=True))
    return Block(
        name=name,
        title=title,
        note=note,
        columns=(Column(column, "text"), Column("Members"), Column("Share", "share")),
        rows=tuple(rows),
        total=(total, share(total, total)) if rows else None,
    )


def message_blocks(usage: UsageFigures, selection: Selection) -> list[Block]:
    """Return the blocks of messages, segments and types of message."""
    return [
        _by_channel("messages", "Messages", _MESSAGES, usage, selection),
        _by_channel("segments", "Segments", _SEGMENTS, usage, selection),
        _by_type(usage, selection),
    ]


def usage_total(usage: UsageFigures, period: Period) -> tuple[int, int]:
    """Return messages and segments of a period."""
    found = [counts for (day, _, _), counts in usage.items() if day in period]
    return sum(counts[_MESSAGES] for counts in found), sum(counts[_SEGMENTS] for counts in found)


def _by_channel(name: str, title: str, index: int, usage: UsageFigures, selection: Selection) -> Block:
    finder = BucketFinder.of(selection.period)
    cells: Counter[tuple[int, str]] = Counter()
    totals: Counter[str] = Counter()
    previous = [0] * len(finder.buckets)
    for (day, channel, _), counts in usage.items():
        at, at_before = finder.find(day), finder.find_previous(day)
        if at is not None:
            cells[at, channel] += counts[index]
            totals[channel] += counts[index]
        elif at_before is not None:
            previous[at_before] += counts[index]
    channels = [channel for channel, _ in totals.most_common()]
    shown, rest = channels[:_SHOWN_CHANNELS], channels[_SHOWN_CHANNELS:]
    labels = [value_label(channel) for channel in shown] + ([_OTHER] if rest else [])
    compared = selection.messages_before is not None
    rows = []
    for at, bucket in enumerate(finder.buckets if channels else ()):
        values = [cells[at, channel] for channel in shown]
        values += [sum(cells[at, channel] for channel in rest)] if rest else []
        rows.append(Row(bucket, (*values, sum(values), *([previous[at]] if compared else []))))
    columns = ["Period", *labels, "Total", *(["Previous period"] if compared else [])]
    return Block(
        name=name,
        title=f"{title} by channel",
        note=f"By UTC {selection.period.unit}",
        columns=tuple(Column(label, "text" if label == "Period" else "count") for label in columns),
        rows=tuple(rows),
        total=_sums(rows),
        series=tuple(range(len(labels))),
        previous=tuple(map(float, previous)) if compared and rows else (),
    )


def _by_type(usage: UsageFigures, selection: Selection) -> Block:
    previous = selection.messages_before
    sums: dict[str, list[int]] = {}
    before: Counter[str] = Counter()
    for (day, _, kind), counts in usage.items():
        if day in selection.period:
            totals = sums.setdefault(kind, [0, 0, 0])
            for at, count in enumerate(counts):
                totals[at] += count
        elif previous is not None and day in previous:
            before[kind] += counts[_MESSAGES]
    for kind in before:
        sums.setdefault(kind, [0, 0, 0])
    messages, segments, units = (sum(totals[at] for totals in sums.values()) for at in range(3))
    ranked = sorted(sums.items(), key=lambda item: (-item[1][_MESSAGES], item[0]))

    def cells(counts: Sequence[int], count_before: int) -> tuple[Cell, ...]:
        compared = (count_before,) if previous is not None else ()
        return (counts[0], share(counts[0], messages), counts[1], counts[2], *compared)

    rows = tuple(Row(value_label(kind), cells(totals, before[kind])) for kind, totals in ranked)
    return Block(
        name="message-types",
        title="Messages by type",
        columns=(
            Column("Type", "text"), Column("Messages"), Column("Share", "share"), Column("Segments"), Column("Units"),
            *([Column("Messages before")] if previous is not None else []),
        ),
        rows=rows,
        total=cells((messages, segments, units), before.total()) if rows else None,
    )  # fmt: skip


def _sums(rows: list[Row]) -> tuple[Cell, ...] | None:
    columns = zip(*(row.cells for row in rows), strict=True)
    return tuple(sum(cell for cell in column if isinstance(cell, int)) for column in columns) or None
