"""Runs with a real state database and a real disk: results of successful runs, and cleanup after failed ones."""

import gzip
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.audit import AuditQuery
from daybreak.domain.errors import (
    FileStoreError,
    OperatorError,
    RunError,
    RunFenced,
    SourceError,
    SourceUnavailable,
    StoreFull,
    Unavailable,
)
from daybreak.domain.run_report import ReferentialFault, RunProgress, RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.filestore.file_store import FileSink, FreeSpace, Kind
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import NO_PACKS
from daybreak.snapshots import guard
from daybreak.snapshots.builder import Builder
from daybreak.snapshots.disk_space import SpillFolder
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.lease import Lease
from daybreak.snapshots.publish import accept, discard, publish
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.run_requests import request_run, waiting_requests
from daybreak.snapshots.verify import verify_snapshot
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate
from tests.configured import DEFAULTS, configured
from tests.parts.buckets import open_bucket
from tests.parts.s3 import S3Bucket
from tests.parts.stored_files import lose_stored, overwrite_stored, read_stored
from tests.parts.variants import one_of
from tests.parts.waiting import PATIENT_SECONDS
from tests.small_platform import (
    QUICK,
    context_in,
    fail_runs,
    leader_ids,
    now,
    open_context,
    platform_of,
    source_of,
    write_platform,
)

LEADERS = leader_ids(3)


def served(context: RunContext) -> Snapshot | None:
    return context.state.read(lambda stores: stores.snapshots.current())


def history(context: RunContext) -> list[Snapshot]:
    return context.state.read(lambda stores: stores.snapshots.recent())


def manifest(context: RunContext, snapshot_id: str) -> dict[tuple[str, str, str], StoredFormat]:
    def read(stores: object) -> list[ManifestEntry]:
        return list(stores.snapshots.entries(snapshot_id))  # type: ignore[attr-defined]

    return {
        (entry.client_id, entry.resource, name): stored
        for entry in context.state.read(read)
        for name, stored in entry.formats.items()
    }


def folders(context: RunContext, folder: Path) -> tuple[set[str], set[str]]:
    """Return the names in `snapshots/` and in `staging/`."""
    files = folder / "files"
    return {path.name for path in (files / "snapshots").iterdir()}, {
        path.name for path in (files / "staging").iterdir()
    }


def test_run_writes_and_publishes_every_file(run_context: RunContext, folder: Path) -> None:
    done = run_manually(run_context)
    current = served(run_context)
    assert current is not None
    assert (done.state, current.snapshot_id) == (SnapshotState.PUBLISHED, done.snapshot_id)
    files = manifest(run_context, done.snapshot_id)
    # Eight resources have files of two Leaders and the shared header-only file. The ninth has only the shared one.
    assert len(files) == 2 * (8 * 3 + 1)
    for (leader, _, name), stored in files.items():
        content = gzip.decompress(b"".join(run_context.store.read(stored.key)))
        assert content.startswith(f"{name} header\n".encode())
        assert len(content) == stored.content_bytes
        assert content.count(b"\n") == (5 if leader else 1)
        assert leader.encode() in content
    one = run_context.state.read(lambda stores: stores.snapshots.file(None, LEADERS[-1], RESOURCE_NAMES[0], "csv"))
    assert one is not None
    assert one.rows == 0, "a Leader without rows has the shared file"
    assert folders(run_context, folder) == ({done.snapshot_id}, set())
    assert done.report.rows == 2 * 8 * 4
    assert done.report.leaders == 3
    assert set(done.report.by_resource) == set(RESOURCE_NAMES)


def test_unchanged_files_are_reused(run_context: RunContext, folder: Path) -> None:
    first = run_manually(run_context)
    platform = platform_of()
    platform[LEADERS[0]]["members"] = ["another row"]
    write_platform(folder / "platform.json", platform)
    second = run_manually(run_context)
    assert second.report.carried_from == first.snapshot_id
    assert second.report.files_carried == 2 * (2 * 8 - 1)
    old, new = manifest(run_context, first.snapshot_id), manifest(run_context, second.snapshot_id)
    changed = {name for name in new if new[name].sha256 != old[name].sha256}
    assert changed == {(LEADERS[0], "members", "csv"), (LEADERS[0], "members", "json")}
    assert verify_snapshot(run_context.state, run_context.store, second.snapshot_id).damaged == ()


