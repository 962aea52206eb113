"""Unavailable or damaged components: error responses, no wrong content, and recovery."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests

from daybreak.filestore.file_keys import slice_of
from tests.acceptance.browser import signed_in
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import MAYA, NORTH, Installation
from tests.acceptance.service import Service, serving
from tests.acceptance.test_headers import check_headers
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.waiting import wait_until


@pytest.fixture(scope="module")
def private_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service whose files and database the tests may damage."""
    settings = {"state.wait": "1s"}
    with serving(new_installation(Path(tmp_path_factory.mktemp("broken"))), settings=settings, workers=1) as found:
        yield found


def _place_of(service: Service, token: str, file: str) -> tuple[str, Path, int, int]:
    """Return a link to a file, the path of the file or pack on disk, and where the file begins and ends in it."""
    link = service.link(token, NORTH, file)
    resource, name = file.split(".")[:2]
    snapshot_id = link.split("/")[7]
    found = service.installation.read(lambda stores: stores.snapshots.file(snapshot_id, NORTH, resource, name))
    assert found is not None
    part = slice_of(found.stored.key)
    return link, service.installation.files_folder / part.key, part.offset, part.offset + found.stored.bytes


@pytest.mark.parametrize("file", ["members.csv.gz", "campaign_links.csv.gz"])
@pytest.mark.parametrize("served_before", [False, True])
def test_damaged_file_is_not_served(private_service: Service, file: str, served_before: bool) -> None:
    token = private_service.token(MAYA, NORTH)
    link, path, start, end = _place_of(private_service, token, file)
    if served_before:
        assert private_service.get(link).status_code == 200
    content = path.read_bytes()
    try:
        at = start + 100
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        for method in ("GET", "HEAD"):
            found = private_service.request(method, link)
            assert found.status_code == 500
            check_headers(found)
        assert private_service.get(link).json()["code"] == "file_damaged"
        assert str(path) not in private_service.get(link).text
        assert private_service.get(link, headers={"Range": "bytes=0-9"}).status_code == 500
        path.write_bytes(content[: end - 1])
        assert private_service.get(link).json()["code"] == "file_damaged"
    finally:
        path.write_bytes(content)
    assert private_service.get(link).content == content[start:end]


@pytest.mark.release
@pytest.mark.parametrize(("resource", "fits_in_one_chunk"), [("communities", True), ("members", False)])
def test_damaged_file_fails_the_spreadsheet_download(
    private_service: Service, resource: str, fits_in_one_chunk: bool
) -> None:
    _, path, _, end = _place_of(private_service, private_service.token(MAYA, NORTH), f"{resource}.csv.gz")
    with signed_in(private_service, MAYA) as browser:
        content = path.read_bytes()
        try:
            for damaged in (
                content[: end - 9],
                content[: end - 8] + bytes([content[end - 8] ^ 1]) + content[end - 7 :],
            ):
                path.write_bytes(damaged)
                if fits_in_one_chunk:
                    found = browser.get(f"/dashboard/{NORTH}/files/{resource}/spreadsheet-safe.csv")
                    assert (found.status_code, "Files unavailable" in found.text) == (503, True)
                else:
                    with pytest.raises(requests.exceptions.ChunkedEncodingError):
                        browser.get(f"/dashboard/{NORTH}/files/{resource}/spreadsheet-safe.csv")
        finally:
            path.write_bytes(content)


def _cut_off(service: Service) -> int:
    lines = [line for line in service.log_lines() if line["event"] == "response_cut_off"]
    return len([line for line in lines if line["code"] == "file_damaged"])


def test_damaged_file_cuts_the_archive_off(private_service: Service) -> None:
    """Its bytes would have a valid checksum in the archive."""
    _, path, start, _ = _place_of(private_service, private_service.token(MAYA, NORTH), "members.csv.gz")
    content, cut_off = path.read_bytes(), _cut_off(private_service)
    with signed_in(private_service, MAYA) as browser:
        try:
            for damaged in (content[:-1], content[: start + 99] + b"?" + content[start + 100 :]):
                path.write_bytes(damaged)
                with pytest.raises(requests.exceptions.ChunkedEncodingError):
                    browser.get(f"/dashboard/{NORTH}/files/all.zip?format=csv")
        finally:
            path.write_bytes(content)
    wait_until(lambda: _cut_off(private_service) == cut_off + 2, what="a log line of each archive")


