"""The profile of a new API token, from the dashboard."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import delta_sharing
from playwright.sync_api import Page

from tests.acceptance.installation import MAYA, NORTH, PASSWORD, Installation
from tests.acceptance.service import serving

SETTINGS = {"sharing.enabled": True, "snapshot.formats": ["csv", "json", "parquet"]}


def test_dashboard_offers_a_profile(make_installation: Callable[[], Installation], page: Page, tmp_path: Path) -> None:
    with serving(make_installation(), workers=1, settings=SETTINGS) as service:
        page.goto(f"{service.base_url}/dashboard/sign-in")
        page.get_by_label("Email").fill(MAYA)
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url("**/files")
        page.goto(f"{service.base_url}/dashboard/{NORTH}/settings/tokens/new")
        page.get_by_label("Name").fill("Power BI")
        page.get_by_role("button", name="Create token").click()
        with page.expect_download() as downloading:
            page.get_by_role("link", name="Download profile").click()
        assert downloading.value.suggested_filename == "daybreak.share"
        profile = tmp_path / "daybreak.share"
        downloading.value.save_as(profile)
        content = json.loads(profile.read_text())
        assert content["endpoint"] == f"{service.base_url}/sharing/v1"
        expires_at = datetime.fromisoformat(content["expirationTime"])
        assert timedelta(days=89) < expires_at - datetime.now(UTC) <= timedelta(days=90)
        assert [share.name for share in delta_sharing.SharingClient(str(profile)).list_shares()] == [NORTH]
