"""What the dashboard makes while it sends it: the spreadsheet-safe copy and the trail's files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest

from tests.acceptance.service import Service
from tests.acceptance.test_dashboard_posts import Browser
from tests.acceptance.world import MAYA, NORTH, VIC
from tests.parts.waiting import wait_until

SAFE = f"/dashboard/{NORTH}/files/members/spreadsheet-safe.csv"


@pytest.fixture
def maya(service: Service) -> Iterator[Browser]:
    """Somebody who is signed in."""
    found = Browser(service)
    with found.session:
        assert found.sign_in(MAYA).status_code == 303
        yield found


@pytest.mark.parametrize("path", [SAFE, f"/dashboard/{NORTH}/activity.csv", f"/dashboard/{NORTH}/activity.jsonl"])
def test_head_has_what_get_has_and_no_length(maya: Browser, path: str) -> None:
    got, head = maya.get(path), maya.head(path)
    assert (got.status_code, head.status_code, head.content) == (200, 200, b"")
    assert got.content
    assert got.headers.pop("Transfer-Encoding") == "chunked"
    for found in (got, head):
        del found.headers["Date"], found.headers["X-Request-Id"]
    assert head.headers == got.headers
    assert "Content-Length" not in head.headers


def test_a_copy_is_on_the_trail_when_it_is_sent_and_not_when_it_is_asked_about(service: Service, maya: Browser) -> None:
    token = service.token(MAYA, NORTH)

    def fetches() -> set[str]:
        found = service.get(f"/download/v1/audit/{NORTH}?action=file.fetched", token=token)
        return {json.loads(line)["request_id"] for line in found.text.splitlines()}

    asked = maya.head(SAFE).headers["X-Request-Id"]
    # The worker that was asked writes what it has before long, and these two go over one connection to one worker.
    sent = maya.get(SAFE).headers["X-Request-Id"]
    wait_until(lambda: sent in fetches(), what="the copy on the trail")
    assert asked not in fetches()


def test_the_trails_file_runs_nothing_that_a_stranger_wrote(service: Service, maya: Browser) -> None:
    """Whoever opens it in a spreadsheet reads what others have sent as their program's name."""
    assert service.log_in(MAYA, headers={"User-Agent": "=HYPERLINK(1;2)"}).status_code == 200
    rows = list(csv.DictReader(io.StringIO(maya.get(f"/dashboard/{NORTH}/activity.csv").text.lstrip("\ufeff"))))
    assert "'=HYPERLINK(1;2)" in {row["user_agent"] for row in rows}
    assert not [cell for row in rows for cell in row.values() if cell.startswith("=")]


def test_who_may_export_nothing_is_shown_no_row(service: Service, maya: Browser) -> None:
    other = Browser(service)
    with other.session:
        assert other.sign_in(VIC).status_code == 303
        for path in ("preview", "spreadsheet-safe.csv", "csv", "json"):
            page = f"/dashboard/{NORTH}/files/members/{path}"
            assert maya.get(page).status_code in {200, 302, 303}, path
            assert other.get(page).status_code == 403, path
        for page in ("files", "insight"):
            found = other.get(f"/dashboard/{NORTH}/{page}")
            assert "no Data Export access" in found.text, page
            assert "Members" not in found.text.partition("<main")[2], page
