"""Files in a bucket, on real servers of S3 and Azure: uploads, digests, links, references and deletes."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable
from daybreak.filestore.clouds import BucketAddress
from daybreak.filestore.object_sink import PART_BYTES
from daybreak.filestore.object_store import ObjectStore
from tests.parts.azure import WRONG_KEY, AzureContainer
from tests.parts.buckets import Bucket
from tests.parts.key_giver import key_giver
from tests.parts.s3 import S3Bucket

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"


def new_id() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def address(bucket: Bucket) -> BucketAddress:
    return BucketAddress(f"{bucket.url}/some/prefix", bucket.server.endpoint, path_style=True)


@pytest.fixture
def store(bucket: Bucket, address: BucketAddress, tmp_path: Path) -> ObjectStore:
    return ObjectStore(address, environment=bucket.environment(), home=tmp_path)


def link(store: ObjectStore, key: str, *, encoding: str | None = None, method: str = "GET") -> str:
    content_type = "application/gzip" if encoding is None else "text/csv; charset=utf-8; header=present"
    name = "members.csv.gz" if encoding is None else "members.csv"
    found = asyncio.run(
        store.store_link(
            key, seconds=900, file_name=name, content_type=content_type, content_encoding=encoding, method=method
        )
    )
    assert found is not None
    assert (found.expires_at - datetime.now(UTC)).total_seconds() <= 60
    return found.url


def test_small_and_large_files_arrive_whole(store: ObjectStore) -> None:
    sink = store.stage(new_id())
    small = sink.write(LEADER, "members", "csv", [b"one", memoryview(b"two")])
    # Cut unevenly, so that parts and pieces do not fall together.
    content = bytes(range(256)) * (9 * 4096)
    assert len(content) > PART_BYTES
    large = sink.write(LEADER, "members", "json", [content[:1_000_001], content[1_000_001:]])
    sink.seal()
    assert (small.bytes, small.sha256) == (6, hashlib.sha256(b"onetwo").hexdigest())
    assert (large.bytes, large.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    store.check(small.key, small.bytes, small.sha256)
    store.check(large.key, large.bytes, large.sha256)
    assert store.open_local(large.key) is None
    assert b"".join(store.read(large.key)) == content


def test_a_large_file_whose_making_fails_is_never_seen(store: ObjectStore) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * (1 << 20)
        raise RuntimeError("the encoder broke")

    snapshot_id = new_id()
    sink = store.stage(snapshot_id)
    with pytest.raises(RuntimeError, match="the encoder broke"):
        sink.write(LEADER, "members", "csv", pieces())
    sink.discard()
    assert store.snapshot_ids() == []


def test_a_damaged_or_missing_object_is_found(store: ObjectStore) -> None:
    sink = store.stage(new_id())
    written = sink.write(LEADER, "members", "csv", [b"rows"])
    sink.seal()
    with pytest.raises(FileDamaged):
        store.check(written.key, 4, hashlib.sha256(b"other").hexdigest())
    with pytest.raises(FileDamaged):
        store.check(written.key, 5, written.sha256)
    with pytest.raises(FileStoreError):
        store.check(written.key.replace("members", "communities"), 4, written.sha256)


def test_carried_objects_are_not_copied_and_outlive_their_snapshot(store: ObjectStore) -> None:
    old = new_id()
    sink = store.stage(old)
    kept = sink.write(LEADER, "members", "csv", [b"kept"])
    gone = sink.write(LEADER, "members", "json", [b"gone"])
    sink.seal()
    after = store.stage(new_id())
    assert after.carry(kept.key) == kept.key
    after.seal()
    assert store.remove(old, frozenset({kept.key})) == 1
    store.check(kept.key, 4, kept.sha256)
    with pytest.raises(FileStoreError):
        store.check(gone.key, 4, gone.sha256)
    assert store.snapshot_ids() == [old]
    assert store.remove(old, frozenset()) == 1
    assert store.snapshot_ids() == []


def test_links_answer_as_local_disk_does(store: ObjectStore, bucket: Bucket) -> None:
    sink = store.stage(new_id())
    written = sink.write(LEADER, "members", "csv", [b"\x1f\x8bnot gzip"])
    sink.seal()
    with httpx.Client(trust_env=False, timeout=60) as client:
        plain = client.get(link(store, written.key))
        assert plain.status_code == 200
        assert plain.headers["content-type"] == "application/gzip"
        assert plain.headers["content-disposition"] == 'attachment; filename="members.csv.gz"'
        assert "content-encoding" not in plain.headers
        assert plain.content == b"\x1f\x8bnot gzip"
        part = client.get(link(store, written.key), headers={"Range": "bytes=2-4"})
        assert (part.status_code, part.content) == (206, b"not")
        with client.stream("GET", link(store, written.key, encoding="gzip")) as encoded:
            assert encoded.status_code == 200
            assert encoded.headers["content-type"] == "text/csv; charset=utf-8; header=present"
            assert encoded.headers["content-encoding"] == "gzip"
            assert encoded.headers["content-disposition"] == 'attachment; filename="members.csv"'
        assert client.head(link(store, written.key, method="HEAD")).status_code == 200
        # Azure signs a permission: what may be read may be asked for by HEAD.
        assert client.head(link(store, written.key)).status_code == (403 if isinstance(bucket, S3Bucket) else 200)
        block_blob = {"x-ms-blob-type": "BlockBlob"}
        assert client.put(link(store, written.key), content=b"other", headers=block_blob).status_code == 403
        assert client.delete(link(store, written.key)).status_code == 403
        tampered = link(store, written.key).replace("members", "communities", 1)
        assert client.get(tampered).status_code == 403


def test_a_machine_with_a_role_uploads_and_signs_as_one_with_keys(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    with key_giver() as giver:
        giver.access_key, giver.secret_key, giver.token = s3_bucket.server.access_key, s3_bucket.server.secret_key, ""
        address = BucketAddress(s3_bucket.url, s3_bucket.server.endpoint, path_style=True)
        instance = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": giver.url}
        store = ObjectStore(address, environment=instance, home=tmp_path)
        store.probe()
        sink = store.stage(new_id())
        written = sink.write(LEADER, "members", "csv", [b"rows"])
        sink.seal()
        answer = httpx.get(link(store, written.key), trust_env=False, timeout=60)
        assert answer.headers["content-disposition"] == 'attachment; filename="members.csv.gz"'
        assert len(giver.asked) == 3, "a session, the role's name and its keys, once"
        giver.refusal = 404
        with pytest.raises(FileStoreError, match="There are no credentials"):
            ObjectStore(address, environment=instance, home=tmp_path).probe()


def test_without_a_key_at_hand_the_file_is_given_as_it_is_stored(store: ObjectStore) -> None:
    """The library signs bare URLs."""
    sink = store.stage(new_id())
    written = sink.write(LEADER, "members", "csv", [b"rows"])
    sink.seal()
    store._signer = None
    for encoding in (None, "gzip"):
        answer = httpx.get(link(store, written.key, encoding=encoding), trust_env=False, timeout=60)
        assert answer.headers["content-type"] == "application/gzip"
        assert answer.headers["content-disposition"] == 'attachment; filename="members.csv.gz"'
        assert answer.content == b"rows"


def test_a_sink_travels_and_its_files_have_arrived_when_write_returns(
    store: ObjectStore, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    travelled = pickle.dumps(store.stage(new_id()))
    assert bucket.secret.encode() not in travelled
    written = pickle.loads(travelled).write(LEADER, "members", "csv", [b"from a task"])
    store.check(written.key, 11, written.sha256)


def test_more_files_than_azure_deletes_in_one_request_go_at_once(azure_container: AzureContainer) -> None:
    address = BucketAddress(azure_container.url, azure_container.server.endpoint)
    store = ObjectStore(address, environment=azure_container.environment())
    snapshot_id = new_id()
    sink = store.stage(snapshot_id)
    for _ in range(300):
        sink.write(new_id(), "members", "csv", [b"rows"])
    sink.seal()
    assert store.remove(snapshot_id, frozenset()) == 300
    assert store.snapshot_ids() == []


def test_the_store_says_whether_it_works(
    store: ObjectStore, bucket: Bucket, address: BucketAddress, tmp_path: Path
) -> None:
    store.probe()
    environment = bucket.environment()
    elsewhere = replace(address, url=f"{address.url.partition('//')[0]}//not-there")
    with pytest.raises(FileStoreError, match="there is no such bucket"):
        ObjectStore(elsewhere, environment=environment, home=tmp_path).probe()
    nobody = replace(address, endpoint="http://127.0.0.1:9", patience_seconds=1)
    with pytest.raises(Unavailable) as caught:
        ObjectStore(nobody, environment=environment, home=tmp_path).probe()
    assert caught.value.code == "files_unavailable"


def test_s3_says_what_is_wrong_with_its_secret_and_its_region(s3_bucket: S3Bucket, tmp_path: Path) -> None:
    address = BucketAddress(s3_bucket.url, s3_bucket.server.endpoint, path_style=True)
    wrong = {**s3_bucket.environment(), "AWS_SECRET_ACCESS_KEY": "wrong"}
    with pytest.raises(FileStoreError, match="the secret does not belong to it"):
        ObjectStore(address, environment=wrong, home=tmp_path).probe()
    abroad = replace(address, region="eu-west-1")
    with pytest.raises(FileStoreError, match=r"Check files.region. .*expecting 'us-east-1'"):
        ObjectStore(abroad, environment=s3_bucket.environment(), home=tmp_path).probe()


def test_azure_says_that_its_key_is_wrong_and_its_links_are_refused(azure_container: AzureContainer) -> None:
    address = BucketAddress(azure_container.url, azure_container.server.endpoint)
    ObjectStore(address, environment=azure_container.environment()).put("snapshots/a", b"rows", {})
    wrong = ObjectStore(address, environment=azure_container.environment(key=WRONG_KEY))
    with pytest.raises(FileStoreError, match="does not accept the credentials"):
        wrong.probe()
    assert httpx.get(link(wrong, "snapshots/a"), trust_env=False, timeout=60).status_code == 403
