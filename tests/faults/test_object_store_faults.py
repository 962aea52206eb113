"""A bucket that refuses, breaks off, falls silent or lies: tried again within bounds, and never taken for success."""

from __future__ import annotations

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
from daybreak.filestore.clouds import BucketAddress
from daybreak.filestore.object_sink import PART_BYTES
from daybreak.filestore.object_store import ObjectStore
from daybreak.snapshots.run import run_by_hand
from daybreak.snapshots.verify import verify_snapshot
from tests.faults.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.parts.buckets import Bucket
from tests.parts.s3 import S3Bucket
from tests.small_platform import platform_of, workshop_in, write_platform

LEADER = "d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7"
LARGE = random.Random(7).randbytes(PART_BYTES + 300_000)


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultProxy]:
    parts = urlsplit(bucket.server.endpoint)
    assert parts.hostname is not None
    assert parts.port is not None
    with fault_proxy(parts.hostname, parts.port) as found:
        yield found


def behind(proxy: FaultProxy, bucket: Bucket, folder: Path, patience_seconds: float) -> ObjectStore:
    """The bucket behind the proxy."""
    endpoint = f"{proxy.endpoint}{urlsplit(bucket.server.endpoint).path}"
    address = BucketAddress(bucket.url, endpoint, path_style=True, patience_seconds=patience_seconds, silence_seconds=3)
    return ObjectStore(address, environment=bucket.environment(), home=folder)


@pytest.fixture
def store(proxy: FaultProxy, bucket: Bucket, tmp_path: Path) -> ObjectStore:
    return behind(proxy, bucket, tmp_path, 20)


@pytest.fixture
def straight(bucket: Bucket, tmp_path: Path) -> ObjectStore:
    """The bucket without the proxy."""
    address = BucketAddress(bucket.url, bucket.server.endpoint, path_style=True)
    return ObjectStore(address, environment=bucket.environment(), home=tmp_path)


@pytest.fixture
def part(bucket: Bucket) -> bytes:
    """What a request holds that sends a part of a large file."""
    return b"partNumber" if isinstance(bucket, S3Bucket) else b"comp=block&"


PASSING = [
    Fault("status", 500),
    Fault("status", 503),
    Fault("status", 429),
    Fault("reset", 100),
    Fault("cut", 10),
    Fault("silent"),
]


def test_a_small_upload_gets_through_every_fault_that_passes(
    store: ObjectStore, straight: ObjectStore, proxy: FaultProxy
) -> None:
    sink = store.stage(str(uuid.uuid4()))
    proxy.faults = list(PASSING)
    files = [sink.write(str(uuid.uuid4()), "members", "csv", [f"file {number}".encode()]) for number in range(6)]
    sink.seal()
    assert proxy.faults == []
    for number, written in enumerate(files):
        straight.check(written.key, 6, hashlib.sha256(f"file {number}".encode()).hexdigest())


def test_a_large_upload_gets_through_faults_in_its_parts_and_its_end(
    store: ObjectStore, straight: ObjectStore, proxy: FaultProxy, bucket: Bucket, part: bytes
) -> None:
    sink = store.stage(str(uuid.uuid4()))
    in_parts = [Fault("reset", 5000, part), Fault("status", 503, part)]
    if isinstance(bucket, S3Bucket):
        proxy.faults = [Fault("status", 500, b"POST"), *in_parts, Fault("accepted", only=b"POST")]
    else:
        proxy.faults = [*in_parts, Fault("status", 500, b"comp=blocklist"), Fault("accepted", only=b"comp=blocklist")]
    try:
        written = sink.write(LEADER, "members", "csv", [LARGE])
        sink.seal()
    except Unavailable:
        # An end that was accepted and then failed may be given up; what may not happen is that it counts.
        return
    straight.check(written.key, len(LARGE), hashlib.sha256(LARGE).hexdigest())


def test_a_large_file_waits_for_the_bucket_with_a_handful_of_parts_in_memory(
    proxy: FaultProxy, bucket: Bucket, part: bytes, tmp_path: Path
) -> None:
    proxy.forever = Fault("status", 500, part)
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(20):
            made += 1
            yield bytes(PART_BYTES)

    sink = behind(proxy, bucket, tmp_path, 1).stage(str(uuid.uuid4()))
    with pytest.raises(Unavailable):
        sink.write(LEADER, "members", "csv", pieces())
    assert made <= 6


