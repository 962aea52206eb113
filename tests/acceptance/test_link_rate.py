"""Rate limit on links and downloads, with two workers: its responses, and the audit trail."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daybreak_client import Daybreak
from tests.acceptance.browser import signed_in
from tests.acceptance.installation import FOREIGN, MAYA, NORTH, Installation
from tests.acceptance.service import serving

LIMIT = 12
WORKERS = 2


def test_links_of_a_credential_are_limited(make_installation: Callable[[], Installation]) -> None:
    installation = make_installation()
    with serving(installation, workers=WORKERS, settings={"access.link_rate": f"{LIMIT}/1h"}) as service:
        secret, _ = installation.create_token(MAYA, NORTH)
        statuses = Counter(service.request_file(secret, NORTH).status_code for _ in range(60))
        assert statuses.keys() == {302, 429}
        assert statuses[302] == LIMIT
        refused = service.request_file(secret, NORTH, "members.csv.gz")
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert 1 <= int(refused.headers["Retry-After"]) <= 3700
        assert refused.headers["RateLimit-Limit"] == str(LIMIT)
        # Requests for the account of another Leader count too, because they are recorded.
        assert service.request_file(secret, FOREIGN).status_code == 429
        # Other credentials have their own limit.
        other, _ = installation.create_token(MAYA, NORTH)
        assert service.request_file(other, NORTH).status_code == 302
        assert service.request_file(service.token(MAYA, NORTH), NORTH).status_code == 302
        with signed_in(service, MAYA) as browser:
            pages = [browser.get(f"/dashboard/{NORTH}/files/campaigns/csv") for _ in range(LIMIT + 1)]
        assert {page.status_code for page in pages[:-1]} == {302}
        assert (pages[-1].status_code, pages[-1].headers["Content-Type"]) == (429, "text/html; charset=utf-8")
        assert "Too many" in pages[-1].text
    issued = installation.events(action="link.issued", client_id=NORTH, limit=500)
    links = Counter(event.result for event in issued)
    assert links == {"ok": LIMIT + 2 + LIMIT, "rate_limited": 2}


@pytest.mark.release
def test_downloads_of_a_credential_are_limited(make_installation: Callable[[], Installation]) -> None:
    installation = make_installation()
    with serving(installation, workers=WORKERS, settings={"access.link_rate": f"{LIMIT}/1h"}) as service:
        secret, token_id = installation.create_token(MAYA, NORTH)
        link, unused, revoked = (service.link(secret, NORTH) for _ in range(3))
        # Neither is recorded in the audit trail.
        assert {service.request("HEAD", link).status_code for _ in range(3 * LIMIT)} == {200}
        etag = service.request("HEAD", link).headers["ETag"]
        unchanged = {service.get(link, headers={"If-None-Match": etag}).status_code for _ in range(3 * LIMIT)}
        assert unchanged == {304}
        # Each worker counts the parts of a download once.
        parts = {service.get(link, headers={"Range": f"bytes={at}-{at}"}).status_code for at in range(3 * LIMIT)}
        assert parts == {206}
        statuses = Counter(service.get(link).status_code for _ in range(40))
        assert statuses.keys() == {200, 429}
        refused = service.get(link)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert "Retry-After" in refused.headers
        # A download that is not recorded is not served, in parts either. Other units than bytes are ignored.
        for requested in ("bytes=1-", "bytes=0-", "bytes=-9", "lines=1-"):
            limited = {service.get(unused, headers={"Range": requested}).status_code for _ in range(3 * WORKERS)}
            assert limited == {429}, requested
        # Refused links count too, because they are recorded.
        installation.change(lambda stores: stores.api_tokens.revoke(token_id, datetime.now(UTC), "test"))
        assert service.get(revoked).status_code == 429
    fetched = Counter(event.result for event in installation.events(action="file.fetched", limit=500))
    assert fetched["rate_limited"] == 1
    assert fetched.keys() == {"ok", "rate_limited"}
    assert fetched["ok"] == LIMIT


@pytest.mark.release
def test_dashboard_downloads_are_limited(make_installation: Callable[[], Installation]) -> None:
    settings = {"access.link_rate": f"{LIMIT}/1h"}
    installation = make_installation()
    with serving(installation, settings=settings) as service, signed_in(service, MAYA) as browser:
        path = f"/dashboard/{NORTH}/files/campaigns/spreadsheet-safe.csv"
        statuses = Counter(browser.get(path).status_code for _ in range(30))
        assert statuses.keys() == {200, 429}
        assert statuses[200] == LIMIT
    assert len(installation.events(action="file.fetched", limit=500)) == statuses[200] + 1


@pytest.mark.release
def test_client_waits_for_the_limit(make_installation: Callable[[], Installation], tmp_path: Path) -> None:
    installation = make_installation()
    with serving(installation, settings={"access.link_rate": "3/2s"}) as service:
        secret, _ = installation.create_token(MAYA, NORTH)
        with Daybreak(service.address, secret) as daybreak:
            result = daybreak.account(NORTH).fetch(tmp_path / "files")
    assert len(result.downloaded) == 9
    assert "rate_limited" in {event.result for event in installation.events(action="link.issued", limit=500)}