def test_full_run_writes_the_bytes_of_reused_files(run_context: RunContext) -> None:
    run_manually(run_context)
    carried = run_manually(run_context)
    full = run_manually(run_context, full=True)
    assert carried.report.files_carried == 32
    assert full.report.files_carried == 0
    a, b = manifest(run_context, carried.snapshot_id), manifest(run_context, full.snapshot_id)
    assert {name: stored.sha256 for name, stored in a.items()} == {name: stored.sha256 for name, stored in b.items()}


def test_run_with_other_formats_reuses_no_files(run_context: RunContext) -> None:
    run_manually(run_context)
    again = run_manually(replace(run_context, settings=configured(snapshot={"formats": ("csv",)})))
    assert again.report.files_carried == 0
    assert again.report.carried_from is None


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def at_resource(place: int, error: Exception) -> Callable[[str], None]:
    def act(resource: str) -> None:
        if resource == RESOURCE_NAMES[place]:
            raise error

    return act


@pytest.mark.parametrize("place", ["check", "first", "last", "confirm", "count"])
def test_failed_run_keeps_published_files(run_context: RunContext, folder: Path, place: str) -> None:
    good = run_manually(run_context)
    source = source_of(run_context)
    error = SourceError("The table members has no column email.")
    if place == "check":
        source.on_check = [raising(error)]
    elif place == "confirm":
        source.on_confirm = [raising(error)]
    elif place == "count":
        source.extra_reported_rows = 1
    else:
        source.on_resource = [at_resource(0 if place == "first" else -1, error)]
    with pytest.raises((SourceError, RunError)) as caught:
        run_manually(run_context, full=True)
    failed = history(run_context)[0]
    assert failed.state is SnapshotState.FAILED
    assert failed.failure == caught.value.message
    assert failed.report.code == ("verification_failed" if place == "count" else "source_fault")
    assert len(history(run_context)) == 2, "permanent errors are not retried"
    assert served(run_context) == good
    assert folders(run_context, folder) == ({good.snapshot_id}, set())


def test_transient_error_is_retried_from_scratch(run_context: RunContext, folder: Path) -> None:
    attempts: list[str] = []

    def act(resource: str) -> None:
        if resource == "members":
            attempts.append(resource)
            if len(attempts) < 3:
                raise SourceUnavailable("The connection was lost.")

    source_of(run_context).on_resource = [act]
    done = run_manually(run_context)
    assert done.state is SnapshotState.PUBLISHED
    assert [run.state for run in history(run_context)] == ["published", "failed", "failed"]
    assert folders(run_context, folder) == ({done.snapshot_id}, set())


def test_persistent_transient_error_ends_the_run(run_context: RunContext) -> None:
    source_of(run_context).on_resource = [at_resource(0, SourceUnavailable("The connection was lost."))]
    with pytest.raises(SourceUnavailable):
        run_manually(run_context)
    assert len(history(run_context)) == QUICK.attempts


def test_unreadable_file_is_never_published(run_context: RunContext, folder: Path) -> None:
    """The disk returns bytes that differ from those written."""
    context = replace(run_context, store=LocalDisk(folder / "files", NO_PACKS))

    def corrupt(resource: str) -> None:
        if resource == RESOURCE_NAMES[-1]:
            path = next((folder / "files" / "staging").rglob("*.csv.gz"))
            content = path.read_bytes()
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    source_of(context).on_resource = [corrupt]
    with pytest.raises(RunError, match="cannot be read back") as caught:
        run_manually(context)
    assert caught.value.code == "verification_failed"
    assert served(run_context) is None
    assert folders(run_context, folder) == (set(), set())