def test_a_bucket_that_stays_away_fails_within_bounds(store: ObjectStore, proxy: FaultProxy) -> None:
    proxy.forever = Fault("status", 500)
    sink = store.stage(str(uuid.uuid4()))
    sink.write(LEADER, "members", "csv", [b"rows"])
    with pytest.raises(Unavailable) as caught:
        sink.seal()
    assert caught.value.code == "files_unavailable"
    # Three tries of ours, seven requests at most in each.
    assert 3 <= proxy.struck <= 21
    proxy.forever = None
    sink.discard()


def test_an_answer_that_is_cut_or_damaged_is_never_taken_for_the_file(
    store: ObjectStore, straight: ObjectStore, proxy: FaultProxy
) -> None:
    sink = straight.stage(str(uuid.uuid4()))
    written = sink.write(LEADER, "members", "csv", [LARGE])
    sink.seal()
    proxy.faults = [Fault("cut", 1_000_000, b"GET")]
    # The rest is asked for again, or the reading fails: a short file never ends quietly.
    with contextlib.suppress(Unavailable):
        assert b"".join(store.read(written.key)) == LARGE
    assert proxy.faults == []
    proxy.faults = [Fault("damage", 1_000_000, b"GET")]
    with pytest.raises(FileDamaged):
        store.check(written.key, written.bytes, written.sha256)


def test_an_upload_whose_etag_says_otherwise_is_read_back_and_sent_again(
    store: ObjectStore, straight: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that took other bytes than were sent: found by its ETag, and again by reading back."""
    put, sent = store.put, []

    def lying(key: str, content: bytes, headers: dict[str, str]) -> str:
        sent.append(key)
        return put(key, content[:-1] if len(sent) == 1 else content, headers)

    monkeypatch.setattr(store, "put", lying)
    sink = store.stage(str(uuid.uuid4()))
    written = sink.write(LEADER, "members", "csv", [b"rows"])
    sink.seal()
    assert len(sent) == 2
    straight.check(written.key, 4, written.sha256)


def test_runs_on_a_bucket_carry_by_reference_fail_cleanly_and_keep_what_is_in_use(
    folder: Path, bucket: Bucket, straight: ObjectStore, proxy: FaultProxy
) -> None:
    shop = workshop_in(folder, store=straight)
    try:
        first = run_by_hand(shop)
        assert first.state is SnapshotState.PUBLISHED
        changed = platform_of(mark="b")
        unchanged = min(changed)
        changed[unchanged] = platform_of()[unchanged]
        write_platform(folder / "platform.json", changed)

        proxy.forever = Fault("status", 500, b"PUT")
        impatient = behind(proxy, bucket, folder, 1)
        with pytest.raises((Unavailable, FileStoreError)):
            run_by_hand(replace(shop, store=impatient, plan=replace(shop.plan, attempts=1)))
        proxy.forever = None
        assert straight.snapshot_ids() == [first.snapshot_id], "nothing is left of the run that failed"
        served = shop.state.read(lambda stores: stores.snapshots.current())
        assert served is not None
        assert served.snapshot_id == first.snapshot_id

        second = run_by_hand(shop)
        assert second.report["files_carried"] == 16
        folders = (f"snapshots/{first.snapshot_id}/",)
        carried = shop.state.read(lambda stores: set(stores.snapshots.keys_in_use([second.snapshot_id], folders)))
        assert len(carried) == 16
        shop.state.write(lambda stores: stores.snapshots.forget(first.snapshot_id))
        third = run_by_hand(shop)
        for snapshot in (second, third):
            verified = verify_snapshot(shop.state, straight, snapshot.snapshot_id)
            assert (verified.files, verified.damaged) == (50, ())
        with pytest.raises(FileStoreError):
            straight.check(f"snapshots/{first.snapshot_id}/empty/members.csv.gz", 1, "")
    finally:
        shop.state.close()
