"""Blocks of the Insight page: totals agree with each other and with the CSV files."""

import csv
import io
from datetime import UTC, date, datetime, timedelta

import pytest

from daybreak.insight.campaigns import Campaign, CampaignDay, Link, LinkFigures
from daybreak.insight.members import Community, CommunityFigures, GrowthDay, MemberFigures
from daybreak.insight.periods import RANGES
from daybreak.web.dashboard.formatting import EN_DASH
from daybreak.web.dashboard.insight.blocks import Figure, TableSort, block_csv
from daybreak.web.dashboard.insight.campaign_blocks import links_block
from daybreak.web.dashboard.insight.charts import draw_chart
from daybreak.web.dashboard.insight.member_blocks import homes_block
from daybreak.web.dashboard.insight.queries import AccountFigures
from daybreak.web.dashboard.insight.selection import select
from daybreak.web.dashboard.insight.view import InsightView, insight_view

AS_OF = datetime(2026, 11, 24, 3, 12, tzinfo=UTC)
TODAY = AS_OF.date()
DAYS = [TODAY - timedelta(days=back) for back in range(400)]
CHANNELS = ("sms", "mms", "whatsapp", "rcs", "fax", "mail")

ACCOUNT = AccountFigures(
    usage=(
        {
            (day, channel, kind): (10 + number, 20, 30)
            for day in DAYS
            for number, channel in enumerate(CHANNELS)
            for kind in ("campaign", "dm")
        }
    ),
    members=MemberFigures({"live": 400, "opted_out": 60, "deleted": 40}, (("Ohio", 300), ("", 100), ("=x", 50)), 10),
    growth={day: GrowthDay(joined=3, opted_out=1, deleted=1) for day in DAYS},
    communities=CommunityFigures((Community("A", 90), Community("B", 80)), 3, 30),
    campaigns=(
        {
            day: CampaignDay(campaigns=1, recipients=100, replied=10, stopped=1, linked_recipients=100, clicks=30)
            for day in DAYS[::3]
        }
    ),
)
CAMPAIGNS = tuple(
    Campaign(f"{n}", f"Campaign {n}", "sms", datetime(2026, 11, 20), 100, 12, 10, 1, 200, 200, n % 2, 30 * (n % 2))
    for n in range(40)
)
LINKS = LinkFigures(tuple(Link(f"https://{n}.example", "link", 1, 100, 30) for n in range(20)), 4, 7)


def _view(*, complete: bool = False, **query: str) -> InsightView:
    selection = select(query, AS_OF, ACCOUNT.first_days(TODAY))
    return insight_view(ACCOUNT, CAMPAIGNS, LINKS, selection, lambda _: "", complete=complete)


def _rows(view: InsightView, name: str) -> list[dict[str, str]]:
    text = block_csv(view.blocks[name]).decode()
    assert text.startswith("\ufeff")
    return list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"))))


def _sum(rows: list[dict[str, str]], column: str) -> int:
    return sum(int(row[column]) for row in rows)


@pytest.mark.parametrize("range_name", RANGES)
def test_totals_agree_in_every_block_and_file(range_name: str) -> None:
    view = _view(range=range_name, complete=True)
    figures = {figure.label: figure.value for figure in view.figures}
    for name, label in (("messages", "Messages"), ("segments", "Segments")):
        rows = _rows(view, name)
        assert _sum(rows, "Total") == figures[label]
        channels = [column for column in rows[0] if column not in ("From", "To", "Total", "Previous period")]
        assert channels == [*channels[:4], "Other channels"]
        assert all(_sum([row], "Total") == sum(int(row[channel]) for channel in channels) for row in rows)
    types = _rows(view, "message-types")
    assert _sum(types, "Messages") == figures["Messages"]
    assert _sum(types, "Segments") == figures["Segments"]
    assert _sum(_rows(view, "rates"), "Campaigns") == figures["Campaigns"]
    assert _sum(_rows(view, "growth"), "Joined") == figures["New Members"]