def test_files_replaced_during_a_run_are_not_reused(run_context: RunContext) -> None:
    """An erasure replaces files of the published snapshot after the run has compared them."""
    first = run_manually(run_context)

    def replace_entry(resource: str) -> None:
        if resource == "members":
            source_of(run_context).on_resource = []
            state = run_context.state
            [old] = [
                entry
                for entry in state.read(lambda stores: stores.snapshots.manifest(first.snapshot_id, LEADERS[0]))
                if entry.resource == resource
            ]
            new = structs.replace(old, fingerprint="replaced", rows=old.rows - 1)
            state.write(lambda stores: stores.snapshots.replace_entries(first.snapshot_id, [old], [new], now()))

    source_of(run_context).on_resource = [replace_entry]
    second = run_manually(run_context)
    assert [run.failure is None for run in history(run_context)] == [True, False, True]
    assert (second.report.rows, second.report.files_carried) == (first.report.rows, 0)


def damage(context: RunContext, folder: Path, snapshot: Snapshot, leader: str, resource: str) -> None:
    """Flip one bit of a stored file."""
    stored = manifest(context, snapshot.snapshot_id)[leader, resource, "csv"]
    content = bytearray(read_stored(folder / "files", stored.key))
    content[len(content) // 2] ^= 1
    overwrite_stored(folder / "files", stored.key, content)


def test_verify_finds_damaged_and_missing_files(run_context: RunContext, folder: Path) -> None:
    done = run_manually(run_context)
    damage(run_context, folder, done, LEADERS[0], "members")
    lose_stored(folder / "files", manifest(run_context, done.snapshot_id)[LEADERS[1], "communities", "csv"].key)
    found = verify_snapshot(run_context.state, run_context.store, done.snapshot_id)
    assert {(d.file.client_id, d.file.resource, d.file.format) for d in found.damaged} == {
        (LEADERS[0], "members", "csv"),
        (LEADERS[1], "communities", "csv"),
    }
    assert found.files == 50
    with pytest.raises(OperatorError):
        verify_snapshot(run_context.state, run_context.store, run_context.new_id())


@pytest.mark.release
def test_damaged_file_is_detected_within_a_week(run_context: RunContext, folder: Path) -> None:
    """Reused files are read back in turn. A damaged one makes the run write all files."""
    start = now() - timedelta(days=30)
    first = run_manually(run_context, as_of=start)
    for leader in LEADERS[:2]:
        damage(run_context, folder, first, leader, "members")
    for day in range(1, 9):
        done = run_manually(run_context, as_of=start + timedelta(days=day))
        if not verify_snapshot(run_context.state, run_context.store, done.snapshot_id).damaged:
            break
    assert day <= 7
    assert any(run.report.code == "carry_failed" for run in history(run_context))


def test_missing_file_is_written_again_and_others_are_reused(run_context: RunContext, folder: Path) -> None:
    run_context = replace(run_context, store=LocalDisk(folder / "files", NO_PACKS))
    first = run_manually(run_context)
    lose_stored(folder / "files", manifest(run_context, first.snapshot_id)[LEADERS[0], "members", "csv"].key)
    second = run_manually(run_context)
    assert second.state is SnapshotState.PUBLISHED
    assert second.report.files_carried, "files of other Leaders are reused"
    assert verify_snapshot(run_context.state, run_context.store, second.snapshot_id).damaged == ()


GUARDED = configured(guard={"leader_min_rows": 3, "max_leader_drop_share": 0.4})


def test_guard_holds_a_drop_until_accepted(
    folder: Path, run_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MIN_ROWS", 1)
    context = replace(run_context, settings=GUARDED)
    good = run_manually(context)
    platform = platform_of()
    platform[LEADERS[0]]["members"] = []
    write_platform(folder / "platform.json", platform)
    held = run_manually(context)
    assert held.state is SnapshotState.HELD
    assert served(context) == good
    kinds = {(found.kind, found.resource) for found in held.report.findings or ()}
    assert kinds == {("rows", "members"), ("leader_rows", "members")}
    with pytest.raises(OperatorError, match="--accept"):
        accept(context.state, context.store, context.settings, held.snapshot_id, " ", now())
    done = accept(context.state, context.store, context.settings, held.snapshot_id, "a Leader left", now())
    assert (done.state, done.accepted_reason) == (SnapshotState.PUBLISHED, "a Leader left")
    current = served(context)
    assert current is not None
    assert current.snapshot_id == held.snapshot_id
    with pytest.raises(OperatorError, match="published"):
        accept(context.state, context.store, context.settings, held.snapshot_id, "again", now())
    trail = context.state.read(lambda stores: stores.audit.read(AuditQuery(action="snapshot.published")))
    assert [event.subject for event in trail] == [good.snapshot_id, held.snapshot_id]


def test_snapshot_of_a_fast_clock_can_be_superseded(run_context: RunContext) -> None:
    settings = configured(guard={"enabled": False})
    clock = [now() + timedelta(days=30)]
    context = replace(run_context, settings=settings, clock=lambda: clock[0])
    ahead = run_manually(context)
    assert ahead.state is SnapshotState.PUBLISHED
    clock[0] = now()
    status = context.state.read(lambda stores: freshness(stores.snapshots, clock[0], settings.snapshot.publish_at))
    assert status.late
    assert "operator must check the clock" in (status.reason or "")
    corrected = run_manually(context)
    assert (corrected.state, served(context)) == (SnapshotState.HELD, ahead)
    assert "ahead of the clock" in str(corrected.report.findings)
    accepted = accept(
        context.state, context.store, context.settings, corrected.snapshot_id, "the clock was wrong", clock[0]
    )
    assert accepted.state is SnapshotState.PUBLISHED
    clock[0] += timedelta(minutes=2)
    assert run_manually(context).state is SnapshotState.PUBLISHED
    status = context.state.read(lambda stores: freshness(stores.snapshots, clock[0], settings.snapshot.publish_at))
    assert not status.late


def test_discarded_snapshot_loses_its_files(folder: Path, run_context: RunContext) -> None:
    source_of(run_context).faults = [ReferentialFault("members.MEMBER_ID", 3, LEADERS[0])]
    held = run_manually(run_context)
    assert held.state is SnapshotState.HELD
    assert folders(run_context, folder)[0] == {held.snapshot_id}, "a held snapshot keeps its files"
    clean(run_context.state, run_context.store, DEFAULTS, now())
    assert folders(run_context, folder)[0] == {held.snapshot_id}
    discard(run_context.state, held.snapshot_id, "the platform was broken", now())
    clean(run_context.state, run_context.store, DEFAULTS, now())
    assert folders(run_context, folder)[0] == set()
    with pytest.raises(OperatorError):
        discard(run_context.state, held.snapshot_id, "again", now())


@pytest.mark.release
def test_held_snapshot_keeps_its_files_after_many_failed_runs(folder: Path, run_context: RunContext) -> None:
    """An operator can accept it, however many runs have failed since."""
    source_of(run_context).faults = [ReferentialFault("members.MEMBER_ID", 3, LEADERS[0])]
    held = run_manually(run_context)
    fail_runs(run_context, 250)
    clean(run_context.state, run_context.store, DEFAULTS, now())
    assert folders(run_context, folder)[0] == {held.snapshot_id}
    accept(run_context.state, run_context.store, run_context.settings, held.snapshot_id, "a known fault", now())
    assert verify_snapshot(run_context.state, run_context.store, held.snapshot_id).damaged == ()


def test_insufficient_disk_space_fails_before_writing(run_context: RunContext, folder: Path) -> None:
    class SmallDisk(LocalDisk):
        def free_space(self) -> FreeSpace | None:
            return FreeSpace(70 << 20)

    context = replace(run_context, store=SmallDisk(folder / "files"))
    source_of(context).reported_input_bytes = 10 << 20
    with pytest.raises(RunError, match=r"Not enough space on the disk of files\.url") as caught:
        run_manually(context)
    assert caught.value.code == "disk_short"
    assert folders(context, folder) == (set(), set())
    source_of(context).reported_input_bytes = 1 << 20
    assert run_manually(context).state is SnapshotState.PUBLISHED


def test_files_of_spark_need_an_inode_each(run_context: RunContext, folder: Path) -> None:
    class FewInodes(LocalDisk):
        def free_space(self) -> FreeSpace | None:
            return FreeSpace(10 << 30, 40)

    context = replace(run_context, store=FewInodes(folder / "files"))
    run_manually(context)
    run_manually(context)
    with pytest.raises(RunError, match="inodes"):
        run_manually(replace(context, settings=configured(source={"engine": "spark"})))


def test_run_reports_written_and_spilled_bytes(run_context: RunContext, folder: Path) -> None:
    def spill(resource: str) -> None:
        size_bytes = 300_000 if resource == "members" else 100_000
        (folder / "spill").mkdir(exist_ok=True)
        (folder / "spill" / "rows").write_bytes(b"x" * size_bytes)

    context = replace(run_context, spill=SpillFolder(folder / "spill", folder / "files"))
    source_of(context).on_resource = [spill]
    first, second = run_manually(context), run_manually(context)
    assert 300_000 <= _number(first.report.scratch_bytes) < 400_000
    assert first.report.bytes == second.report.bytes
    assert _number(first.report.bytes_written) > 0
    assert second.report.bytes_written == 0, "all files were reused"


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize("error", [FileStoreError("Another process does it."), Unavailable("It takes too long.")])
def test_failing_clean_up_does_not_stop_a_run(run_context: RunContext, folder: Path, error: Exception) -> None:
    class UndeletableDisk(LocalDisk):
        def remove(self, kind: Kind, snapshot_id: str, kept: AbstractSet[str] = frozenset()) -> int:
            raise error

    undeletable = UndeletableDisk(folder / "files")
    write_lapsed_run(run_context)
    assert run_manually(replace(run_context, store=undeletable)).state is SnapshotState.PUBLISHED
    assert run_manually(run_context).state is SnapshotState.PUBLISHED
    assert folders(run_context, folder)[1] == set()


class FailingDisk(LocalDisk):
    """Disk that fails when the twentieth file is written."""

    error: Exception | None = None

    def stage(self, snapshot_id: str) -> FileSink:
        sink = super().stage(snapshot_id)
        write, seen = sink.write, []

        def failing(client_id: str, resource: str, format: str, pieces: object) -> object:
            seen.append(resource)
            if self.error is not None and len(seen) == 20:
                raise self.error
            return write(client_id, resource, format, pieces)  # type: ignore[arg-type]

        sink.write = failing  # type: ignore[method-assign, assignment]
        return sink


def test_full_disk_fails_the_run_and_leaves_no_files(run_context: RunContext, folder: Path) -> None:
    store = FailingDisk(folder / "files")
    context = replace(run_context, store=store)
    good = run_manually(context)
    store.error = StoreFull("No space left on device.")
    with pytest.raises(FileStoreError):
        run_manually(context, full=True)
    assert history(context)[0].report.code == "disk_short"
    assert served(context) == good
    assert folders(context, folder) == ({good.snapshot_id}, set())


def test_stopped_run_ends_and_leaves_no_files(run_context: RunContext, folder: Path) -> None:
    source_of(run_context).on_resource = [lambda resource: run_context.stop.set() if resource == "members" else None]
    with pytest.raises(RunError) as caught:
        run_manually(run_context)
    assert caught.value.code == "run_stopped"
    assert history(run_context)[0].report.code == "run_stopped"
    assert folders(run_context, folder) == (set(), set())


def test_stale_builder_publishes_nothing(run_context: RunContext, folder: Path) -> None:
    """The database refuses the next manifest entry of a builder that lost its lease."""
    takeovers: list[list[Snapshot]] = []

    def take_over(resource: str) -> None:
        if resource == "members":
            later = now() + timedelta(seconds=QUICK.lease_seconds + 1)
            takeovers.append(run_context.state.write(lambda stores: stores.snapshots.lapse(later)))

    source_of(run_context).on_resource = [take_over]
    with pytest.raises(RunFenced):
        run_manually(run_context)
    assert [len(taken) for taken in takeovers] == [1]
    assert served(run_context) is None
    assert folders(run_context, folder) == (set(), set())


def test_clean_up_by_a_fast_clock_ends_the_run_of_another_node(run_context: RunContext, folder: Path) -> None:
    """A node whose clock is 10 minutes ahead sees a lapsed lease. The builder must not report lost files."""

    def clean_up(resource: str) -> None:
        if resource == "members":
            clean(run_context.state, run_context.store, DEFAULTS, now() + timedelta(minutes=10))

    source_of(run_context).on_resource = [clean_up]
    with pytest.raises(RunFenced):
        run_manually(run_context)
    assert "clocks differ" in (history(run_context)[0].failure or "")
    assert folders(run_context, folder) == (set(), set())


def test_missing_files_after_a_takeover_are_reported_as_takeover(run_context: RunContext) -> None:
    """The builder that takes a run over deletes its files."""

    def take_over(_resource: str) -> None:
        later = now() + timedelta(seconds=QUICK.lease_seconds + 1)
        run_context.state.write(lambda stores: stores.snapshots.lapse(later))
        raise FileStoreError("the staging folder does not exist")

    source_of(run_context).on_resource = [take_over]
    with pytest.raises(RunFenced):
        run_manually(run_context)


def test_lost_lease_is_noticed_without_a_write(run_context: RunContext) -> None:
    context = replace(run_context, timings=replace(QUICK, heartbeat_seconds=0.01))
    run = Snapshot(context.new_id(), SnapshotState.BUILDING, now(), now())
    begun = context.state.write(lambda stores: stores.snapshots.begin_manual(run, now(), QUICK.lease_seconds))
    give_up_at = time.monotonic() + PATIENT_SECONDS
    with Lease(context, begun, RunProgress) as lease:
        lease.check()
        later = now() + timedelta(days=1)
        context.state.write(lambda stores: stores.snapshots.lapse(later))
        with pytest.raises(RunFenced):
            check_until(lease, give_up_at)


def check_until(lease: Lease, give_up_at: float) -> None:
    while time.monotonic() < give_up_at:
        lease.check()
        time.sleep(0.01)


def test_files_of_lapsed_runs_are_deleted(run_context: RunContext, folder: Path) -> None:
    good = run_manually(run_context)
    for committed in (False, True):
        sink = write_lapsed_run(run_context)
        if committed:
            sink.commit()
    settings = configured(snapshot={"keep": 5})
    cleaned = clean(run_context.state, run_context.store, settings, now())
    assert cleaned.files == 2
    assert folders(run_context, folder) == ({good.snapshot_id}, set())


def write_lapsed_run(context: RunContext) -> FileSink:
    """Write a file of a run whose lease has expired. Return its sink."""
    run = Snapshot(context.new_id(), SnapshotState.BUILDING, now(), now())
    context.state.write(lambda stores: stores.snapshots.begin_manual(run, now() - timedelta(minutes=5), 60))
    sink = context.store.stage(run.snapshot_id)
    sink.write(LEADERS[0], "members", "csv", [b"dead"])
    return sink


def test_unknown_snapshots_are_reported_and_kept(run_context: RunContext, folder: Path) -> None:
    """Such snapshots belong to another instance, or were written after the backup of a restored state database."""
    unknown_id, being_built, with_deltas = (run_context.new_id() for _ in range(3))
    (folder / "files" / "deltas" / with_deltas).mkdir()
    for snapshot_id in (unknown_id, being_built):
        sink = run_context.store.stage(snapshot_id)
        sink.write(LEADERS[0], "members", "csv", [b"another instance's"])
        if snapshot_id == unknown_id:
            sink.commit()
    own = run_manually(run_context)
    cleaned = clean(run_context.state, run_context.store, DEFAULTS, now())
    assert (cleaned.files, set(cleaned.unknown)) == (0, {unknown_id, being_built, with_deltas})
    assert folders(run_context, folder) == ({own.snapshot_id, unknown_id}, {being_built})


def test_active_run_of_another_builder_keeps_its_files(run_context: RunContext, folder: Path) -> None:
    other = Snapshot(run_context.new_id(), SnapshotState.BUILDING, now(), now())
    run_context.state.write(lambda stores: stores.snapshots.begin_manual(other, now(), 60))
    run_context.store.stage(other.snapshot_id).write(LEADERS[0], "members", "csv", [b"alive"])
    done = run_manually(run_context)
    assert folders(run_context, folder) == ({done.snapshot_id}, {other.snapshot_id})
    clean(run_context.state, run_context.store, DEFAULTS, now() + timedelta(seconds=61))
    assert folders(run_context, folder) == ({done.snapshot_id}, set())


def test_expired_snapshots_are_deleted(folder: Path, run_context: RunContext) -> None:
    clock = [datetime(2026, 11, 20, 4, tzinfo=UTC)]
    store = LocalDisk(folder / "files", NO_PACKS)
    context = replace(run_context, store=store, clock=lambda: clock[0], settings=configured(snapshot={"keep": 1}))
    first = run_manually(context)
    clock[0] += timedelta(hours=24)
    second = run_manually(context)
    clock[0] += timedelta(minutes=24)
    clean(context.state, context.store, context.settings, clock[0])
    assert folders(context, folder)[0] == {first.snapshot_id, second.snapshot_id}

    def link_opens(snapshot: Snapshot) -> bool:
        return (
            context.state.read(lambda stores: stores.snapshots.file(snapshot.snapshot_id, LEADERS[0], "members", "csv"))
            is not None
        )

    assert link_opens(first)
    clock[0] += timedelta(minutes=1)
    other = Snapshot(context.new_id(), SnapshotState.BUILDING, clock[0], clock[0])
    context.state.write(lambda stores: stores.snapshots.begin_manual(other, clock[0], 60))
    clean(context.state, context.store, context.settings, clock[0])
    assert link_opens(first), "an active run may reuse its files"
    clock[0] += timedelta(minutes=2)
    clean(context.state, context.store, context.settings, clock[0])
    assert folders(context, folder)[0] == {second.snapshot_id}
    assert not link_opens(first)
    assert verify_snapshot(context.state, context.store, second.snapshot_id).damaged == ()


@pytest.mark.release
def test_reused_objects_outlive_their_snapshot(
    s3_bucket: S3Bucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket, the new manifest refers to objects of the expired snapshot."""
    store = open_bucket(s3_bucket, monkeypatch, packing=NO_PACKS)
    clock = [datetime(2026, 11, 20, 4, tzinfo=UTC)]
    context = context_in(folder, store=store, settings=configured(snapshot={"keep": 1}), clock=lambda: clock[0])
    run_manually(context)
    write_platform(folder / "platform.json", platform_of() | {LEADERS[0]: platform_of(mark="b")[LEADERS[0]]})
    clock[0] += timedelta(days=1)
    second = run_manually(context)
    clock[0] += timedelta(hours=1)
    assert clean(context.state, context.store, context.settings, clock[0]).files > 0
    assert verify_snapshot(context.state, context.store, second.snapshot_id).damaged == ()
    context.state.close()


@pytest.mark.parametrize("damage", one_of("lost", "replaced"))
def test_lost_and_replaced_objects_are_written_again(
    s3_bucket: S3Bucket, folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    store = open_bucket(s3_bucket, monkeypatch, packing=NO_PACKS)
    context = context_in(folder, store=store)
    first = run_manually(context)
    entries = context.state.read(lambda stores: list(stores.snapshots.entries(first.snapshot_id, "members")))
    key = next(entry for entry in entries if entry.client_id).formats["csv"].key
    store.delete([key])
    if damage == "replaced":
        store.put(key, b"other content", {})
    second = run_manually(context)
    assert second.state is SnapshotState.PUBLISHED
    assert second.report.files_carried, "files of other Leaders are reused"
    assert verify_snapshot(context.state, store, second.snapshot_id).damaged == ()
    faults = context.state.read(lambda stores: stores.file_faults.list_all())
    assert [(fault.snapshot_id, fault.files, fault.is_current) for fault in faults] == [(first.snapshot_id, 1, False)]
    context.state.close()


def test_superseded_snapshot_is_never_published(run_context: RunContext) -> None:
    older = Snapshot(run_context.new_id(), SnapshotState.BUILDING, now() - timedelta(hours=1), now())
    begun = run_context.state.write(lambda stores: stores.snapshots.begin_manual(older, now(), 60))
    run_context.state.write(
        lambda stores: stores.snapshots.finish(
            older.snapshot_id, begun.fence, SnapshotState.COMPLETE, now(), report=RunReport()
        )
    )
    newer = run_manually(run_context)
    assert not publish(run_context.state, run_context.store, run_context.settings, older, now())
    assert served(run_context) == newer
    assert {run.snapshot_id: run.state for run in history(run_context)}[older.snapshot_id] is SnapshotState.DISCARDED


def test_run_reports_progress_and_expected_end(folder: Path, run_context: RunContext) -> None:
    reports: list[RunProgress] = []
    ticks = [0.0]

    def tick() -> float:
        ticks[0] += 1.0
        return ticks[0]

    context = replace(run_context, watch=reports.append, ticks=tick)
    run_manually(context, full=True)
    assert reports[-1].share is reports[-1].seconds_left is UNSET, "the first run has no estimate"
    reports.clear()
    run_manually(context, full=True)
    members = next(entry for entry in reports if entry.resource == "members")
    assert members.resource_number == RESOURCE_NAMES.index("members") + 1
    shares = [entry.share for entry in reports if entry.share is not UNSET]
    assert shares == sorted(shares)
    assert shares[-1] > 0.5
    assert any(entry.expected_end is not UNSET for entry in reports)
    assert reports[-1].rows == 64


def test_two_builders_share_one_folder(folder: Path, run_context: RunContext) -> None:
    with open_context(folder, builder="other") as other:
        first = run_manually(run_context)
        second = run_manually(other)
    assert [run.builder for run in history(run_context)] == ["other", "test"]
    assert [run.state for run in history(run_context)] == ["published", "retired"]
    assert {first.snapshot_id, second.snapshot_id} == folders(run_context, folder)[0]


def test_builder_takes_a_requested_run(run_context: RunContext) -> None:
    published = run_manually(run_context)
    request_run(run_context.state, run_context.clock(), request_id="r", actor="op")
    Builder(run_context).step()
    runs = run_context.state.read(lambda stores: stores.snapshots.recent())
    assert [run.state for run in runs] == [SnapshotState.PUBLISHED, SnapshotState.RETIRED]
    assert runs[1].snapshot_id == published.snapshot_id
    assert runs[0].day is None
    assert run_context.state.read(lambda stores: waiting_requests(stores, run_context.clock())) == []


@pytest.mark.parametrize("minutes", one_of(-6, 6))
def test_builder_with_a_wrong_clock_does_nothing(postgresql_url: str, tmp_path: Path, minutes: int) -> None:
    migrate(postgresql_url)
    write_platform(tmp_path / "platform.json", platform_of())
    offset = timedelta()
    with closing(open_state(postgresql_url)) as state:
        settings = configured(snapshot={"schedule": False})
        context = context_in(tmp_path, state=state, settings=settings, clock=lambda: now() + offset)
        builder, published = Builder(context), run_manually(context)
        lapsed = write_lapsed_run(context)
        lapsed.commit()
        requested = request_run(state, now(), request_id="r", actor="op")
        before = (history(context), folders(context, tmp_path))
        assert len(before[1][0]) == 2

        offset = timedelta(minutes=minutes)
        for work in (builder.step, lambda: run_manually(context)):
            with pytest.raises(OperatorError, match=r"^The clock is .*Nothing is built, published, sent or deleted"):
                work()
        assert (history(context), folders(context, tmp_path)) == before
        assert state.read(lambda stores: waiting_requests(stores, now())) == [requested]

        offset = timedelta()
        builder.step()
        builder.step()
        assert served(context) not in (None, published)
        assert len(folders(context, tmp_path)[0]) == 2, "the files of the lapsed run are deleted"
