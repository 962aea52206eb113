"""Template variables of the Insight page: the selection, key figures and blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from daybreak.insight.periods import RANGES
from daybreak.web.dashboard.formatting import format_date
from daybreak.web.dashboard.insight.blocks import Block
from daybreak.web.dashboard.insight.campaign_blocks import (
    campaign_total,
    campaigns_block,
    links_block,
    rates_block,
)
from daybreak.web.dashboard.insight.charts import Chart, draw_chart
from daybreak.web.dashboard.insight.member_blocks import (
    communities_block,
    growth_block,
    homes_block,
    live_block,
    subscriptions_block,
)
from daybreak.web.dashboard.insight.message_blocks import message_blocks
from daybreak.web.dashboard.insight.queries import MAXIMUM_CAMPAIGNS, AccountFigures, PeriodFigures
from daybreak.web.dashboard.insight.selection import Selection
from daybreak.web.dashboard.insight.summary import Figure, summary_block, summary_figures
from daybreak.web.dashboard.page_request import PageRequest

BLOCK_NAMES = (
    "summary", "messages", "segments", "message-types", "growth", "live-members", "rates", "campaigns", "links",
    "subscriptions", "homes", "communities",
)  # fmt: skip
_PAGE_ROWS = 10
_FILE_ROWS = MAXIMUM_CAMPAIGNS


@dataclass(frozen=True, slots=True)
class InsightView:
    """Everything that the Insight page shows of one selection. Blocks are by name."""

    figures: list[Figure]
    blocks: Mapping[str, Block]

    def chart(self, name: str) -> Chart | None:
        """Return the chart of a block."""
        return draw_chart(self.blocks[name])


def insight_view(
    account: AccountFigures,
    period: PeriodFigures,
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
        campaigns_block(period.campaigns, sent.campaigns, campaign_url, limit=limit),
        links_block(period.links, limit=limit),
        subscriptions_block(account.members),
        homes_block(account.members, limit=limit),
        communities_block(account.communities, account.members, limit=limit),
    ]
    return InsightView(figures, {block.name: block for block in blocks})


def selection_context(page: PageRequest, selection: Selection, path: str) -> dict[str, object]:
    """Return the links that select another range, and the description of the period."""
    ranges = [
        {
            "label": label,
            "url": page.url(path, **{**selection.query, "range": name}),
            "selected": name == selection.range_name,
        }
        for name, label in RANGES.items()
    ]
    return {
        "ranges": ranges,
        "selection": selection,
        "period_text": period_text(selection),
        "comparison_text": _comparison_text(selection),
        "comparison_url": page.url(path, range=selection.range_name, compare="none" if selection.compares else ""),
        "block_url": lambda name: page.url(f"insight/{name}.csv", **selection.query),
    }


def period_text(selection: Selection) -> str:
    """Return the first and the last day of a selection as text."""
    period = selection.period
    return f"{format_date(period.first)} to {format_date(period.last)}, UTC"


def _comparison_text(selection: Selection) -> str:
    previous = selection.messages_before
    if previous is not None:
        return f"Compared with {format_date(previous.first)} to {format_date(previous.last)}"
    if selection.range_name == "all" or not selection.compares:
        return ""
    first_day = format_date(selection.first_days.messages)
    return f"Messages and campaigns are not compared: their data begins on {first_day}"
