"""Insight: ranges, comparison, charts and CSV files."""

import csv
import io
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.axe import PHONE, axe_violations
from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads, sign_in_without_form
from tests.acceptance.dashboard.sample import directory
from tests.acceptance.dashboard.sample.service import HOLD_FIGURES


@pytest.fixture
def insight(sign_in_as: Callable[..., Page], service: Service) -> Page:
    """The Insight page of the largest account."""
    return sign_in_as(address=service.account(directory.NORTHLIGHT, "insight"))


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _figure(page: Page, label: str) -> str:
    return page.locator(".number-card", has=page.get_by_text(label, exact=True)).locator("b").inner_text()


def _download(page: Page, title: str) -> list[dict[str, str]]:
    with page.expect_download() as downloading:
        page.get_by_role("link", name=f"Download {title} as CSV").click()
    return list(csv.DictReader(io.StringIO(downloading.value.path().read_text("utf-8-sig"))))


@pytest.mark.release
def test_legend_follows_pointer_and_arrow_keys(insight: Page) -> None:
    page = insight
    page.get_by_text("Show table").first.focus()
    page.keyboard.press("Enter")
    rows = page.locator("#messages-table tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    chart = page.get_by_role("img", name="Chart of Messages by channel")
    shown = chart.locator(".legend-bucket, [data-cell]")
    totals = shown.all_inner_texts()

    def legend_of(row: list[str]) -> list[str]:
        # The legend has no total of the channels.
        return [*row[:4], row[5]]

    box = chart.locator(".chart-values").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 40)
    expect(shown).to_have_text(legend_of(rows[-1]))
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 40)
    expect(shown).to_have_text(legend_of(rows[0]))
    page.mouse.move(0, 0)
    expect(shown).to_have_text(totals)
    chart.focus()
    for key, row in (("ArrowLeft", rows[0]), ("ArrowLeft", rows[1]), ("Home", rows[-1]), ("ArrowRight", rows[-2])):
        page.keyboard.press(key)
        expect(shown).to_have_text(legend_of(row))
    expect(page.locator("#status")).to_contain_text(rows[-2][0])
    page.keyboard.press("Escape")
    expect(shown).to_have_text(totals)


def test_figures_tables_and_files_agree(insight: Page) -> None:
    page = insight
    for name, title in (("messages", "Messages"), ("segments", "Segments")):
        table = page.locator(f"#{name}-table")
        expect(table.locator("tbody tr")).to_have_count(30)
        total = table.locator("tfoot td").nth(3).text_content() or ""
        rows = _download(page, f"{title} by channel")
        assert _number(_figure(page, title)) == _number(total) == sum(int(row["Total"]) for row in rows)
        shown = [_number(cell) for cell in table.locator("tbody td:nth-child(5)").all_text_contents()]
        assert shown == [int(row["Total"]) for row in reversed(rows)]
    growth = _download(page, "Member growth")
    assert _number(_figure(page, "New Members")) == sum(int(row["Joined"]) for row in growth)
    live = _number(_figure(page, "Live Members"))
    subscriptions = _download(page, "Members by subscription")
    assert {row["Subscription"]: int(row["Members"]) for row in subscriptions}["Live"] == live
    assert sum(int(row["Members"]) for row in subscriptions) == 400
    homes = _download(page, "Members by home state")
    deleted = {row["Subscription"]: int(row["Members"]) for row in subscriptions}["Deleted"]
    assert sum(int(row["Members"]) for row in homes) == 400 - deleted
    page.get_by_role("link", name="All", exact=True).click()
    growth = _download(page, "Member growth")
    assert int(growth[-1]["Live at end"]) == live


