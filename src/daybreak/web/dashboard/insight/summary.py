"""Key figures of a period, compared with the period before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from daybreak.domain.display import localized
from daybreak.web.dashboard.formatting import format_number
from daybreak.web.dashboard.insight.blocks import Block, Column, Row, share
from daybreak.web.dashboard.insight.campaign_blocks import campaign_total
from daybreak.web.dashboard.insight.member_blocks import growth_since, joined_in
from daybreak.web.dashboard.insight.message_blocks import usage_totals
from daybreak.web.dashboard.insight.queries import AccountFigures
from daybreak.web.dashboard.insight.selection import Selection

_REPLIED, _STOPPED = attrgetter("replied"), attrgetter("stopped")
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: a count, or a share from 0 to 1. `previous` is its value in the period before.

    Values are None if there is nothing to divide by, or no comparison.
    """

    label: str
    value: float | None
    previous: float | None = None
    is_share: bool = False

    @property
    def text(self) -> str:
        """The value as text."""
        return self._format(self.value)

    @property
    def previous_text(self) -> str:
        """The value in the period before, "" without comparison."""
        return "" if self.previous is None else self._format(self.previous)

    @property
    def change(self) -> str:
        """Change since the period before: `+12.3 %`, or `+0.4 percentage points` of a share. "" without comparison."""
        if self.value is None or self.previous is None:
            return ""
        difference = 100 * (self.value - self.previous)
        if self.is_share:
            return _signed(difference, "percentage points")
        if not self.previous:
            return "none before" if self.value else "no change"
        return _signed(difference / self.previous, "%")

    def _format(self, value: float | None) -> str:
        if value is None or not self.is_share:
            return format_number(value)
        return localized(f"{100 * value:.1f} %")


def summary_figures(figures: AccountFigures, selection: Selection) -> list[Figure]:
    """Return the key figures of the period."""
    (messages, segments), usage_before = usage_totals(figures.usage, selection)
    sent = campaign_total(figures.campaigns, selection.period)
    previous = selection.messages_before
    before = campaign_total(figures.campaigns, previous) if previous else None
    rates = [
        Figure(label, share(part(sent), sent.recipients), share(part(before), before.recipients) if before else None,
               is_share=True)
        for label, part in (("Reply rate", _REPLIED), ("Stop rate", _STOPPED))
    ]  # fmt: skip
    return [
        Figure("Messages", messages, usage_before[0] if usage_before else None),
        Figure("Segments", segments, usage_before[1] if usage_before else None),
        Figure("Campaigns", sent.campaigns, before.campaigns if before else None),
        *rates,
        Figure("Clicks", sent.clicks, before.clicks if before else None),
        *_member_figures(figures, selection),
    ]


def _member_figures(figures: AccountFigures, selection: Selection) -> list[Figure]:
    previous, live = selection.members_before, figures.members.live
    joined = joined_in(figures.growth, selection.period)
    return [
        Figure("New Members", joined, joined_in(figures.growth, previous) if previous else None),
        Figure("Live Members", live, live - growth_since(figures.growth, selection.period.first) if previous else None),
    ]


def summary_block(figures: Sequence[Figure]) -> Block:
    """Return the key figures as a table for the CSV file."""
    return Block(
        name="summary",
        title="Summary",
        note="",
        columns=(Column("Figure", "text"), Column("Value"), Column("Before")),
        rows=tuple(Row(figure.label, (figure.value, figure.previous)) for figure in figures),
    )


def _signed(value: float, unit: str) -> str:
    text = f"{abs(value):,.1f}"
    if text == "0.0":
        return "no change"
    return f"{_MINUS if value < 0 else '+'}{localized(text)} {unit}"
