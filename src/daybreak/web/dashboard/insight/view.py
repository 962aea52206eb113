"""Template variables of the Insight page: the selection, key figures and blocks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from daybreak.insight.campaigns import Campaign, LinkFigures
from daybreak.insight.members import GrowthFigures
from daybreak.web.dashboard.formatting import format_date
from daybreak.web.dashboard.insight.blocks import Block, Column, Figure, Row, TableSort
from daybreak.web.dashboard.insight.campaign_blocks import (
    campaign_total,
    campaigns_block,
    links_block,
    rate_figures,
    rates_block,
)
from daybreak.web.dashboard.insight.member_blocks import (
    communities_block,
    growth_block,
    homes_block,
    joined_in,
    live_block,
    message_blocks,
    subscriptions_block,
    usage_total,
)
from daybreak.web.dashboard.insight.queries import MAXIMUM_CAMPAIGNS, AccountFigures
from daybreak.web.dashboard.insight.selection import Selection
from daybreak.web.dashboard.page_request import PageRequest

_PAGE_ROWS = 10
_FILE_ROWS = MAXIMUM_CAMPAIGNS

_BREAKDOWNS = ("message-types", "subscriptions", "homes", "communities")


@dataclass(frozen=True, slots=True)
class InsightView:
    """Everything that the Insight page shows of one selection. Blocks are by name."""

    figures: list[Figure]
    blocks: Mapping[str, Block]


def insight_view(
    account: AccountFigures,
    campaigns: Sequence[Campaign],
    links: LinkFigures,
    selection: Selection,
    campaign_url: Callable[[str], str],
    *,
    complete: bool,
) -> InsightView:
    """Return figures and blocks. The page has the first rows of long blocks, a CSV file (`complete`) all of them."""
    limit = _FILE_ROWS if complete else _PAGE_ROWS
    figures = summary_figures(account, selection)
    sent = campaign_total(account.campaigns, selection.period)
    growth = growth_block(account.growth, account.members, selection)
    blocks = [
        summary_block(figures),
        *message_blocks(account.usage, selection),
        growth,
        live_block(growth),
        rates_block(account.campaigns, selection),
        campaigns_block(campaigns, sent.campaigns, campaign_url, limit=limit),
        links_block(links, limit=limit),
        subscriptions_block(account.members),
        homes_block(account.members, limit=limit),
        communities_block(account.communities, account.members, limit=limit),
    ]
    headlines = {**_headlines(figures, blocks), "live-members": _live_at_end(account.growth, selection)}
    return InsightView(figures, {block.name: replace(block, headline=headlines.get(block.name)) for block in blocks})


def _headlines(figures: Sequence[Figure], blocks: Sequence[Block]) -> dict[str, Figure]:
    """Return the headline figure of each block: a key figure, or the share of the largest row."""
    largest = {block.name: block.rows[0] for block in blocks if block.name in _BREAKDOWNS and block.rows}
    shares = {name: Figure(str(row.name), _number(row.cells[1]), is_share=True) for name, row in largest.items()}
    return {**{figure.block: figure for figure in figures if figure.block}, **shares}


def _live_at_end(growth: GrowthFigures, selection: Selection) -> Figure:
    """Return the last value of the chart of live Members, compared with the one before the period."""
    period = selection.period
    live = sum(change.net for day, change in growth.items() if day <= period.last)
    before = sum(change.net for day, change in growth.items() if day < period.first)
    return Figure("Live Members at the end", live, before if selection.members_before else None)


def _number(cell: object) -> float | None:
    return cell if isinstance(cell, int | float) else None


def table_sort(page: PageRequest, selection: Selection, path: str) -> TableSort:
    """Return the order of the tables of a page whose blocks have all of their rows."""

    def url(value: str) -> str:
        return page.url(path, **{**selection.query, "sort": value}) + f"#{value.partition('.')[0]}-table"

    query = {**selection.query, "sort": ""}
    return TableSort(selection.sort, lambda block, index: f"{block.name}.{index}", url, query)


def period_text(selection: Selection) -> str:
    period = selection.period
    return f"{format_date(period.first)} to {format_date(period.last)}, UTC"


def comparison_text(selection: Selection) -> str:
    previous = selection.messages_before
    if previous is not None:
        return f"Compared with {format_date(previous.first)} to {format_date(previous.last)}"
    if selection.range_name == "all" or not selection.compares:
        return ""
    first_day = format_date(selection.first_days.messages)
    return f"Messages and campaigns are not compared: their data begins on {first_day}"


def summary_figures(figures: AccountFigures, selection: Selection) -> list[Figure]:
    previous, sent = selection.messages_before, campaign_total(figures.campaigns, selection.period)
    before = campaign_total(figures.campaigns, previous) if previous else None
    messages, segments = usage_total(figures.usage, selection.period)
    messages_before, segments_before = usage_total(figures.usage, previous) if previous else (None, None)
    return [
        Figure("Messages", messages, messages_before, block="messages"),
        Figure("Segments", segments, segments_before, block="segments"),
        Figure("Campaigns", sent.campaigns, before.campaigns if before else None, block="campaigns"),
        *rate_figures(sent, before),
        Figure("Clicks", sent.clicks, before.clicks if before else None, block="links"),
        *_member_figures(figures, selection),
    ]


def _member_figures(figures: AccountFigures, selection: Selection) -> list[Figure]:
    previous, live, growth = selection.members_before, figures.members.live, figures.growth
    joined = joined_in(growth, selection.period)
    net = sum(change.net for day, change in growth.items() if day >= selection.period.first)
    return [
        Figure("New Members", joined, joined_in(growth, previous) if previous else None, block="growth"),
        Figure("Live Members", live, live - net if previous else None),
    ]


def summary_block(figures: Sequence[Figure]) -> Block:
    """Return the key figures as a table for the CSV file."""
    return Block(
        name="summary",
        title="Summary",
        columns=(Column("Figure", "text"), Column("Value"), Column("Before")),
        rows=tuple(Row(figure.label, (figure.value, figure.previous)) for figure in figures),
    )
