"""Object store errors: bounded retries, and a failed upload never counts as a success."""

import contextlib
import hashlib
import random
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable
from daybreak.domain.snapshot import SnapshotState
from daybreak.filestore.bucket import RequestLimits
from daybreak.filestore.object_store import ObjectStore
from daybreak.filestore.objects import PART_BYTES
from daybreak.settings import FilesSettings
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.verify import verify_snapshot
from tests.configured import configured
from tests.faults.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.parts.buckets import Bucket, open_bucket
from tests.parts.s3 import S3Bucket
from tests.parts.stored_files import LEADER, store_file
from tests.parts.waiting import wait_until
from tests.small_platform import open_context, platform_of, write_platform

LARGE = random.Random(7).randbytes(PART_BYTES + 300_000)


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    parts = urlsplit(bucket.server.endpoint)
    assert parts.hostname is not None
    assert parts.port is not None
    with fault_proxy(parts.hostname, parts.port) as found:
        yield found


@pytest.fixture(autouse=True)
def credentials(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)


def store_behind(proxy: FaultProxy, bucket: Bucket, retry_seconds: float) -> ObjectStore:
    endpoint = f"{proxy.endpoint}{urlsplit(bucket.server.endpoint).path}"
    limits = RequestLimits(retry_seconds=retry_seconds, read_timeout_seconds=3)
    return ObjectStore(FilesSettings(url=bucket.url, endpoint=endpoint, path_style=True), limits)


@pytest.fixture
def store(proxy: FaultProxy, bucket: Bucket) -> ObjectStore:
    """The bucket behind the proxy."""
    return store_behind(proxy, bucket, 20)