@pytest.mark.parametrize("complete", [False, True])
def test_breakdowns_of_members_sum_to_all_members(complete: bool) -> None:
    view = _view(complete=complete)
    assert _sum(_rows(view, "subscriptions"), "Members") == 500
    assert _sum(_rows(view, "homes"), "Members") == 500 - 40
    assert view.blocks["homes"].note == "Without 40 deleted Members"
    assert _sum(_rows(view, "communities"), "Members") == 90 + 80 + 30
    assert next(figure for figure in view.figures if figure.label == "Live Members").value == 400


@pytest.mark.parametrize(("complete", "shown"), [(False, 10), (True, 20)])
def test_links_beyond_the_shown_ones_are_one_row(complete: bool, shown: int) -> None:
    rows = _rows(_view(complete=complete), "links")
    assert len(rows) == shown + 1
    assert rows[-1]["Link"] == f"{24 - shown} more links"
    assert _sum(rows, "Clicks") == 20 * 30 + 7


def test_headlines_agree_with_their_tables() -> None:
    view = _view(range="30d")
    headlines = {name: block.headline for name, block in view.blocks.items() if block.headline}
    assert set(headlines) == set(view.blocks) - {"summary"}

    def total(name: str, label: str) -> object:
        block = view.blocks[name]
        assert block.total is not None
        return block.total[[column.label for column in block.columns].index(label) - 1]

    for name, label in (
        ("messages", "Total"), ("segments", "Total"), ("growth", "Joined"), ("live-members", "Live Members"),
        ("rates", "Reply rate"),
    ):  # fmt: skip
        assert headlines[name].value == total(name, label)
    assert headlines["live-members"].previous == 400 - 31
    for name in ("message-types", "subscriptions", "homes", "communities"):
        assert headlines[name].value == view.blocks[name].rows[0].cells[1]


def test_change_is_between_the_values_as_shown() -> None:
    figure = Figure("Reply rate", 0.14054, 0.12056, is_share=True)
    assert (figure.text, figure.previous_text, figure.change) == ("14.1 %", "12.1 %", "+2.0 percentage points")
    figure = Figure("Reply rate", 0.14149, 0.12051, is_share=True)
    assert (figure.text, figure.previous_text, figure.change) == ("14.1 %", "12.1 %", "+2.0 percentage points")


@pytest.mark.parametrize(("value", "first"), [("links.4", 29), ("links.4-up", 0), ("links.0", "https://9"), ("", 20)])
def test_rest_of_a_table_is_its_last_row_in_every_order(value: str, first: object) -> None:
    links = LinkFigures(tuple(Link(f"https://{n}", "link", 1, 1, (n + 20) % 30) for n in range(30)), 4, 900)
    block = links_block(links, limit=30)
    rows = [row for _, row in TableSort(value, lambda each, at: f"{each.name}.{at}", str).rows(block)]
    assert first in (rows[0].name, rows[0].cells[3])
    assert rows[-1].name == "4 more links"
    assert len(rows) == 31


def test_state_with_the_name_of_the_rest_is_sorted() -> None:
    block = homes_block(MemberFigures({"live": 10}, (("Ohio", 3), ("Other", 5)), 2), limit=10)
    sort = TableSort("homes.1", lambda each, at: f"{each.name}.{at}", str)
    assert [row.cells[0] for _, row in sort.rows(block)] == [5, 3, 2]


def test_growth_ends_with_the_live_members() -> None:
    rows = _rows(_view(range="all"), "growth")
    assert int(rows[-1]["Live at end"]) == len(DAYS) == ACCOUNT.members.live
    live = _rows(_view(range="all"), "live-members")
    assert [row["Live Members"] for row in live] == [row["Live at end"] for row in rows]
    opening = int(_rows(_view(range="7d"), "growth")[0]["Live at end"])
    assert opening == 400 - 7  # one more each day, and the day of the snapshot is incomplete
    note = _view().blocks["growth"].note
    assert note == "From the history of subscription states"


def test_history_that_differs_from_the_member_list_is_labeled() -> None:
    members = MemberFigures({"live": 500}, (), 0)
    account = AccountFigures(ACCOUNT.usage, members, ACCOUNT.growth, ACCOUNT.communities, ACCOUNT.campaigns)
    selection = select({}, AS_OF, account.first_days(TODAY))
    view = insight_view(account, (), LINKS, selection, lambda _: "", complete=False)
    assert view.blocks["growth"].note == "The history ends with 400 live Members, the member list has 500"