@pytest.mark.release
def test_range_and_comparison_are_in_the_url(insight: Page) -> None:
    page = insight
    expect(page.get_by_text(re.compile(r"^Compared with"))).to_be_visible()
    page.get_by_role("link", name="7 days").click()
    expect(page).to_have_url(re.compile(r"insight\?range=7d$"))
    expect(page.locator("#messages-table tbody tr")).to_have_count(7)
    expect(page.locator("#messages-table thead")).to_contain_text("Previous period")
    page.get_by_role("link", name="Hide comparison").click()
    expect(page).to_have_url(re.compile(r"insight\?range=7d&compare=none$"))
    expect(page.locator("#messages-table thead")).not_to_contain_text("Previous period")
    expect(page.locator(".change")).to_have_count(0)
    page.get_by_role("link", name="90 days").click()
    expect(page.locator("#messages-table tbody tr")).to_have_count(90)
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.locator("#messages-table thead")).to_contain_text("Previous period")
    page.get_by_role("link", name="12 months").click()
    expect(page.get_by_text(re.compile("are not compared: their data begins on"))).to_be_visible()
    expect(page.locator("#messages-table tbody tr").nth(1)).to_contain_text("\N{EN DASH}")
    page.go_back()
    expect(page.locator("#messages-table tbody tr")).to_have_count(90)


@pytest.mark.release
def test_campaign_is_found_and_opened(open_with_axe: Callable[[], Page], service: Service) -> None:
    page = open_with_axe()
    sign_in_without_form(page, service, directory.OWNER)
    page.goto(service.account(directory.NORTHLIGHT, "insight?range=90d"))
    campaigns = _download(page, "Campaigns")
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_role("heading", name="All campaigns")).to_be_visible()
    shown = page.locator("tbody tr")
    expect(shown).to_have_count(len(campaigns))
    page.get_by_label("Order").select_option("Recipients")
    page.get_by_role("button", name="Apply").click()
    expect(shown.first).to_contain_text(f"{int(campaigns[0]['Recipients']):,}")
    page.get_by_role("columnheader", name="Recipients").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Recipients")).to_have_attribute("aria-sort", "ascending")
    expect(shown.last).to_contain_text(f"{int(campaigns[0]['Recipients']):,}")
    linked = next(row for row in campaigns if row["Clicks"])
    row = shown.filter(has_text=f"{int(linked['Clicks']):,}").filter(has_text=f"{int(linked['Recipients']):,}")
    name = row.get_by_role("link").inner_text()
    page.get_by_label("Name or message").fill(name[1:8].upper())
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", name="Matching campaigns")).to_be_visible()
    expect(page.get_by_label("Sent in")).to_have_value("90d")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_text("Reply STOP to opt out")).to_be_visible()
    assert _number(_figure(page, "Recipients")) == int(linked["Recipients"])
    assert _number(_figure(page, "Clicks")) == int(linked["Clicks"])
    expect(page.get_by_text(re.compile(r"^Average: campaigns from"))).to_be_visible()
    links = _download(page, "Links")
    assert sum(int(link["Clicks"]) for link in links) == int(linked["Clicks"])
    usage = {row["Figure"]: int(row["Total"]) for row in _download(page, "Message usage")}
    assert usage["Segments sent"] == int(linked["Segments"])
    assert axe_violations(page, "campaign") == []
    page.get_by_role("link", name="All campaigns").click()
    page.get_by_role("link", name="Back to Insight").click()
    expect(page).to_have_url(re.compile(r"insight\?range=90d$"))


def test_cards_on_a_phone_are_sorted(insight: Page) -> None:
    page = insight
    page.set_viewport_size(PHONE)
    select = page.get_by_label("Sort campaigns by")
    box = select.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    for order, highest_first in (("Recipients: lowest first", False), ("Recipients: highest first", True)):
        select.select_option(order)
        page.get_by_role("button", name="Sort").first.click()
        expect(page).to_have_url(re.compile(r"range=30d&sort=campaigns\.3(-up)?#campaigns-title$"))
        expect(select.locator("option:checked")).to_have_text(order)
        shown = [_number(text) for text in page.locator("#campaigns-table [data-label=Recipients]").all_inner_texts()]
        assert len(shown) > 1
        assert shown == sorted(shown, reverse=highest_first)
    # Links of headings that are not shown do not receive the focus.
    expect(page.locator("#campaigns-table thead a").first).not_to_be_visible()


