"""Blocks of messages and segments: by bucket and channel, and by type of message."""

from collections import Counter
from collections.abc import Sequence

from daybreak.insight.members import UsageFigures
from daybreak.web.dashboard.insight.blocks import Block, Cell, Column, Row, share, value_label
from daybreak.web.dashboard.insight.selection import BucketFinder, Selection

_MESSAGES, _SEGMENTS = 0, 1
_SHOWN_CHANNELS = 4
_OTHER = "Other channels"


def message_blocks(usage: UsageFigures, selection: Selection) -> list[Block]:
    """Return the blocks of messages, segments and types of message."""
    return [
        _by_channel("messages", "Messages", _MESSAGES, usage, selection),
        _by_channel("segments", "Segments", _SEGMENTS, usage, selection),
        _by_type(usage, selection),
    ]


def usage_totals(usage: UsageFigures, selection: Selection) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """Return messages and segments of the period, and of the period before if it is compared."""
    previous = selection.messages_before
    sums, sums_before = [0, 0], [0, 0]
    for (day, _, _), counts in usage.items():
        target = sums if day in selection.period else sums_before if previous and day in previous else None
        if target is not None:
            target[0] += counts[_MESSAGES]
            target[1] += counts[_SEGMENTS]
    return (sums[0], sums[1]), (sums_before[0], sums_before[1]) if previous else None


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