def test_comparison_is_with_the_days_before() -> None:
    figures = {figure.label: figure for figure in _view(range="30d").figures}
    assert figures["Messages"].previous == figures["Messages"].value
    assert figures["Messages"].change == "no change"
    assert figures["Reply rate"].text == "10.0 %"
    assert figures["Live Members"].previous == 400 - 31
    assert figures["Live Members"].change == f"+{100 * 31 / 369:.1f} %"
    types = _rows(_view(range="30d"), "message-types")
    assert _sum(types, "Messages before") == figures["Messages"].previous
    rows = _rows(_view(range="30d"), "messages")
    assert all(row["Previous period"] == row["Total"] for row in rows)


def test_period_before_the_data_is_not_compared() -> None:
    view = _view(range="12m")
    assert {figure.previous for figure in view.figures} == {None}
    assert "Previous period" not in _rows(view, "messages")[0]
    assert {figure.previous for figure in _view(range="7d", compare="none").figures} == {None}


def test_buckets_are_weeks_beyond_90_days() -> None:
    assert len(_rows(_view(range="90d"), "messages")) == 90
    rows = _rows(_view(range="12m"), "messages")
    assert len(rows) == 53
    assert (rows[1]["From"], rows[1]["To"]) == ("2025-12-01", "2025-12-07")


def test_formulas_in_files_are_escaped() -> None:
    assert [row["State"] for row in _rows(_view(), "homes")] == ["Ohio", "Unknown", "'=x", "Other"]


def test_names_of_stored_values_are_words() -> None:
    view = _view()
    assert [row.name for row in view.blocks["message-types"].rows] == ["Campaign", "Direct message"]
    assert [row.name for row in view.blocks["subscriptions"].rows] == ["Live", "Opted out", "Deleted"]
    assert {column.label for column in view.blocks["messages"].columns} >= {"WhatsApp", "Fax", "Mail", "Rcs"}


def test_every_block_has_a_file() -> None:
    view = _view(complete=True)
    assert all(_rows(view, name) for name in view.blocks)


@pytest.mark.parametrize("range_name", RANGES)
def test_charts_have_a_bar_per_bucket(range_name: str) -> None:
    view = _view(range=range_name)
    chart = draw_chart(view.blocks["messages"])
    assert chart is not None
    assert {series.path.count("M") for series in chart.series} == {chart.buckets}
    assert chart.buckets == len(view.blocks["messages"].rows)
    assert chart.ticks[0][1] == "0"
    growth = draw_chart(view.blocks["growth"])
    assert growth is not None
    assert growth.ticks[0][1].startswith("\N{MINUS SIGN}")


def test_lines_have_gaps_and_losses_no_color_of_gains() -> None:
    view = _view(range="30d")
    rates = draw_chart(view.blocks["rates"])
    assert rates is not None
    cells = [row.cells[view.blocks["rates"].series[0]] for row in view.blocks["rates"].rows]
    runs = sum(1 for before, cell in zip([None, *cells], cells, strict=False) if before is None and cell is not None)
    assert rates.series[0].path.count("M") == runs
    growth = draw_chart(view.blocks["growth"])
    assert growth is not None
    assert [series.number for series in growth.series] == [1, 2, 4, 6, 5]


def test_empty_account_has_no_charts() -> None:
    empty = AccountFigures(
        usage={}, members=MemberFigures({}, (), 0), growth={}, communities=CommunityFigures((), 0, 0), campaigns={}
    )
    for range_name in RANGES:
        selection = select({"range": range_name}, AS_OF, empty.first_days(date(2026, 11, 24)))
        view = insight_view(empty, (), LinkFigures((), 0, 0), selection, lambda _: "", complete=False)
        assert [figure.text for figure in view.figures] == ["0", "0", "0", EN_DASH, EN_DASH, "0", "0", "0"]
        assert all(
            draw_chart(view.blocks[name]) is None
            for name in ("messages", "segments", "growth", "live-members", "rates")
        )