@pytest.mark.release
def test_unknown_campaign_is_not_found(insight: Page, service: Service, console_messages: list[str]) -> None:
    for campaign in ("x", directory.NORTHLIGHT):
        insight.goto(service.account(directory.NORTHLIGHT, f"insight/campaigns/{campaign}"))
        expect(insight.get_by_role("heading", level=1)).to_have_text(re.compile("not found", re.IGNORECASE))
    ignore_failed_loads(console_messages, 404)


@pytest.mark.release
@pytest.mark.parametrize(
    ("number", "path", "heading"),
    [(2, "insight", "Messages by channel"), (1, "insight/campaigns", "All campaigns")],
)
def test_page_opens_when_the_rows_are_counted(
    open_with_axe: Callable[[], Page], service: Service, number: int, path: str, heading: str
) -> None:
    """No other test opens Insight on these accounts. The files are their own, so the figures are not in the cache."""
    page = open_with_axe()
    sign_in_without_form(page, service, directory.AGENCY)
    address = service.account(directory.AGENCY_IDS[number], path)

    hold = service.folder / HOLD_FIGURES
    hold.touch()
    try:
        # The page's own reload would end the check with axe. It waits until the dialog is closed.
        page.clock.install()
        page.goto(address)
        expect(page.get_by_text("Counting rows")).to_be_visible()
        expect(page.locator(".skeleton").first).to_be_visible()
        assert axe_violations(page, "Counting rows") == []
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").fill("files")
        page.evaluate("document.body.dataset.opened = 'once'")
        page.clock.run_for(10_000)
        expect(page.get_by_role("combobox")).to_have_value("files")
        assert '<noscript><meta http-equiv="refresh" content="1"></noscript>' in page.request.get(address).text()
    finally:
        hold.unlink()
    assert page.locator("body[data-opened]").count() == 1, "the page was reloaded under an open dialog"
    page.keyboard.press("Escape")
    page.clock.run_for(1_000)
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.get_by_text("Counting rows")).to_have_count(0)


@pytest.mark.release
def test_tables_are_sorted_by_a_click(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "insight?range=7d"), has_touch=True)
    chart = page.get_by_role("img", name="Chart of Messages by channel")
    table = page.locator("#messages-table")
    page.get_by_text("Show table").first.click()
    newest = table.locator("tbody tr").first.locator("th, td").all_text_contents()
    table.get_by_role("link", name="Total").click()
    expect(table.locator("[aria-sort=descending]")).to_have_text("Total")
    totals = [_number(cell) for cell in table.locator("tbody td:nth-child(5)").all_text_contents()]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) > 1
    # A tap shows the values of its bar, in whatever order the table is.
    plot = chart.locator(".chart-values")
    plot.tap(position={"x": plot.evaluate("plot => plot.getBoundingClientRect().width") - 2, "y": 40})
    expect(chart.locator(".legend-bucket, [data-cell]")).to_have_text([*newest[:4], newest[5]])
    homes = page.locator("#homes-table")
    homes.get_by_role("link", name="State").click()
    expect(homes.locator("[aria-sort=ascending]")).to_have_text("State")
    names = homes.locator("tbody th").all_text_contents()
    listed = [name for name in names if name != "Other"]
    assert names == sorted(listed, key=str.casefold) + ["Other"] * (len(names) - len(listed))
    expect(table.locator("[aria-sort]")).to_have_count(0)


def test_hostile_names_are_text(insight: Page) -> None:
    expect(insight.get_by_role("region", name="Table of Communities")).to_contain_text("<img src=x onerror=alert(1)>")


@pytest.mark.release
def test_charts_need_no_script(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(
        java_script_enabled=False, viewport=PHONE, address=service.account(directory.NORTHLIGHT, "insight?range=12m")
    )
    bars = page.get_by_role("img", name="Chart of Messages by channel").locator("path.bars")
    expect(bars).to_have_count(3)
    box = bars.first.bounding_box()
    assert box is not None
    assert box["width"] > 200
    assert box["height"] > 50
    expect(page.locator("#messages-table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
