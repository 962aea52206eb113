"""The audit trail of an account: who reads which events, and what is recorded."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.domain.identity import Grant
from tests.acceptance.browser import signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import CARL, DREW, MAYA, NORTH, VIC, Installation, seat_id
from tests.acceptance.service import Service, serving
from tests.parts.waiting import wait_until
from tests.parts.warm import printed_by

TRAIL = f"/download/v1/audit/{NORTH}"
ACTIVITY = f"/dashboard/{NORTH}/activity"
# Colleagues on one account: Maya owns it.
ROLES = {DREW: ("analyst",), VIC: ("admin",)}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service on which an owner, an admin and an analyst of one account have signed in."""
    installation = new_installation(tmp_path_factory.mktemp("audited"))
    for email, roles in ROLES.items():
        set_roles(installation, email, roles)
    with serving(installation, workers=1) as service:
        for email in (MAYA, DREW, VIC):
            assert service.get(TRAIL, token=service.token(email, NORTH)).status_code == 200
        yield service


def set_roles(installation: Installation, email: str, roles: tuple[str, ...]) -> None:
    grant = Grant(seat_id(email), NORTH, roles, data_export=email != VIC, async_rest_api=True)
    installation.change(lambda stores: stores.directory.put_grants(grant))


def read(service: Service, token: str, action: str = "") -> list[dict[str, Any]]:
    found = service.get(TRAIL + (f"?action={action}" if action else ""), token=token)
    assert found.status_code == 200
    return [json.loads(line) for line in found.text.splitlines()]


def actors(events: list[dict[str, Any]]) -> set[str]:
    return {event["actor"] for event in events}


@pytest.mark.release
def test_only_owners_and_admins_read_events_of_others(audited: Service) -> None:
    everyone = {MAYA, DREW, VIC}
    for email, expected in ((MAYA, everyone), (VIC, everyone), (DREW, {DREW})):
        assert actors(read(audited, audited.token(email, NORTH))) == expected, email
    secret, _ = audited.installation.create_token(DREW, NORTH)
    assert actors(read(audited, secret)) == {DREW}
    secret, _ = audited.installation.create_token(MAYA, NORTH)
    assert actors(read(audited, secret)) == everyone


def test_dashboard_shows_own_events_without_a_role(audited: Service) -> None:
    for email, hidden in ((MAYA, False), (DREW, True)):
        with signed_in(audited, email) as browser:
            for query in ("", f"?actor={VIC}", "?action=context.switched"):
                page = browser.get(ACTIVITY + query).text
                assert (VIC not in page.partition("<tbody>")[2]) is hidden
                assert ("You see your own activity." in page) is hidden
                assert ('name="actor"' not in page) is hidden
                rows = list(csv.DictReader(io.StringIO(browser.get(f"{ACTIVITY}.csv{query}").text.lstrip("\ufeff"))))
                lines = list(map(json.loads, browser.get(f"{ACTIVITY}.jsonl{query}").text.splitlines()))
                for exported in (rows, lines):
                    assert (VIC not in actors(exported)) is hidden, query


def test_withdrawn_role_takes_effect_immediately(audited: Service) -> None:
    session = audited.token(VIC, NORTH)
    assert MAYA in actors(read(audited, session))
    try:
        set_roles(audited.installation, VIC, ())
        assert actors(read(audited, session)) == {VIC}
    finally:
        set_roles(audited.installation, VIC, ROLES[VIC])


def test_previews_and_exports_are_recorded(audited: Service) -> None:
    session = audited.token(MAYA, NORTH)
    with signed_in(audited, MAYA) as browser:
        preview = f"/dashboard/{NORTH}/files/members/preview"
        head = browser.head(preview).headers["X-Request-Id"]
        expected = {
            browser.get(preview).headers["X-Request-Id"]: ("file.previewed", "members"),
            browser.get(f"{ACTIVITY}.csv?action=login").headers["X-Request-Id"]: ("audit.exported", "csv"),
            browser.get(f"{ACTIVITY}.jsonl").headers["X-Request-Id"]: ("audit.exported", "jsonl"),
            audited.get(f"{TRAIL}?action=login", token=session).headers["X-Request-Id"]: ("audit.exported", "ndjson"),
        }

        def recorded() -> dict[str, tuple[str, str]]:
            return {
                event["request_id"]: (event["action"], event["details"].get("file") or event["details"]["format"])
                for event in (*read(audited, session, "file.previewed"), *read(audited, session, "audit.exported"))
            }

        wait_until(lambda: expected.items() <= recorded().items(), what="the events of the preview and the exports")
        assert head not in recorded()
        filters = [event["details"].get("filter") for event in read(audited, session, "audit.exported")]
        assert {"action": "login"} in filters
        page = browser.get(ACTIVITY).text
    for label in ("File previewed", "Audit trail exported"):
        assert label in page.partition("<tbody>")[2]


def test_changed_permissions_name_the_seat(audited: Service, tmp_path: Path) -> None:
    def export() -> dict[str, Any]:
        document: dict[str, Any] = json.loads(run("export"))
        return document

    def run(*arguments: str | Path) -> str:
        return printed_by(audited.installation.folder, "directory", *map(str, arguments))

    def change(*permissions: dict[str, Any]) -> None:
        """Import the exported directory with other permissions of Carl on North."""
        document, file = export(), tmp_path / "directory.json"
        (carl,) = (seat for seat in document["seats"] if seat["email"] == CARL)
        others = [access for access in carl["access"] if access["client_id"] != NORTH]
        carl["access"] = [*others, *({"client_id": NORTH, **each} for each in permissions)]
        file.write_text(json.dumps(document))
        run("import", file)

    owner = {"roles": ["owner"], "data_export": True, "async_rest_api": True}
    analyst = {"roles": ["analyst"], "data_export": False, "async_rest_api": True}
    change(analyst)
    change()
    session = audited.token(MAYA, NORTH)
    changed, removed = (read(audited, session, action)[-1] for action in ("grant.changed", "grant.removed"))
    assert changed["actor"] == removed["actor"] == "operator"
    assert changed["details"] == {"seat": CARL, "before": owner, "after": analyst}
    assert removed["details"] == {"seat": CARL, "before": analyst, "after": None}
    with signed_in(audited, MAYA) as browser:
        page = browser.get(f"{ACTIVITY}?action=grant.changed").text
    assert f"{CARL}: Data Export off, roles owner → analyst" in page
