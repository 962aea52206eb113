"""Files that the dashboard generates: the spreadsheet-safe copy, tables of Insight, and the activity."""

import csv
import io
import json
from collections.abc import Iterator

import pytest

from tests.acceptance.browser import Browser, signed_in
from tests.acceptance.installation import MAYA, NORTH, VIC
from tests.acceptance.service import Service
from tests.parts.waiting import wait_until

SAFE = f"/dashboard/{NORTH}/files/members/spreadsheet-safe.csv"
BLOCK = f"/dashboard/{NORTH}/insight/messages.csv"


@pytest.fixture
def maya(service: Service) -> Iterator[Browser]:
    """Return a browser that is signed in."""
    with signed_in(service, MAYA) as found:
        yield found


@pytest.mark.parametrize("path", [SAFE, f"/dashboard/{NORTH}/activity.csv", f"/dashboard/{NORTH}/activity.jsonl"])
def test_head_has_the_headers_of_get_without_length(maya: Browser, path: str) -> None:
    got, head = maya.get(path), maya.head(path)
    assert (got.status_code, head.status_code, head.content) == (200, 200, b"")
    assert got.content
    assert got.headers.pop("Transfer-Encoding") == "chunked"
    for found in (got, head):
        del found.headers["Date"], found.headers["X-Request-Id"]
    assert head.headers == got.headers
    assert "Content-Length" not in head.headers


@pytest.mark.parametrize("path", [SAFE, BLOCK])
def test_get_is_audited_and_head_is_not(service: Service, maya: Browser, path: str) -> None:
    token = service.token(MAYA, NORTH)

    def fetches() -> set[str]:
        found = service.get(f"/download/v1/audit/{NORTH}?action=file.fetched", token=token)
        return {json.loads(line)["request_id"] for line in found.text.splitlines()}

    checked = maya.head(path).headers["X-Request-Id"]
    # Both requests use one connection, so one worker records them in order.
    sent = maya.get(path).headers["X-Request-Id"]
    wait_until(lambda: sent in fetches(), what="the audit event of the file")
    assert checked not in fetches()


def test_activity_file_escapes_formulas(service: Service, maya: Browser) -> None:
    """The User-Agent header is written by clients and read in a spreadsheet."""
    # A login begins on the account that was used last, and its event belongs to that account.
    service.token(MAYA, NORTH)
    assert service.log_in(MAYA, headers={"User-Agent": "=HYPERLINK(1;2)"}).status_code == 200
    rows = list(csv.DictReader(io.StringIO(maya.get(f"/dashboard/{NORTH}/activity.csv").text.lstrip("\ufeff"))))
    assert "'=HYPERLINK(1;2)" in {row["user_agent"] for row in rows}
    assert not [cell for row in rows for cell in row.values() if cell.startswith("=")]


def test_rows_are_hidden_without_data_export(service: Service, maya: Browser) -> None:
    with signed_in(service, VIC) as other:
        for path in ("preview", "spreadsheet-safe.csv", "csv", "json"):
            page = f"/dashboard/{NORTH}/files/members/{path}"
            assert maya.get(page).status_code in {200, 302, 303}, path
            assert other.get(page).status_code == 403, path
        assert maya.get(BLOCK).status_code == 200
        assert other.get(BLOCK).status_code == 403
        for page in ("files", "insight"):
            found = other.get(f"/dashboard/{NORTH}/{page}")
            assert "Ask your operator for Data Export" in found.text, page
            assert "Members" not in found.text.partition("<main")[2], page
