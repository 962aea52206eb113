"""The client beside a running service: sign in, fetch, and find the files whole."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from daybreak.filestore.clouds import BucketAddress
from daybreak.filestore.object_store import ObjectStore
from daybreak_client import Daybreak, NotPublished, PublishedFile, Refused
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.acceptance.world import ACCOUNTS, CARL, FOREIGN, MAYA, NORTH, NOT_EXPORTED, PASSWORD, SOUTH, World, totp_code
from tests.parts.buckets import Bucket
from tests.parts.s3 import REGION
from tests.parts.waiting import wait_until


def no_code() -> str:
    raise AssertionError("no second factor is owed")


@pytest.fixture
def maya(service: Service) -> Iterator[Daybreak]:
    with Daybreak(service.address) as found:
        found.log_in(MAYA, PASSWORD, no_code)
        yield found


def digests_told(service: Service, token: str, client_id: str, format: str) -> dict[str, str]:
    """Digest by name of file, as the manifest has it."""
    resources = service.get(f"/download/v1/files/{client_id}", token=token).json()["data"]["resources"]
    return {
        f"{entry['resource']}.{format}.gz": file["sha256"]
        for entry in resources
        for file in entry["files"]
        if file["format"] == format
    }


def digests_here(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def cut_off(folder: Path, file: PublishedFile, size_bytes: int) -> None:
    """Leaves of a copy what an interrupted transfer would have left."""
    whole = folder / file.name
    (folder / f".{file.name}.{file.sha256[:16]}.part").write_bytes(whole.read_bytes()[:size_bytes])
    whole.unlink()


def test_all_nine_files_arrive_and_only_what_is_missing_comes_again(
    service: Service, maya: Daybreak, tmp_path: Path
) -> None:
    north = maya.account(NORTH)
    fetched = north.fetch(tmp_path / "exports" / "north")
    folder = tmp_path / "exports" / "north"
    told = digests_told(service, service.token(MAYA, NORTH), NORTH, "csv")
    assert len(told) == 9
    assert digests_here(folder) == told
    assert fetched.brought == fetched.files
    assert fetched.published.client_id == NORTH
    assert not fetched.published.late

    (folder / "members.csv.gz").write_bytes(b"damaged")
    (folder / "campaigns.csv.gz").unlink()
    again = north.fetch(folder)
    assert {file.name for file in again.brought} == {"members.csv.gz", "campaigns.csv.gz"}
    assert digests_here(folder) == told
    assert north.fetch(folder).brought == ()


def test_single_resources_and_formats_can_be_asked_for(maya: Daybreak, tmp_path: Path) -> None:
    maya.account(SOUTH).fetch(tmp_path, ["members", "communities"], ["json", "csv"])
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{resource}.{ending}.gz" for resource in ("members", "communities") for ending in ("csv", "json")
    }
    assert isinstance(json.loads(gzip.decompress((tmp_path / "members.json.gz").read_bytes())), list)


def test_each_account_has_its_own_files(service: Service, maya: Daybreak, tmp_path: Path) -> None:
    maya.account(NORTH).fetch(tmp_path / "north")
    maya.account(SOUTH).fetch(tmp_path / "south")
    token = service.token(MAYA, SOUTH)
    assert (
        digests_here(tmp_path / "south")
        == digests_told(service, token, SOUTH, "csv")
        != digests_here(tmp_path / "north")
    )


def test_accounts_are_listed_by_name(maya: Daybreak) -> None:
    found = {each.client_id: each for each in maya.accounts()}
    assert set(found) == {NORTH, SOUTH, NOT_EXPORTED}
    assert found[NORTH].name == f"{ACCOUNTS[NORTH].first_name} {ACCOUNTS[NORTH].last_name}"
    assert [each.current for each in found.values()].count(True) == 1


def test_a_second_factor_is_asked_for_when_it_is_owed(service: Service, tmp_path: Path) -> None:
    service.world.begin_again(CARL)
    with Daybreak(service.address) as carl:
        with pytest.raises(Refused) as told:
            carl.log_in(CARL, PASSWORD, lambda: "000000" if totp_code() != "000000" else "111111")
        assert told.value.code == "invalid_code"
        assert carl.token is None
        carl.log_in(CARL, PASSWORD, totp_code)
        assert len(carl.account(NORTH).fetch(tmp_path).brought) == 9


def test_an_api_token_opens_its_account_and_no_other(service: Service, tmp_path: Path) -> None:
    secret, _ = service.world.mint_token(MAYA, NORTH)
    with Daybreak(service.address, secret) as script:
        assert len(script.account(NORTH.upper()).fetch(tmp_path).brought) == 9
        for client_id in (SOUTH, FOREIGN):
            with pytest.raises(Refused) as told:
                script.account(client_id).fetch(tmp_path)
            assert told.value.code == "not_your_account"
        with pytest.raises(Refused) as told:
            script.accounts()
        assert told.value.code == "session_required"


def test_a_link_needs_nothing_else_and_ends_with_the_session(service: Service) -> None:
    with Daybreak(service.address) as maya:
        maya.log_in(MAYA, PASSWORD, no_code)
        link = maya.account(NORTH).link("members", "json")
        found = requests.get(link, timeout=60)
        assert json.loads(gzip.decompress(found.content))
        maya.log_out()
    assert requests.get(link, timeout=60).json()["code"] == "link_revoked"


def test_a_transfer_goes_on_where_it_was(service: Service, maya: Daybreak, tmp_path: Path) -> None:
    north = maya.account(NORTH)
    (file,) = north.fetch(tmp_path, ["members"]).files
    cut_off(tmp_path, file, file.size_bytes - 5)
    north.fetch(tmp_path, ["members"])
    assert digests_here(tmp_path) == {file.name: file.sha256}
    # A line is written when the last octet has gone.
    wait_until(
        lambda: [line for line in service.log_lines() if line.get("status") == 206 and line.get("length") == 5],
        PATIENCE_SECONDS,
        what="a transfer of the last five octets",
    )


def test_an_account_without_files_is_told_with_the_time_to_come_back(maya: Daybreak, tmp_path: Path) -> None:
    with pytest.raises(NotPublished, match="does not know this account") as told:
        maya.account(NOT_EXPORTED).fetch(tmp_path)
    assert told.value.retry_after_seconds > 0
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_published_meanwhile_are_fetched_all_nine(
    make_world: Callable[[], World], tmp_path: Path
) -> None:
    """The folder never holds some files of one snapshot and some of another."""
    world = make_world()
    state = world.state()
    published: list[str] = []
    one_at_a_time = threading.Lock()

    def publish_once(_file: PublishedFile, _size_bytes: int) -> None:
        with one_at_a_time:
            if not published:
                published.append(world.publish_snapshot(state, seed=2))

    with serving(world, workers=1) as service, Daybreak(service.address) as maya:
        maya.log_in(MAYA, PASSWORD, no_code)
        fetched = maya.account(NORTH).fetch(tmp_path / "exports", tell=publish_once)
        token = service.token(MAYA, NORTH)
        assert digests_here(tmp_path / "exports") == digests_told(service, token, NORTH, "csv")
    state.close()
    assert [fetched.published.snapshot_id] == published


def test_files_in_a_bucket_come_from_the_bucket_itself(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By links that its server signed, and without the token, with which it would refuse them."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    store = ObjectStore(BucketAddress(f"{bucket.url}/exports", bucket.server.endpoint, REGION, True))
    world = World(tmp_path / "world", f"sqlite:///{tmp_path}/world/state.db", store)
    world.make()
    settings = {
        "files.url": f"{bucket.url}/exports",
        "files.endpoint": bucket.server.endpoint,
        "files.region": REGION,
        "files.path_style": True,
    }
    with serving(world, settings=settings, workers=1) as service, Daybreak(service.address) as maya:
        maya.log_in(MAYA, PASSWORD, no_code)
        folder = tmp_path / "exports"
        fetched = maya.account(NORTH).fetch(folder, formats=["csv", "json"])
        assert digests_here(folder) == {file.name: file.sha256 for file in fetched.files}
        assert len(fetched.files) == 18
        cut_off(folder, fetched.files[0], 40)
        assert maya.account(NORTH).fetch(folder).brought == fetched.files[:1]
        assert digests_here(folder) == {file.name: file.sha256 for file in fetched.files}
        links = [line for line in service.log_lines() if line.get("path", "").startswith("/download/v1/links/")]
        assert {line["status"] for line in links} == {302}
