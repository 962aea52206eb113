"""The public status page."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.acceptance.dashboard.axe import axe_violations
from tests.acceptance.dashboard.conftest import Service
from tests.acceptance.dashboard.sample import directory


def test_status_needs_no_sign_in(open_with_axe: Callable[[], Page], service: Service) -> None:
    page = open_with_axe()
    response = page.goto(f"{service.base}/dashboard/status")
    assert response is not None
    assert response.headers["cache-control"] == "public, max-age=30"
    expect(page.get_by_role("region", name="Freshness")).to_contain_text("Up to date")
    days = page.get_by_role("region", name="Last 90 days")
    expect(days.get_by_role("listitem")).to_have_count(90)
    expect(days).to_contain_text("100.0 % on time")
    expect(page.get_by_role("region", name="Late publications")).to_contain_text("None in the last 90 days.")
    assert axe_violations(page, "status") == []
    text = page.content()
    assert not re.search(r"Northlight|north-1|example\.org", text.replace("data@northlight.example", ""))
    assert directory.NORTHLIGHT not in text
