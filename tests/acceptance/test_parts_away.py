"""A part of the service is away or broken: said so in time, nothing false is served, all is well again after."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.acceptance.conftest import new_world
from tests.acceptance.service import Service, serving
from tests.acceptance.test_dashboard_posts import Browser
from tests.acceptance.test_headers import check_headers
from tests.acceptance.world import MAYA, NORTH, World
from tests.parts.postgresql import PostgreSQLServer
from tests.parts.waiting import wait_until


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose files and database may be broken."""
    settings = {"state.wait": "1s"}
    with serving(new_world(Path(tmp_path_factory.mktemp("broken"))), settings=settings, workers=1) as found:
        yield found


def _path_of(service: Service, token: str, file: str) -> tuple[str, Path]:
    """A link, and the file on disk that it leads to."""
    link = service.link(token, NORTH, file)
    snapshot = link.split("/")[7]
    (found,) = (service.world.files_folder / "snapshots" / snapshot).rglob(f"{NORTH}.{file}")
    return link, found


@pytest.mark.parametrize("file", ["members.csv.gz", "campaign_links.csv.gz"])
@pytest.mark.parametrize("served_before", [False, True])
def test_a_damaged_file_is_not_served(own: Service, file: str, served_before: bool) -> None:
    token = own.token(MAYA, NORTH)
    link, path = _path_of(own, token, file)
    if served_before:
        assert own.get(link).status_code == 200
    content = path.read_bytes()
    try:
        path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
        for method in ("GET", "HEAD"):
            found = own.request(method, link)
            assert found.status_code == 500
            check_headers(found)
        assert own.get(link).json()["code"] == "file_damaged"
        assert str(path) not in own.get(link).text
        assert own.get(link, headers={"Range": "bytes=0-9"}).status_code == 500
        path.write_bytes(content[:-1])
        assert own.get(link).json()["code"] == "file_damaged"
    finally:
        path.write_bytes(content)
    assert own.get(link).content == content


@pytest.mark.parametrize(("resource", "first_piece_is_all"), [("communities", True), ("members", False)])
def test_people_get_no_part_of_a_damaged_file_for_the_whole(
    own: Service, resource: str, first_piece_is_all: bool
) -> None:
    _, path = _path_of(own, own.token(MAYA, NORTH), f"{resource}.csv.gz")
    browser = Browser(own)
    with browser.session:
        assert browser.sign_in(MAYA).status_code == 303
        content = path.read_bytes()
        try:
            for damaged in (content[:-9], content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]):
                path.write_bytes(damaged)
                if first_piece_is_all:
                    found = browser.get(f"/dashboard/{NORTH}/files/{resource}/spreadsheet-safe.csv")
                    assert (found.status_code, "out of reach" in found.text) == (503, True)
                else:
                    with pytest.raises(requests.exceptions.ChunkedEncodingError):
                        browser.get(f"/dashboard/{NORTH}/files/{resource}/spreadsheet-safe.csv")
        finally:
            path.write_bytes(content)


def test_a_file_that_is_gone_is_away(own: Service) -> None:
    token = own.token(MAYA, NORTH)
    link, path = _path_of(own, token, "communities.csv.gz")
    aside = path.with_suffix(".aside")
    path.rename(aside)
    try:
        found = own.get(link)
        assert found.status_code == 503
        check_headers(found)
        assert int(found.headers["Retry-After"]) >= 1
        assert own.link(token, NORTH, "campaigns.csv.gz")
    finally:
        aside.rename(path)
    assert own.get(link).status_code == 200


def test_files_that_cannot_be_written_make_the_service_not_ready(own: Service) -> None:
    staging = own.world.files_folder / "staging"
    aside = staging.with_name("aside")
    answers = []

    def asked() -> bool:
        answers.append(own.get("/readyz"))
        return answers[-1].status_code == 503

    staging.rename(aside)
    try:
        # A look that found all well is good for a second.
        wait_until(asked, what="a look at the files")
        parts = answers[-1].json()["parts"]
        assert parts["state"] == "ok"
        assert parts["files"] != "ok"
        assert own.get("/healthz").status_code == 200
    finally:
        aside.rename(staging)
    assert own.get("/readyz").status_code == 200


def test_a_state_database_that_somebody_holds_is_away_and_never_unauthenticated(own: Service) -> None:
    token = own.token(MAYA, NORTH)
    holder = sqlite3.connect(own.world.folder / "state.db", isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        found = own.log_in(MAYA)
        assert (found.status_code, found.json()["code"]) == (503, "state_unavailable")
        assert int(found.headers["Retry-After"]) >= 1
        assert own.ask(token, NORTH).status_code == 302, "what only reads goes on"
        holder.execute("ROLLBACK")
    finally:
        holder.close()
    assert own.log_in(MAYA).status_code == 200


def test_a_postgresql_that_goes_away_and_comes_back(
    postgresql_server: PostgreSQLServer, postgresql_url: str, tmp_path: Path
) -> None:
    world = World(tmp_path / "world", postgresql_url)
    world.make()
    database = postgresql_url.rpartition("/")[2]
    with serving(world, settings={"state.wait": "1s"}) as service:
        token = service.token(MAYA, NORTH)
        link = service.link(token, NORTH)
        secret, _ = world.mint_token(MAYA, NORTH)
        postgresql_server.execute(
            f"ALTER DATABASE {database} WITH ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'",
        )
        try:
            for _ in range(3):
                for found in (
                    service.ask(token, NORTH),
                    service.ask(secret, NORTH),
                    service.get(link),
                    service.log_in(MAYA),
                    service.get("/readyz"),
                ):
                    assert found.status_code == 503, found.text
                    assert int(found.headers["Retry-After"]) >= 1
            assert service.get("/healthz").status_code == 200
            counted = service.get("/metrics")
            assert counted.status_code == 200
            assert "daybreak_http_requests_open" in counted.text
            assert "daybreak_files_late" not in counted.text, "nobody knows"
        finally:
            postgresql_server.execute(f"ALTER DATABASE {database} WITH ALLOW_CONNECTIONS true")
        wait_until(lambda: service.ask(token, NORTH).status_code == 302, 60, what="the database to be used again")
        assert service.get(link).status_code == 200


def test_a_service_without_its_source_still_serves(own: Service) -> None:
    # The platform's database is not there at all: see `source.location` of these tests.
    assert not os.path.lexists(own.world.folder / "platform.duckdb")
    assert own.get("/readyz").status_code == 200