def test_missing_file_is_unavailable(private_service: Service) -> None:
    token = private_service.token(MAYA, NORTH)
    link, path, *_ = _place_of(private_service, token, "communities.csv.gz")
    moved = path.with_suffix(".aside")
    path.rename(moved)
    try:
        found = private_service.get(link)
        assert found.status_code == 503
        check_headers(found)
        assert int(found.headers["Retry-After"]) >= 1
        assert private_service.link(token, NORTH, "campaigns.csv.gz")
    finally:
        moved.rename(path)
    assert private_service.get(link).status_code == 200


def test_unwritable_files_make_the_service_not_ready(private_service: Service) -> None:
    staging = private_service.installation.files_folder / "staging"
    moved = staging.with_name("aside")
    answers = []

    def not_ready() -> bool:
        answers.append(private_service.get("/readyz"))
        return answers[-1].status_code == 503

    staging.rename(moved)
    try:
        # The result of a successful check is cached for a second.
        wait_until(not_ready, what="a check of the files")
        parts = answers[-1].json()["parts"]
        assert parts["state"] == "ok"
        assert parts["files"] == "unavailable (file_store_fault)"
        assert private_service.get("/healthz").status_code == 200
    finally:
        moved.rename(staging)
    assert private_service.get("/readyz").status_code == 200


def test_locked_state_database_is_503_and_never_401(private_service: Service) -> None:
    token = private_service.token(MAYA, NORTH)
    connection = sqlite3.connect(private_service.installation.folder / "state.db", isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        found = private_service.log_in(MAYA)
        assert (found.status_code, found.json()["code"]) == (503, "state_unavailable")
        assert int(found.headers["Retry-After"]) >= 1
        assert private_service.request_file(token, NORTH).status_code == 302, "reads continue"
        connection.execute("ROLLBACK")
    finally:
        connection.close()
    assert private_service.log_in(MAYA).status_code == 200


def test_pages_open_while_activity_cannot_be_recorded(private_service: Service) -> None:
    page = f"/dashboard/{NORTH}/files"
    state = private_service.installation.folder / "state.db"
    with (
        signed_in(private_service, MAYA) as browser,
        closing(sqlite3.connect(state, isolation_level=None)) as connection,
    ):
        two_minutes_ago = f"{datetime.now(UTC) - timedelta(minutes=2):%Y-%m-%dT%H:%M:%S.%fZ}"
        connection.execute("UPDATE sessions SET last_seen_at = ?", (two_minutes_ago,))

        def recorded() -> int:
            newer = "SELECT count(*) FROM sessions WHERE last_seen_at > ?"
            (count,) = connection.execute(newer, (two_minutes_ago,)).fetchone()
            return int(count)

        connection.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            assert browser.get(page).status_code == 200
        assert recorded() == 0
        connection.execute("ROLLBACK")
        assert browser.get(page).status_code == 200
        wait_until(recorded, what="the record of the activity")


def test_service_recovers_after_a_postgresql_outage(
    postgresql_server: PostgreSQLServer, postgresql_url: str, tmp_path: Path
) -> None:
    installation = Installation(tmp_path / "installation", postgresql_url)
    installation.create()
    database = postgresql_url.rpartition("/")[2]
    with serving(installation, settings={"state.wait": "1s"}) as service:
        token = service.token(MAYA, NORTH)
        link = service.link(token, NORTH)
        secret, _ = installation.create_token(MAYA, NORTH)
        postgresql_server.execute(
            f"ALTER DATABASE {database} WITH ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'",
        )
        try:
            for _ in range(3):
                for found in (
                    service.request_file(token, NORTH),
                    service.request_file(secret, NORTH),
                    service.get(link),
                    service.log_in(MAYA),
                    service.get("/readyz"),
                ):
                    assert found.status_code == 503, found.text
                    assert int(found.headers["Retry-After"]) >= 1
            assert service.get("/healthz").status_code == 200
            metrics = service.metrics()
            assert "daybreak_http_requests_open" in metrics
            assert "daybreak_files_late" not in metrics
        finally:
            postgresql_server.execute(f"ALTER DATABASE {database} WITH ALLOW_CONNECTIONS true")
        wait_until(
            lambda: service.request_file(token, NORTH).status_code == 302,
            60,
            what="the service to use the database again",
        )
        assert service.get(link).status_code == 200


def test_files_are_served_without_the_source(private_service: Service) -> None:
    # The platform's database does not exist: see `source.location` in `serving`.
    assert not os.path.lexists(private_service.installation.folder / "platform.duckdb")
    assert private_service.get("/readyz").status_code == 200
