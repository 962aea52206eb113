"""Settings > Display: time zone and number format of pages and CSV files."""

import csv
import io
import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.conftest import Service, ignore_failed_loads
from tests.acceptance.dashboard.sample import directory


@pytest.mark.release
def test_pages_and_csv_follow_the_seat(sign_in_as: Callable[..., Page], service: Service) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "settings/display"))
    expect(page.get_by_label("Time zone")).to_have_value("UTC")
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.get_by_label("Number format").select_option("1.234,5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Display saved.")).to_be_visible()
    expect(page.get_by_text(re.compile(r"Now .*\d\d:\d\d JST"))).to_be_visible()
    try:
        page.goto(service.account(directory.NORTHLIGHT))
        expect(page.get_by_role("region", name="Freshness")).to_contain_text(re.compile(r"As of .*\d\d:12 JST"))
        expect(page.locator(".resource").first).to_contain_text(re.compile(r"\d,\d (kB|MB)|bytes"))
        expect(page.get_by_role("region", name="Freshness")).not_to_contain_text("UTC")
        expect(page.get_by_label("Snapshot", exact=True).locator("option").first).to_contain_text("JST")
        found = page.request.get(service.account(directory.NORTHLIGHT, "activity.csv")).text()
        heading, first, *_ = csv.reader(io.StringIO(found.lstrip("\ufeff"), newline=""))
        assert dict(zip(heading, first, strict=True))["at"].endswith("+09:00")
        lines = page.request.get(service.account(directory.NORTHLIGHT, "activity.jsonl")).text().splitlines()
        assert json.loads(lines[0])["at"].endswith("+00:00")
    finally:
        seat_id = directory.id_of(directory.OWNER)
        service.state.write(lambda stores: stores.seats.set_display(seat_id, "UTC", "1,234.5"))
    page.goto(service.account(directory.NORTHLIGHT))
    expect(page.get_by_role("region", name="Freshness")).to_contain_text("UTC")


def test_unknown_zone_is_refused(
    sign_in_as: Callable[..., Page], service: Service, console_messages: list[str]
) -> None:
    page = sign_in_as(address=service.account(directory.NORTHLIGHT, "settings/display"))
    page.get_by_label("Time zone").evaluate("menu => { menu.options[0].value = 'Mars/Olympus'; }")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose a time zone from the list.")
    ignore_failed_loads(console_messages, 400)