@pytest.fixture
def direct_store(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """The bucket without the proxy."""
    return open_bucket(bucket, monkeypatch)


@pytest.fixture
def part(bucket: Bucket) -> bytes:
    """Return the text that identifies the upload of a part."""
    return b"partNumber" if isinstance(bucket, S3Bucket) else b"comp=block&"


TRANSIENT = [
    Fault("status", 500),
    Fault("status", 503),
    Fault("status", 429),
    Fault("reset", 100),
    Fault("cut", 10),
    Fault("no_response"),
]


def test_small_upload_survives_transient_faults(
    store: ObjectStore, direct_store: ObjectStore, proxy: FaultProxy
) -> None:
    sink = store.stage(str(uuid.uuid4()))
    proxy.faults = list(TRANSIENT)
    files = [sink.write(str(uuid.uuid4()), "members", "csv", [f"file {number}".encode()]) for number in range(6)]
    sink.commit()
    assert proxy.faults == []
    for number, written in enumerate(files):
        direct_store.check(written.key, 6, hashlib.sha256(f"file {number}".encode()).hexdigest())


@pytest.mark.release
def test_large_upload_survives_faults_in_its_parts(
    store: ObjectStore, direct_store: ObjectStore, proxy: FaultProxy, bucket: Bucket, part: bytes
) -> None:
    sink = store.stage(str(uuid.uuid4()))
    in_parts = [Fault("reset", 5000, part), Fault("status", 503, part)]
    if isinstance(bucket, S3Bucket):
        proxy.faults = [Fault("status", 500, b"POST"), *in_parts, Fault("accepted", only=b"POST")]
    else:
        proxy.faults = [*in_parts, Fault("status", 500, b"comp=blocklist"), Fault("accepted", only=b"comp=blocklist")]
    try:
        written = sink.write(LEADER, "members", "csv", [LARGE])
        sink.commit()
    except Unavailable:
        # The store may have completed an upload whose response was lost. The sink must report it as failed.
        return
    direct_store.check(written.key, len(LARGE), hashlib.sha256(LARGE).hexdigest())


def test_large_upload_keeps_few_parts_in_memory(proxy: FaultProxy, bucket: Bucket, part: bytes) -> None:
    proxy.forever = Fault("status", 500, part)
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(20):
            made += 1
            yield bytes(PART_BYTES)

    sink = store_behind(proxy, bucket, 1).stage(str(uuid.uuid4()))
    with pytest.raises(Unavailable):
        sink.write(LEADER, "members", "csv", pieces())
    assert made <= 6


@pytest.mark.release
def test_unavailable_store_fails_after_bounded_retries(proxy: FaultProxy, bucket: Bucket) -> None:
    store = store_behind(proxy, bucket, 1)
    proxy.forever = Fault("status", 500)
    sink = store.stage(str(uuid.uuid4()))
    sink.write(LEADER, "members", "csv", [b"rows"])
    with pytest.raises(Unavailable) as caught:
        sink.commit()
    assert caught.value.code == "files_unavailable"
    # Three attempts, each with a pause of at least 0.2 seconds between requests.
    assert 3 <= proxy.faulted <= 21
    proxy.forever = None
    sink.discard()


def test_period_of_errors_is_outlasted(store: ObjectStore, direct_store: ObjectStore, proxy: FaultProxy) -> None:
    written = store_file(direct_store, bytes(100_000))
    proxy.faults = [Fault("status", 503)] * 8
    store.check(written.key, written.bytes, written.sha256)
    assert proxy.faults == []


def test_discarded_uploads_are_not_repeated(proxy: FaultProxy, bucket: Bucket) -> None:
    """A process that ends while the store is unavailable waits for the requests that have begun."""
    store = store_behind(proxy, bucket, 0)
    proxy.forever = Fault("status", 500, b"PUT ")
    sink = store.stage(str(uuid.uuid4()))
    sink.write(LEADER, "members", "csv", [bytes(100_000)])
    wait_until(lambda: proxy.faulted > 0, 60, what="the upload")
    sink.discard()
    assert proxy.faulted < 3


def test_truncated_or_damaged_response_is_detected(
    store: ObjectStore, direct_store: ObjectStore, proxy: FaultProxy
) -> None:
    written = store_file(direct_store, LARGE)
    proxy.faults = [Fault("cut", 1_000_000, b"GET")]
    # obstore requests the rest, or the read fails.
    with contextlib.suppress(Unavailable):
        assert b"".join(store.read(written.key)) == LARGE
    assert proxy.faults == []
    proxy.faults = [Fault("damage", 1_000_000, b"GET")]
    with pytest.raises(FileDamaged):
        store.check(written.key, written.bytes, written.sha256)


def test_error_instead_of_a_list_reports_no_lost_files(
    store: ObjectStore, direct_store: ObjectStore, proxy: FaultProxy
) -> None:
    sink = direct_store.stage(str(uuid.uuid4()))
    packed = sink.write(LEADER, "members", "csv", [b"rows"])
    written = sink.write(LEADER, "members", "json", [bytes(100_000)])
    sink.commit()
    for file in (packed, written):
        proxy.faults = [Fault("accepted", only=b"list")]
        with pytest.raises(Unavailable):
            store.presence()(file.key, file.bytes)
        assert proxy.faults == []
        is_stored = store.presence()
        assert is_stored(file.key, file.bytes)
        assert not is_stored(written.key, written.bytes - 1)
        assert not is_stored(f"{written.key}.lost", written.bytes)


def test_upload_with_a_wrong_etag_is_repeated(
    store: ObjectStore, direct_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, sent = store.put, []

    def truncating(key: str, content: bytes, headers: dict[str, str]) -> str:
        sent.append(key)
        return put(key, content[:-1] if len(sent) == 1 else content, headers)

    monkeypatch.setattr(store, "put", truncating)
    written = store_file(store)
    assert len(sent) == 2
    direct_store.check(written.key, 4, written.sha256)


@pytest.mark.release
def test_failed_run_leaves_objects_in_use(
    folder: Path, bucket: Bucket, direct_store: ObjectStore, proxy: FaultProxy
) -> None:
    with open_context(folder, store=direct_store, settings=configured(snapshot={"formats": ("csv",)})) as context:
        first = run_manually(context)
        assert first.state is SnapshotState.PUBLISHED
        changed = platform_of(mark="b")
        unchanged = min(changed)
        changed[unchanged] = platform_of()[unchanged]
        write_platform(folder / "platform.json", changed)

        proxy.forever = Fault("status", 500, b"PUT")
        impatient = store_behind(proxy, bucket, 1)
        with pytest.raises((Unavailable, FileStoreError)):
            run_manually(replace(context, store=impatient, timings=replace(context.timings, attempts=1)))
        proxy.forever = None
        assert direct_store.ids("snapshots") == [first.snapshot_id], "a failed run leaves no objects"
        served = context.state.read(lambda stores: stores.snapshots.current())
        assert served is not None
        assert served.snapshot_id == first.snapshot_id

        second = run_manually(context)
        assert second.report.files_carried == 8
        folders = (f"snapshots/{first.snapshot_id}/",)
        carried = context.state.read(lambda stores: set(stores.snapshots.keys_in_use(second.snapshot_id, folders)))
        assert len(carried) == 8
        context.state.write(lambda stores: stores.snapshots.forget(first.snapshot_id, at_most=10_000))
        third = run_manually(context)
        for snapshot in (second, third):
            verified = verify_snapshot(context.state, direct_store, snapshot.snapshot_id)
            assert (verified.files, verified.damaged) == (25, ())
        with pytest.raises(FileStoreError):
            direct_store.check(f"snapshots/{first.snapshot_id}/empty/members.csv.gz", 1, "")
