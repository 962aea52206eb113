"""File store in a bucket, on a real S3 and Azure server."""

import asyncio
import gzip
import hashlib
import pickle
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

import httpx
import obstore
import pytest

from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable
from daybreak.filestore.bucket import RequestLimits
from daybreak.filestore.file_keys import file_key, slice_of
from daybreak.filestore.object_store import ObjectStore
from daybreak.filestore.objects import PART_BYTES
from daybreak.filestore.packs import NO_PACKS, Packing
from daybreak.filestore.store_errors import WRITE, translate_errors
from daybreak.settings import FilesSettings
from daybreak.web.http.files import FileEntity, file_answer
from daybreak.web.transfers import store_pieces
from tests.parts.azure import WRONG_KEY, AzureContainer
from tests.parts.buckets import Bucket, open_bucket
from tests.parts.credential_server import credential_server
from tests.parts.s3 import S3Bucket
from tests.parts.stored_files import LEADER, store_file


def new_id() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def settings(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> FilesSettings:
    set_environment(monkeypatch, bucket.environment())
    return FilesSettings(url=f"{bucket.url}/some/prefix", endpoint=bucket.server.endpoint, path_style=True)


@pytest.fixture
def store(settings: FilesSettings) -> ObjectStore:
    return ObjectStore(settings, packing=NO_PACKS)


def set_environment(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def signed_url(store: ObjectStore, key: str, *, method: Literal["GET", "HEAD"] = "GET") -> str:
    found = asyncio.run(store.signed_url(key, seconds=900, method=method))
    assert found is not None
    return found


def test_small_and_large_files_are_uploaded(store: ObjectStore) -> None:
    sink = store.stage(new_id())
    small = sink.write(LEADER, "members", "csv", [b"one", memoryview(b"two")])
    # The pieces do not align with the parts.
    content = bytes(range(256)) * (9 * 4096)
    assert len(content) > PART_BYTES
    large = sink.write(LEADER, "members", "json", [content[:1_000_001], content[1_000_001:]])
    sink.commit()
    assert (small.bytes, small.sha256) == (6, hashlib.sha256(b"onetwo").hexdigest())
    assert (large.bytes, large.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    store.check(small.key, small.bytes, small.sha256)
    store.check(large.key, large.bytes, large.sha256)
    assert store.open_local(large.key) is None
    assert b"".join(store.read(large.key)) == content
    assert b"".join(store.read(large.key, 5, 3_000_000)) == content[5:3_000_005]

    async def sent() -> bytes:
        return b"".join([piece async for piece in store.stream(small.key, 0, 3, small.bytes)])

    assert asyncio.run(sent()) == b"one"
    store.put(small.key, b"one, replaced", {})
    with pytest.raises(FileDamaged, match="has 13 bytes instead of 6"):
        asyncio.run(sent())
    assert b"".join(store.read(large.key, len(content) - 2, 9)) == content[-2:]


def test_ranges_are_read_across_the_requests_to_the_bucket(store: ObjectStore) -> None:
    """A range is read in requests of 4 MiB from its start."""
    content, request = random.Random(1).randbytes(9 * 2**20 + 5), 4 * 2**20
    written = store_file(store, content)
    entity = FileEntity({"etag": '"x"'}, datetime(2026, 11, 24, tzinfo=UTC), len(content))

    async def sent(first: int, last: int) -> bytes:
        answer = file_answer(entity, {"range": f"bytes={first}-{last}"}, method="GET")
        pieces = store_pieces(store, written.key, answer.segments, written.bytes)
        return b"".join([piece async for piece in pieces])

    for first, last in (
        (0, request - 2),
        (7, request + 6),
        (7, request + 7),
        (request - 1, request),
        (request, request),
        (request + 1, 2 * request + 2),
        (2 * request - 1, len(content) - 1),
        (0, len(content) - 1),
    ):
        assert asyncio.run(sent(first, last)) == content[first : last + 1], (first, last)


def test_parts_of_an_upload_may_read_another_object(store: ObjectStore) -> None:
    """As deltas and erasures do with files of several parts."""
    content = random.Random(1).randbytes(3 * PART_BYTES + 5)
    old = store_file(store, content)
    second = store.stage(new_id())
    new = second.write(LEADER, "members", "csv", second.read(old.key))
    second.commit()
    with store.revise(new_id(), "ab") as revision:
        revised = revision.write(LEADER, "members", "csv", store.read(new.key))
        revision.commit()
    assert old.sha256 == new.sha256 == revised.sha256 == hashlib.sha256(content).hexdigest()
    for written in (new, revised):
        store.check(written.key, len(content), new.sha256)


def test_panic_of_the_library_is_an_error_of_the_store(store: ObjectStore) -> None:
    written = store_file(store, bytes(PART_BYTES * 2))
    with pytest.raises(FileStoreError, match="ended with a panic"), translate_errors("It failed", WRITE):
        obstore.put(store._bucket, "new", store.read(written.key), use_multipart=True, chunk_size=PART_BYTES)


def test_failed_large_upload_leaves_no_object(store: ObjectStore) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * (1 << 20)
        raise RuntimeError("encoder error")

    snapshot_id = new_id()
    sink = store.stage(snapshot_id)
    with pytest.raises(RuntimeError, match="encoder error"):
        sink.write(LEADER, "members", "csv", pieces())
    sink.discard()
    assert store.ids("snapshots") == []


def test_damaged_or_missing_object_is_detected(store: ObjectStore) -> None:
    written = store_file(store)
    with pytest.raises(FileDamaged):
        store.check(written.key, 4, hashlib.sha256(b"other").hexdigest())
    with pytest.raises(FileDamaged):
        store.check(written.key, 5, written.sha256)
    with pytest.raises(FileStoreError):
        store.check(written.key.replace("members", "communities"), 4, written.sha256)


def test_file_of_a_cut_pack_is_damaged(settings: FilesSettings) -> None:
    """The server refuses a range behind the end, and shortens one across it."""
    store = ObjectStore(settings, packing=Packing(file_bytes=100, pack_bytes=1000))
    sink = store.stage(new_id())
    files = [sink.write(LEADER, resource, "csv", [b"x" * 40]) for resource in ("members", "campaigns", "communities")]
    sink.commit()
    pack = slice_of(files[0].key).key
    store.put(pack, b"x" * 60, {})
    store.check(files[0].key, 40, files[0].sha256)
    for file in files[1:]:
        with pytest.raises(FileDamaged):
            store.check(file.key, 40, file.sha256)


def test_reused_object_outlives_its_snapshot(store: ObjectStore) -> None:
    old = new_id()
    sink = store.stage(old)
    kept = sink.write(LEADER, "members", "csv", [b"kept"])
    removed = sink.write(LEADER, "members", "json", [b"gone"])
    sink.commit()
    after = store.stage(new_id())
    assert after.reuse(kept.key, kept.bytes) == kept.key
    after.commit()
    assert store.remove("snapshots", old, frozenset({kept.key})) == 1
    store.check(kept.key, 4, kept.sha256)
    with pytest.raises(FileStoreError):
        store.check(removed.key, 4, removed.sha256)
    assert store.ids("snapshots") == [old]
    assert store.remove("snapshots", old, frozenset()) == 1
    assert store.ids("snapshots") == []


def test_signed_url_returns_the_file_with_its_headers(store: ObjectStore, bucket: Bucket) -> None:
    written = store_file(store, b"\x1f\x8bnot gzip")
    url = signed_url(store, written.key)
    with httpx.Client(trust_env=False, timeout=60) as client:
        answer = client.get(url)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/gzip"
        assert answer.headers["content-disposition"] == 'attachment; filename="members.csv.gz"'
        assert "content-encoding" not in answer.headers
        assert answer.content == b"\x1f\x8bnot gzip"
        part = client.get(url, headers={"Range": "bytes=2-4"})
        assert (part.status_code, part.content) == (206, b"not")
        assert client.head(signed_url(store, written.key, method="HEAD")).status_code == 200
        # An Azure URL grants a permission, an S3 URL a method.
        assert client.head(url).status_code == (403 if isinstance(bucket, S3Bucket) else 200)
        assert client.put(url, content=b"other", headers={"x-ms-blob-type": "BlockBlob"}).status_code == 403
        assert client.delete(url).status_code == 403
        assert client.get(url.replace("members", "communities", 1)).status_code == 403


@pytest.mark.release
def test_gzip_can_be_served_as_content_encoding(settings: FilesSettings) -> None:
    store = ObjectStore(settings.model_copy(update={"serve_gzip_as": "encoding"}), packing=NO_PACKS)
    sink = store.stage(new_id())
    small = sink.write(LEADER, "members", "csv", [gzip.compress(b"rows")])
    large = sink.write(LEADER, "members", "json", [bytes(PART_BYTES), gzip.compress(b"rows")])
    parquet = sink.write(LEADER, "members", "parquet", [b"rows"])
    sink.commit()
    # The check reads the stored bytes, not the decoded ones.
    for written in (small, large, parquet):
        store.check(written.key, written.bytes, written.sha256)
    with httpx.Client(trust_env=False, timeout=60) as client:
        answer = client.get(signed_url(store, small.key))
        assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["content-disposition"] == 'attachment; filename="members.csv"'
        assert answer.headers["cache-control"] == "no-transform"
        assert answer.content == b"rows"
        head = client.head(signed_url(store, large.key, method="HEAD"))
        assert (head.headers["content-type"], head.headers["content-encoding"]) == ("application/json", "gzip")
        answer = client.get(signed_url(store, parquet.key))
        assert answer.headers["content-type"] == "application/vnd.apache.parquet"
        assert "content-encoding" not in answer.headers


def test_instance_role_uploads_and_signs(s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with credential_server() as server:
        server.access_key, server.secret_key = s3_bucket.server.access_key, s3_bucket.server.secret_key
        server.token = ""
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.url)
        settings = FilesSettings(url=s3_bucket.url, endpoint=s3_bucket.server.endpoint, path_style=True)
        store = ObjectStore(settings, packing=NO_PACKS)
        store.probe()
        written = store_file(store)
        assert httpx.get(signed_url(store, written.key), trust_env=False, timeout=60).content == b"rows"
        assert len(server.requests) == 3, "one session token, one role name, one set of keys"
        server.error_status = 404
        with pytest.raises(FileStoreError, match=r"no credentials for files\.url"):
            ObjectStore(settings).probe()


def test_pickled_sink_uploads_before_write_returns(store: ObjectStore, bucket: Bucket) -> None:
    pickled = pickle.dumps(store.stage(new_id()))
    assert bucket.secret.encode() not in pickled
    written = pickle.loads(pickled).write(LEADER, "members", "csv", [b"from a task"])
    store.check(written.key, 11, written.sha256)


@pytest.mark.release
def test_more_files_than_one_delete_request_are_deleted(
    azure_container: AzureContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure deletes at most 256 objects in a request."""
    store = open_bucket(azure_container, monkeypatch, packing=NO_PACKS)
    snapshot_id = new_id()
    sink = store.stage(snapshot_id)
    for _ in range(300):
        sink.write(new_id(), "members", "csv", [b"rows"])
    sink.commit()
    assert store.remove("snapshots", snapshot_id, frozenset()) == 300
    assert store.ids("snapshots") == []


def test_snapshots_are_listed_page_by_page(store: ObjectStore) -> None:
    ids = sorted(new_id() for _ in range(30))
    for snapshot_id in ids:
        store.put(file_key(snapshot_id, "", "members", "csv"), b"rows", {})
    assert store.ids("snapshots") == ids


def test_objects_deleted_by_another_process_are_ignored(store: ObjectStore) -> None:
    snapshot_id = new_id()
    sink = store.stage(snapshot_id)
    written = [sink.write(str(uuid.uuid4()), "members", "csv", [b"rows"]) for _ in range(300)]
    sink.commit()
    is_stored = store.presence()
    # The S3 server of the tests lists 25 objects in a response.
    assert all(is_stored(each.key, each.bytes) for each in written)

    class OthersDelete(frozenset[str]):
        """Kept objects. While they are looked up, another process deletes an object of the list."""

        def __contains__(self, key: object) -> bool:
            if key == written[7].key:
                obstore.delete(store._bucket, written[7].key)
            return super().__contains__(key)

    assert store.remove("snapshots", snapshot_id, OthersDelete()) == 300
    assert store.remove("snapshots", snapshot_id, frozenset()) == 0
    store.delete([each.key for each in written])


def test_probe_reports_whether_the_store_works(
    store: ObjectStore, settings: FilesSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("probe/other", b"daybreak", {})
    store.probe()
    assert store.remove_below("probe/", frozenset()) == 1, "another process may be probing"
    store.put("probe/interrupted", b"daybreak", {})
    monkeypatch.setattr("daybreak.filestore.object_store._PROBE_LIFETIME", timedelta(seconds=-1))
    store.probe()
    assert store.remove_below("probe/", frozenset()) == 0
    missing_bucket = settings.model_copy(update={"url": f"{settings.url.partition('//')[0]}//not-there"})
    with pytest.raises(FileStoreError, match="the bucket does not exist"):
        ObjectStore(missing_bucket).probe()
    unreachable = settings.model_copy(update={"endpoint": "http://127.0.0.1:9"})
    with pytest.raises(Unavailable) as caught:
        ObjectStore(unreachable, RequestLimits(retry_seconds=1)).probe()
    assert caught.value.code == "files_unavailable"


def test_bucket_that_keeps_deleted_files_is_reported(s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_bucket(s3_bucket, monkeypatch)
    assert store.probe() is None
    s3_bucket.keep_versions()
    assert "keeps versions of deleted files" in str(store.probe())


def test_s3_reports_wrong_secret_and_region(s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    set_environment(monkeypatch, s3_bucket.environment())
    settings = FilesSettings(url=s3_bucket.url, endpoint=s3_bucket.server.endpoint, path_style=True)
    with pytest.raises(FileStoreError, match=r"Check files.region. .*expecting 'us-east-1'"):
        ObjectStore(settings.model_copy(update={"region": "eu-west-1"})).probe()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(FileStoreError, match="Check AWS_SECRET_ACCESS_KEY"):
        ObjectStore(settings).probe()


def test_azure_reports_wrong_key_and_rejects_its_urls(
    azure_container: AzureContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, azure_container.environment())
    settings = FilesSettings(url=azure_container.url, endpoint=azure_container.server.endpoint)
    ObjectStore(settings).put("snapshots/a", b"rows", {})
    set_environment(monkeypatch, azure_container.environment(key=WRONG_KEY))
    wrong = ObjectStore(settings)
    with pytest.raises(FileStoreError, match="does not accept the credentials"):
        wrong.probe()
    assert httpx.get(signed_url(wrong, "snapshots/a"), trust_env=False, timeout=60).status_code == 403


def test_revision_adds_objects_to_a_stored_snapshot(store: ObjectStore) -> None:
    snapshot_id = new_id()
    old = store_file(store, b"old", snapshot_id)
    with store.revise(snapshot_id, "bb") as revision:
        new = revision.write(LEADER, "members", "csv", [b"n", b"ew"])
        assert new.key == revision.key(LEADER, "members", "csv") != old.key
        revision.commit()
    store.check(new.key, new.bytes, new.sha256)
    store.delete([old.key, old.key.replace("members", "missing")])
    with pytest.raises(FileStoreError):
        list(store.read(old.key))
    assert b"".join(store.read(new.key)) == b"new"
    assert store.remove("snapshots", snapshot_id, frozenset()) == 1
