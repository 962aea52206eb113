"""Erasure of a Member while the service runs."""

import csv
import gzip
import io
import json
import subprocess
import time
from collections.abc import Callable

from tests.acceptance.installation import MAYA, NORTH, SOUTH, Installation
from tests.acceptance.service import serving
from tests.parts.waiting import wait_until
from tests.parts.warm import daybreakd


def run(installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    return daybreakd(*arguments, "--config", installation.folder / "daybreak.toml", folder=installation.folder)


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(gzip.decompress(content).decode(), newline="")))


def test_service_serves_files_without_the_member(make_installation: Callable[[], Installation]) -> None:
    installation = make_installation()
    with serving(installation) as service:
        token, other = service.token(MAYA, NORTH), service.token(MAYA, SOUTH)
        old, campaigns = service.link(token, NORTH, "members.csv.gz"), service.link(token, NORTH)
        foreign = service.link(other, SOUTH, "members.csv.gz")
        before = service.get(old)
        rows = rows_of(before.content)
        member = next(row for row in rows if row["PHONE_NUMBER"])
        # The expiry of a link has whole seconds: one of the same second gives the new file.
        issued = time.time()
        wait_until(lambda: time.time() > issued + 1)

        found = run(installation, "member", "erase", member["MEMBER_ID"], "--dry-run")
        assert NORTH in found.stdout
        assert service.get(old).content == before.content
        erased = run(installation, "member", "erase", member["MEMBER_ID"])
        assert "Erased: " in erased.stdout, erased.stderr
        # The installation has no platform.
        assert erased.returncode == 1
        assert "The platform could not be checked" in erased.stderr
        assert "If the platform still has the Member, delete the Member there." in erased.stderr

        ended = service.get(old)
        assert (ended.status_code, ended.json()["code"]) == (403, "link_revoked")
        assert "replaced" in ended.json()["detail"]
        assert {service.get(link).status_code for link in (campaigns, foreign)} == {200}
        new = service.link(token, NORTH, "members.csv.gz")
        after = service.get(new, headers={"If-Modified-Since": before.headers["Last-Modified"]})
        assert after.status_code == 200
        assert rows_of(after.content) == [row for row in rows if row["MEMBER_ID"] != member["MEMBER_ID"]]
        assert after.headers["X-Row-Count"] == str(len(rows) - 1)
        assert after.headers["ETag"] != before.headers["ETag"]
        assert json.loads(run(installation, "member", "receipts", "--json").stdout)[0]["finished_at"]
        events = service.get(f"/download/v1/audit/{NORTH}?action=files.erased", token=token).text.splitlines()
        assert len(events) == 1
        log = service.program.log() + erased.stdout + erased.stderr + "".join(events)
        assert not [value for value in (member["MEMBER_ID"], member["PHONE_NUMBER"]) if value in log]


def test_argument_must_be_an_identifier(make_installation: Callable[[], Installation]) -> None:
    """The argument is not repeated, because it may be a phone number."""
    installation = make_installation()
    with serving(installation):
        refused = run(installation, "member", "erase", "+12125550123")
    assert refused.returncode == 2
    assert "MEMBER_ID" in refused.stderr
    assert "2125550123" not in refused.stderr
