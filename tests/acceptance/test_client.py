"""The client package with a running service: sign in and fetch complete files."""

import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from daybreak_client import Daybreak, NotPublished, PublishedFile, Refused
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import (
    ACCOUNTS,
    CARL,
    FOREIGN,
    MAYA,
    NORTH,
    NOT_EXPORTED,
    PASSWORD,
    SOUTH,
    Installation,
    totp_code,
)
from tests.acceptance.service import PATIENCE_SECONDS, Service, serving
from tests.parts.buckets import Bucket, open_bucket
from tests.parts.s3 import REGION
from tests.parts.waiting import wait_until


def no_code() -> str:
    raise AssertionError("no second factor is required")


@pytest.fixture
def maya(service: Service) -> Iterator[Daybreak]:
    with Daybreak(service.address) as found:
        found.log_in(MAYA, PASSWORD, no_code)
        yield found


def digests_in_manifest(service: Service, token: str, client_id: str, format: str) -> dict[str, str]:
    """Return the digests of the manifest by file name."""
    resources = service.get(f"/download/v1/files/{client_id}", token=token).json()["data"]["resources"]
    return {
        f"{entry['resource']}.{format}.gz": file["sha256"]
        for entry in resources
        for file in entry["files"]
        if file["format"] == format
    }


def digests_in_folder(folder: Path) -> dict[str, str]:
    """Return the digests of the files, without the record of their origin."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.gz")}


def leave_partial_file(folder: Path, file: PublishedFile, size_bytes: int) -> None:
    """Replace a file by its first bytes, as an interrupted transfer leaves them."""
    whole = folder / file.name
    (folder / f".{file.name}.{file.sha256[:16]}.part").write_bytes(whole.read_bytes()[:size_bytes])
    whole.unlink()


def test_fetch_downloads_only_missing_files(service: Service, maya: Daybreak, tmp_path: Path) -> None:
    north = maya.account(NORTH)
    fetched = north.fetch(tmp_path / "exports" / "north")
    folder = tmp_path / "exports" / "north"
    expected = digests_in_manifest(service, service.token(MAYA, NORTH), NORTH, "csv")
    assert len(expected) == 9
    assert digests_in_folder(folder) == expected
    assert fetched.downloaded == fetched.files
    assert fetched.published.client_id == NORTH
    assert not fetched.published.late

    (folder / "members.csv.gz").write_bytes(b"damaged")
    (folder / "campaigns.csv.gz").unlink()
    again = north.fetch(folder)
    assert {file.name for file in again.downloaded} == {"members.csv.gz", "campaigns.csv.gz"}
    assert digests_in_folder(folder) == expected
    assert north.fetch(folder).downloaded == ()


def test_resources_and_formats_can_be_selected(maya: Daybreak, tmp_path: Path) -> None:
    maya.account(SOUTH).fetch(tmp_path, ["members", "communities"], ["json", "csv"])
    assert set(digests_in_folder(tmp_path)) == {
        f"{resource}.{ending}.gz" for resource in ("members", "communities") for ending in ("csv", "json")
    }
    assert isinstance(json.loads(gzip.decompress((tmp_path / "members.json.gz").read_bytes())), list)


def test_accounts_are_listed_by_name(maya: Daybreak) -> None:
    found = {each.client_id: each for each in maya.accounts()}
    assert set(found) == {NORTH, SOUTH, NOT_EXPORTED}
    assert found[NORTH].name == f"{ACCOUNTS[NORTH].first_name} {ACCOUNTS[NORTH].last_name}"
    assert [each.current for each in found.values()].count(True) == 1


def test_code_is_requested_when_required(service: Service, tmp_path: Path) -> None:
    service.installation.reset_attempts(CARL)
    with Daybreak(service.address) as carl:
        with pytest.raises(Refused) as caught:
            carl.log_in(CARL, PASSWORD, lambda: "000000" if totp_code() != "000000" else "111111")
        assert caught.value.code == "invalid_code"
        assert carl.token is None
        carl.log_in(CARL, PASSWORD, totp_code)
        assert len(carl.account(NORTH).fetch(tmp_path).downloaded) == 9


def test_api_token_is_valid_for_its_account_only(service: Service, tmp_path: Path) -> None:
    secret, _ = service.installation.create_token(MAYA, NORTH)
    with Daybreak(service.address, secret) as script:
        assert len(script.account(NORTH.upper()).fetch(tmp_path).downloaded) == 9
        for client_id in (SOUTH, FOREIGN):
            with pytest.raises(Refused) as caught:
                script.account(client_id).fetch(tmp_path)
            assert caught.value.code == "not_your_account"
        with pytest.raises(Refused) as caught:
            script.accounts()
        assert caught.value.code == "session_required"


def test_link_needs_no_token_and_ends_with_the_session(service: Service) -> None:
    with Daybreak(service.address) as maya:
        maya.log_in(MAYA, PASSWORD, no_code)
        link = maya.account(NORTH).link("members", "json")
        found = requests.get(link, timeout=60)
        assert json.loads(gzip.decompress(found.content))
        maya.log_out()
    assert requests.get(link, timeout=60).json()["code"] == "link_revoked"


def test_transfer_resumes_at_its_offset(service: Service, maya: Daybreak, tmp_path: Path) -> None:
    north = maya.account(NORTH)
    (file,) = north.fetch(tmp_path, ["members"]).files
    leave_partial_file(tmp_path, file, file.size_bytes - 5)
    north.fetch(tmp_path, ["members"])
    assert digests_in_folder(tmp_path) == {file.name: file.sha256}
    # A line is logged after the last byte is sent.
    wait_until(
        lambda: [line for line in service.log_lines() if line.get("status") == 206 and line.get("length") == 5],
        PATIENCE_SECONDS,
        what="a transfer of the last five bytes",
    )


def test_account_without_files_has_a_retry_time(maya: Daybreak, tmp_path: Path) -> None:
    with pytest.raises(NotPublished, match="has no such account") as caught:
        maya.account(NOT_EXPORTED).fetch(tmp_path)
    assert caught.value.retry_after_seconds > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.release
def test_publication_during_a_fetch_replaces_all_files(
    make_installation: Callable[[], Installation], tmp_path: Path
) -> None:
    """The folder never contains files of two snapshots."""
    installation = make_installation()
    published: list[str] = []
    one_at_a_time = threading.Lock()

    def publish_once(_file: PublishedFile, _size_bytes: int) -> None:
        with one_at_a_time:
            if not published:
                published.append(installation.publish_snapshot(seed=2))

    with serving(installation, workers=1) as service, Daybreak(service.address) as maya:
        maya.log_in(MAYA, PASSWORD, no_code)
        fetched = maya.account(NORTH).fetch(tmp_path / "exports", on_progress=publish_once)
        token = service.token(MAYA, NORTH)
        assert digests_in_folder(tmp_path / "exports") == digests_in_manifest(service, token, NORTH, "csv")
    assert [fetched.published.snapshot_id] == published


def test_files_are_downloaded_from_the_bucket(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signed URLs of the bucket are used without the token, which the bucket would refuse."""
    installation = new_installation(tmp_path, bucket=open_bucket(bucket, monkeypatch, "/exports"))
    settings = {
        "files.url": f"{bucket.url}/exports",
        "files.endpoint": bucket.server.endpoint,
        "files.region": REGION,
        "files.path_style": True,
    }
    with serving(installation, settings=settings, workers=1) as service, Daybreak(service.address) as maya:
        maya.log_in(MAYA, PASSWORD, no_code)
        folder = tmp_path / "exports"
        fetched = maya.account(NORTH).fetch(folder, formats=["csv", "json"])
        assert digests_in_folder(folder) == {file.name: file.sha256 for file in fetched.files}
        assert len(fetched.files) == 18
        large = next(file for file in fetched.files if file.name == "members.csv.gz")
        leave_partial_file(folder, large, 40)
        assert [file.name for file in maya.account(NORTH).fetch(folder).downloaded] == [large.name]
        assert digests_in_folder(folder) == {file.name: file.sha256 for file in fetched.files}
        links = [line for line in service.log_lines() if line.get("path", "").startswith("/download/v1/links/")]
        assert {line["status"] for line in links} == {200, 302}, "small files are sent by the service"
