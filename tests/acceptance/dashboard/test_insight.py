"""Insight: charts, tables and figures."""

import re
from collections.abc import Callable
from datetime import date

from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.conftest import Service
from tests.acceptance.dashboard.sample import directory


def test_chart_legend_follows_the_pointer(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as()
    page.goto(service.account(directory.NORTHLIGHT, "insight"))
    summary = page.get_by_text("Show table").first
    # Open the table with the keyboard.
    summary.focus()
    page.keyboard.press("Enter")
    rows = page.locator("#messages-table tbody tr")
    days = sorted(rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.dataset.value))"))

    def legend_of(row: list[str]) -> list[str]:
        day = date.fromisoformat(row[0])
        return [f"{day:%a}, {day.day} {day:%b %Y}", *(f"{int(count):,}" for count in row[1:])]

    values = page.locator(".chart").first.locator(".u-legend .u-value")
    expect(values).to_have_text(legend_of(days[-1]))
    plot = page.locator(".chart").first.locator(".u-over")
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": 2, "y": 40})
    expect(values).to_have_text(legend_of(days[0]))
    summary.hover()
    expect(values).to_have_text(legend_of(days[-1]))


def test_figures_match_the_tables(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as()
    page.goto(service.account(directory.NORTHLIGHT, "insight"))
    expect(page.locator(".chart canvas")).to_have_count(3)
    page.get_by_text("Show table").first.click()
    table = page.locator("#messages-table")
    expect(table.locator("tbody tr")).to_have_count(30)
    figure = page.locator(".number-card", has_text="Messages").locator("b").inner_text()
    sums = table.locator("tbody td").evaluate_all(
        "cells => cells.reduce((sum, cell) => sum + Number(cell.dataset.value), 0)"
    )
    assert int(figure.replace(",", "")) == sums
    page.get_by_role("link", name="90 days").click()
    expect(page.locator("#messages-table tbody tr")).to_have_count(90)
    homes = (
        page.get_by_role("region", name="Members by state", exact=True)
        .locator("tbody td.number:nth-child(3)")
        .all_inner_texts()
    )
    deleted = page.get_by_role("row", name=re.compile("deleted")).locator("td.number").first.inner_text()
    assert sum(int(cell.replace(",", "")) for cell in homes) == 400 - int(deleted)
    expect(page.get_by_role("region", name="Communities by size", exact=True)).to_contain_text(
        "<img src=x onerror=alert(1)>"
    )
