"""Runs on a real state database and a real disk: what comes of them, and what is left when they fail."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import (
    FileStoreError,
    OperatorError,
    RunError,
    RunFenced,
    SourceError,
    SourceUnavailable,
    StoreFull,
)
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.filestore.local_disk import LocalDisk
from daybreak.ports.files import FileSink
from daybreak.ports.sources import ReferentialFault
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.plan import GuardRules
from daybreak.snapshots.publish import accept, discard, publish
from daybreak.snapshots.report import resources_of
from daybreak.snapshots.retention import clean
from daybreak.snapshots.room import Scratch
from daybreak.snapshots.run import run_by_hand
from daybreak.snapshots.verify import verify_snapshot
from daybreak.snapshots.workshop import Workshop
from tests.small_platform import QUICK, SmallSource, leader_ids, now, platform_of, workshop_in, write_platform

LEADERS = leader_ids(3)


def served(shop: Workshop) -> Snapshot | None:
    return shop.state.read(lambda stores: stores.snapshots.current())


def history(shop: Workshop) -> list[Snapshot]:
    return shop.state.read(lambda stores: stores.snapshots.recent())


def manifest(shop: Workshop, snapshot_id: str) -> dict[tuple[str, str, str], StoredFormat]:
    def read(stores: object) -> list[ManifestEntry]:
        return list(stores.snapshots.entries(snapshot_id))  # type: ignore[attr-defined]

    return {
        (entry.client_id, entry.resource, name): stored
        for entry in shop.state.read(read)
        for name, stored in entry.formats.items()
    }


def source_of(shop: Workshop) -> SmallSource:
    assert isinstance(shop.source, SmallSource)
    return shop.source


def folders(shop: Workshop, folder: Path) -> tuple[set[str], set[str]]:
    """What lies in `snapshots/` and in `staging/`."""
    files = folder / "files"
    return {path.name for path in (files / "snapshots").iterdir()}, {
        path.name for path in (files / "staging").iterdir()
    }


def test_a_run_makes_every_file_of_every_leader_and_publishes_it(workshop: Workshop, folder: Path) -> None:
    done = run_by_hand(workshop)
    current = served(workshop)
    assert current is not None
    assert (done.state, current.snapshot_id) == (SnapshotState.PUBLISHED, done.snapshot_id)
    files = manifest(workshop, done.snapshot_id)
    # Two Leaders with rows and the shared header-only one in eight resources, the header alone in the ninth.
    assert len(files) == 2 * (8 * 3 + 1)
    for (leader, resource, name), stored in files.items():
        content = gzip.decompress(b"".join(workshop.store.read(stored.key)))
        assert content.startswith(f"{name} header\n".encode())
        assert len(content) == stored.content_bytes
        assert content.count(b"\n") == (5 if leader else 1)
        assert leader.encode() in content
        assert resource in stored.key
    one = workshop.state.read(lambda stores: stores.snapshots.file(None, LEADERS[-1], RESOURCE_NAMES[0], "csv"))
    assert one is not None
    assert one.rows == 0, "a Leader without rows has the shared file"
    assert folders(workshop, folder) == ({done.snapshot_id}, set())
    assert done.report["rows"] == 2 * 8 * 4
    assert done.report["leaders"] == 3
    assert set(resources_of(done.report)) == set(RESOURCE_NAMES)


def test_unchanged_files_are_carried_and_changed_ones_are_written(workshop: Workshop, folder: Path) -> None:
    first = run_by_hand(workshop)
    platform = platform_of()
    platform[LEADERS[0]]["members"] = ["another row"]
    write_platform(folder / "platform.json", platform)
    second = run_by_hand(workshop)
    assert second.report["carried_from"] == first.snapshot_id
    assert second.report["files_carried"] == 2 * (2 * 8 - 1)
    old, new = manifest(workshop, first.snapshot_id), manifest(workshop, second.snapshot_id)
    changed = {name for name in new if new[name].sha256 != old[name].sha256}
    assert changed == {(LEADERS[0], "members", "csv"), (LEADERS[0], "members", "json")}
    assert verify_snapshot(workshop.state, workshop.store, second.snapshot_id).damaged == ()


def test_a_full_run_writes_the_same_bytes_that_carrying_gives(workshop: Workshop) -> None:
    run_by_hand(workshop)
    carried = run_by_hand(workshop)
    full = run_by_hand(workshop, full=True)
    assert carried.report["files_carried"] == 32
    assert full.report["files_carried"] == 0
    a, b = manifest(workshop, carried.snapshot_id), manifest(workshop, full.snapshot_id)
    assert {name: stored.sha256 for name, stored in a.items()} == {name: stored.sha256 for name, stored in b.items()}


def test_other_formats_carry_nothing(workshop: Workshop) -> None:
    run_by_hand(workshop)
    again = run_by_hand(replace(workshop, plan=replace(QUICK, formats=("csv",))))
    assert again.report["files_carried"] == 0
    assert again.report["carried_from"] is None


def broken(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def at_resource(place: int, error: Exception) -> Callable[[str], None]:
    def act(resource: str) -> None:
        if resource == RESOURCE_NAMES[place]:
            raise error

    return act


@pytest.mark.parametrize("place", ["check", "first", "last", "confirm", "count"])
def test_a_run_that_fails_changes_nothing_that_is_served_and_says_why(
    workshop: Workshop, folder: Path, place: str
) -> None:
    good = run_by_hand(workshop)
    source = source_of(workshop)
    error = SourceError("The table members has no column email.")
    if place == "check":
        source.on_check = [broken(error)]
    elif place == "confirm":
        source.on_confirm = [broken(error)]
    elif place == "count":
        source.claims_more_rows = 1
    else:
        source.on_resource = [at_resource(0 if place == "first" else -1, error)]
    with pytest.raises((SourceError, RunError)) as caught:
        run_by_hand(workshop, full=True)
    failed = history(workshop)[0]
    assert failed.state is SnapshotState.FAILED
    assert failed.failure == caught.value.message
    assert failed.report["code"] == ("verification_failed" if place == "count" else "source_fault")
    assert len(history(workshop)) == 2, "what will not get better is not tried again"
    assert served(workshop) == good
    assert folders(workshop, folder) == ({good.snapshot_id}, set())


def test_an_error_that_passes_is_tried_again_with_nothing_left_of_the_first_try(
    workshop: Workshop, folder: Path
) -> None:
    tries: list[str] = []

    def act(resource: str) -> None:
        if resource == "members":
            tries.append(resource)
            if len(tries) < 3:
                raise SourceUnavailable("The connection was lost.")

    source_of(workshop).on_resource = [act]
    done = run_by_hand(workshop)
    assert done.state is SnapshotState.PUBLISHED
    assert [run.state for run in history(workshop)] == ["published", "failed", "failed"]
    assert folders(workshop, folder) == ({done.snapshot_id}, set())


def test_an_error_that_does_not_pass_ends_after_some_tries(workshop: Workshop) -> None:
    source_of(workshop).on_resource = [at_resource(0, SourceUnavailable("The connection was lost."))]
    with pytest.raises(SourceUnavailable):
        run_by_hand(workshop)
    assert len(history(workshop)) == QUICK.attempts


def test_a_file_that_does_not_read_back_as_written_is_never_published(workshop: Workshop, folder: Path) -> None:
    """The disk gives back something else than it took."""

    def rot(resource: str) -> None:
        if resource == RESOURCE_NAMES[-1]:
            path = next((folder / "files" / "staging").rglob("*.members.json.gz"))
            path.write_bytes(path.read_bytes()[:-1] + b"\1")

    source_of(workshop).on_resource = [rot]
    with pytest.raises(RunError, match="cannot be read back") as caught:
        run_by_hand(workshop)
    assert caught.value.code == "verification_failed"
    assert served(workshop) is None
    assert folders(workshop, folder) == (set(), set())


def damage(shop: Workshop, snapshot: Snapshot, leader: str, resource: str) -> Path:
    """Flips one bit of a stored file."""
    stored = manifest(shop, snapshot.snapshot_id)[leader, resource, "csv"]
    octets = shop.store.open_local(stored.key)
    assert octets is not None
    with octets:
        path = Path(octets.name)
        content = bytearray(octets.read())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def test_verify_finds_a_flipped_bit_and_a_missing_file(workshop: Workshop) -> None:
    done = run_by_hand(workshop)
    damage(workshop, done, LEADERS[0], "members")
    damage(workshop, done, LEADERS[1], "communities").unlink()
    found = verify_snapshot(workshop.state, workshop.store, done.snapshot_id)
    assert {(d.client_id, d.resource, d.format) for d in found.damaged} == {
        (LEADERS[0], "members", "csv"),
        (LEADERS[1], "communities", "csv"),
    }
    assert found.files == 50
    with pytest.raises(OperatorError):
        verify_snapshot(workshop.state, workshop.store, workshop.new_id())


def test_damage_is_not_carried_for_longer_than_a_week(workshop: Workshop) -> None:
    """Carried files are read back in turn; a damaged one makes the run write everything anew."""
    start = now() - timedelta(days=30)
    first = run_by_hand(workshop, as_of=start)
    for leader in LEADERS[:2]:
        damage(workshop, first, leader, "members")
    for day in range(1, 9):
        done = run_by_hand(workshop, as_of=start + timedelta(days=day))
        if not verify_snapshot(workshop.state, workshop.store, done.snapshot_id).damaged:
            break
    assert day <= 7
    assert any(run.report.get("code") == "carry_failed" for run in history(workshop))


def test_a_file_that_vanished_makes_the_next_run_write_everything_anew(workshop: Workshop) -> None:
    first = run_by_hand(workshop)
    damage(workshop, first, LEADERS[0], "members").unlink()
    second = run_by_hand(workshop)
    assert second.state is SnapshotState.PUBLISHED
    assert second.report["files_carried"] == 0
    assert verify_snapshot(workshop.state, workshop.store, second.snapshot_id).damaged == ()


GUARDED = replace(QUICK, guard=GuardRules(drop_least_rows=1, leader_least_rows=3, leader_drop_share=0.4))


def test_the_guard_holds_back_a_drop_until_an_operator_accepts(folder: Path, workshop: Workshop) -> None:
    shop = replace(workshop, plan=GUARDED)
    good = run_by_hand(shop)
    platform = platform_of()
    platform[LEADERS[0]]["members"] = []
    write_platform(folder / "platform.json", platform)
    held = run_by_hand(shop)
    assert held.state is SnapshotState.HELD
    assert served(shop) == good
    kinds = {(found["kind"], found["resource"]) for found in held.report["findings"]}  # type: ignore[attr-defined]
    assert kinds == {("rows", "members"), ("leader_rows", "members")}
    with pytest.raises(OperatorError, match="--accept"):
        accept(shop.state, held.snapshot_id, " ", now())
    done = accept(shop.state, held.snapshot_id, "a Leader left", now())
    assert (done.state, done.accepted_reason) == (SnapshotState.PUBLISHED, "a Leader left")
    current = served(shop)
    assert current is not None
    assert current.snapshot_id == held.snapshot_id
    with pytest.raises(OperatorError, match="published"):
        accept(shop.state, held.snapshot_id, "again", now())
    trail = shop.state.read(lambda stores: stores.audit.read(action="snapshot.published"))
    assert [event.subject for event in trail] == [good.snapshot_id, held.snapshot_id]


def test_a_snapshot_of_a_clock_that_was_ahead_keeps_no_true_one_out(workshop: Workshop) -> None:
    plan = replace(QUICK, guard=replace(QUICK.guard, enabled=False))
    clock = [now() + timedelta(days=30)]
    shop = replace(workshop, plan=plan, clock=lambda: clock[0])
    ahead = run_by_hand(shop)
    assert ahead.state is SnapshotState.PUBLISHED
    clock[0] = now()
    told = shop.state.read(lambda stores: freshness(stores.snapshots, clock[0], plan.publish_at))
    assert told.late
    assert "an operator has to look" in (told.reason or "")
    true = run_by_hand(shop)
    assert (true.state, served(shop)) == (SnapshotState.HELD, ahead)
    assert "lies ahead of the clock" in str(true.report["findings"])
    assert accept(shop.state, true.snapshot_id, "the clock was wrong", clock[0]).state is SnapshotState.PUBLISHED
    clock[0] += timedelta(minutes=2)
    assert run_by_hand(shop).state is SnapshotState.PUBLISHED
    told = shop.state.read(lambda stores: freshness(stores.snapshots, clock[0], plan.publish_at))
    assert not told.late


def test_rows_that_point_at_nothing_are_held_and_what_is_discarded_goes(folder: Path, workshop: Workshop) -> None:
    source_of(workshop).faults = [ReferentialFault("members.MEMBER_ID", 3, LEADERS[0])]
    held = run_by_hand(workshop)
    assert held.state is SnapshotState.HELD
    assert folders(workshop, folder)[0] == {held.snapshot_id}, "what is held keeps its files"
    clean(workshop.state, workshop.store, QUICK, now())
    assert folders(workshop, folder)[0] == {held.snapshot_id}
    discard(workshop.state, held.snapshot_id, "the platform was broken", now())
    clean(workshop.state, workshop.store, QUICK, now())
    assert folders(workshop, folder)[0] == set()
    with pytest.raises(OperatorError):
        discard(workshop.state, held.snapshot_id, "again", now())


def test_a_short_disk_is_told_before_anything_is_written(workshop: Workshop, folder: Path) -> None:
    class Short(LocalDisk):
        def free_bytes(self) -> int | None:
            return 70 << 20

    shop = replace(workshop, store=Short(folder / "files"))
    source_of(shop).says_input_bytes = 10 << 20
    with pytest.raises(RunError, match=r"The disk of files\.url is short") as caught:
        run_by_hand(shop)
    assert caught.value.code == "disk_short"
    assert folders(shop, folder) == (set(), set())
    source_of(shop).says_input_bytes = 1 << 20
    assert run_by_hand(shop).state is SnapshotState.PUBLISHED


def test_a_run_reports_what_it_wrote_and_put_aside(workshop: Workshop, folder: Path) -> None:
    def put_aside(resource: str) -> None:
        size_bytes = 300_000 if resource == "members" else 100_000
        (folder / "spill").mkdir(exist_ok=True)
        (folder / "spill" / "rows").write_bytes(b"x" * size_bytes)

    shop = replace(workshop, scratch=Scratch(folder / "spill", folder / "files"))
    source_of(shop).on_resource = [put_aside]
    first, second = run_by_hand(shop), run_by_hand(shop)
    assert 300_000 <= _number(first.report["scratch_bytes"]) < 400_000
    assert first.report["bytes"] == second.report["bytes"]
    assert _number(first.report["bytes_written"]) > 0
    assert second.report["bytes_written"] == 0, "everything was carried over"


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def test_leftovers_that_cannot_be_removed_keep_no_run_from_being_made(workshop: Workshop, folder: Path) -> None:
    class Sticky(LocalDisk):
        def remove(self, snapshot_id: str, keep_keys: frozenset[str]) -> int:
            raise FileStoreError("Somebody else is removing it.")

    sticky = Sticky(folder / "files")
    dead_run(workshop)
    assert run_by_hand(replace(workshop, store=sticky)).state is SnapshotState.PUBLISHED
    assert run_by_hand(workshop).state is SnapshotState.PUBLISHED
    assert folders(workshop, folder)[1] == set()


class BreakingDisk(LocalDisk):
    """A disk that fails at the given file."""

    error: Exception | None = None

    def stage(self, snapshot_id: str) -> FileSink:
        sink = super().stage(snapshot_id)
        write, seen = sink.write, []

        def breaking(client_id: str, resource: str, format: str, pieces: object) -> object:
            seen.append(resource)
            if self.error is not None and len(seen) == 20:
                raise self.error
            return write(client_id, resource, format, pieces)  # type: ignore[arg-type]

        sink.write = breaking  # type: ignore[method-assign, assignment]
        return sink


def test_a_full_disk_fails_the_run_and_leaves_nothing(workshop: Workshop, folder: Path) -> None:
    store = BreakingDisk(folder / "files")
    shop = replace(workshop, store=store)
    good = run_by_hand(shop)
    store.error = StoreFull("No space left on device.")
    with pytest.raises(FileStoreError):
        run_by_hand(shop, full=True)
    assert history(shop)[0].report["code"] == "disk_short"
    assert served(shop) == good
    assert folders(shop, folder) == ({good.snapshot_id}, set())


def test_a_run_stops_at_the_next_file_when_the_process_is_to_end(workshop: Workshop, folder: Path) -> None:
    source_of(workshop).on_resource = [lambda resource: workshop.stop.set() if resource == "members" else None]
    with pytest.raises(RunError) as caught:
        run_by_hand(workshop)
    assert caught.value.code == "run_stopped"
    assert history(workshop)[0].report["code"] == "run_stopped"
    assert folders(workshop, folder) == (set(), set())


def test_a_builder_whose_run_was_taken_over_writes_and_publishes_nothing(workshop: Workshop, folder: Path) -> None:
    """The database says so at the next manifest entry, whatever the builder itself believes."""
    takeovers: list[list[Snapshot]] = []

    def take_over(resource: str) -> None:
        if resource == "members":
            later = now() + timedelta(seconds=QUICK.lease_seconds + 1)
            takeovers.append(workshop.state.write(lambda stores: stores.snapshots.lapse(later)))

    source_of(workshop).on_resource = [take_over]
    with pytest.raises(RunFenced):
        run_by_hand(workshop)
    assert [len(taken) for taken in takeovers] == [1]
    assert served(workshop) is None
    assert folders(workshop, folder) == (set(), set())


def test_leftovers_of_dead_runs_are_removed_and_files_in_use_are_not(workshop: Workshop, folder: Path) -> None:
    good = run_by_hand(workshop)
    for sealed in (False, True):
        sink = dead_run(workshop)
        if sealed:
            sink.seal()
    plan = replace(QUICK, keep=5)
    cleaned = clean(workshop.state, workshop.store, plan, now())
    assert cleaned.files == 2
    assert folders(workshop, folder) == ({good.snapshot_id}, set())


def dead_run(shop: Workshop) -> FileSink:
    """What a run wrote whose lease is over."""
    run = Snapshot(shop.new_id(), SnapshotState.BUILDING, now(), now())
    shop.state.write(lambda stores: stores.snapshots.begin_manual(run, now() - timedelta(minutes=5), 60))
    sink = shop.store.stage(run.snapshot_id)
    sink.write(LEADERS[0], "members", "csv", [b"dead"])
    return sink


def test_what_the_database_does_not_know_is_told_and_stays(workshop: Workshop, folder: Path) -> None:
    """Another instance in the same store, or a state database that was restored."""
    theirs, being_made = workshop.new_id(), workshop.new_id()
    for snapshot_id in (theirs, being_made):
        sink = workshop.store.stage(snapshot_id)
        sink.write(LEADERS[0], "members", "csv", [b"another instance's"])
        if snapshot_id == theirs:
            sink.seal()
    own = run_by_hand(workshop)
    cleaned = clean(workshop.state, workshop.store, QUICK, now())
    assert (cleaned.files, set(cleaned.unknown)) == (0, {theirs, being_made})
    assert folders(workshop, folder) == ({own.snapshot_id, theirs}, {being_made})


def test_a_run_that_is_under_way_elsewhere_keeps_its_files(workshop: Workshop, folder: Path) -> None:
    other = Snapshot(workshop.new_id(), SnapshotState.BUILDING, now(), now())
    workshop.state.write(lambda stores: stores.snapshots.begin_manual(other, now(), 60))
    workshop.store.stage(other.snapshot_id).write(LEADERS[0], "members", "csv", [b"alive"])
    done = run_by_hand(workshop)
    assert folders(workshop, folder) == ({done.snapshot_id}, {other.snapshot_id})
    clean(workshop.state, workshop.store, QUICK, now() + timedelta(seconds=61))
    assert folders(workshop, folder) == ({done.snapshot_id}, set())


def test_old_snapshots_go_when_no_link_can_reach_them(folder: Path, workshop: Workshop) -> None:
    clock = [datetime(2026, 11, 20, 4, tzinfo=UTC)]
    shop = replace(workshop, clock=lambda: clock[0], plan=replace(QUICK, keep=1))
    first = run_by_hand(shop)
    clock[0] += timedelta(hours=24)
    second = run_by_hand(shop)
    clock[0] += timedelta(minutes=24)
    clean(shop.state, shop.store, shop.plan, clock[0])
    assert folders(shop, folder)[0] == {first.snapshot_id, second.snapshot_id}

    def link_opens(snapshot: Snapshot) -> bool:
        return (
            shop.state.read(lambda stores: stores.snapshots.file(snapshot.snapshot_id, LEADERS[0], "members", "csv"))
            is not None
        )

    assert link_opens(first)
    clock[0] += timedelta(minutes=1)
    other = Snapshot(shop.new_id(), SnapshotState.BUILDING, clock[0], clock[0])
    shop.state.write(lambda stores: stores.snapshots.begin_manual(other, clock[0], 60))
    clean(shop.state, shop.store, shop.plan, clock[0])
    assert link_opens(first), "a run that is under way may be carrying its files over"
    clock[0] += timedelta(minutes=2)
    clean(shop.state, shop.store, shop.plan, clock[0])
    assert folders(shop, folder)[0] == {second.snapshot_id}
    assert not link_opens(first)
    assert verify_snapshot(shop.state, shop.store, second.snapshot_id).damaged == ()


def test_a_snapshot_that_was_overtaken_is_never_published(workshop: Workshop) -> None:
    older = Snapshot(workshop.new_id(), SnapshotState.BUILDING, now() - timedelta(hours=1), now())
    begun = workshop.state.write(lambda stores: stores.snapshots.begin_manual(older, now(), 60))
    workshop.state.write(
        lambda stores: stores.snapshots.finish(older.snapshot_id, begun.fence, SnapshotState.COMPLETE, now(), report={})
    )
    newer = run_by_hand(workshop)
    assert not publish(workshop.state, older, now())
    assert served(workshop) == newer
    assert {run.snapshot_id: run.state for run in history(workshop)}[older.snapshot_id] is SnapshotState.DISCARDED


def test_a_run_tells_how_far_it_is_and_when_it_expects_to_end(folder: Path, workshop: Workshop) -> None:
    told: list[Mapping[str, object]] = []
    ticks = [0.0]

    def tick() -> float:
        ticks[0] += 1.0
        return ticks[0]

    shop = replace(workshop, watch=lambda progress: told.append(dict(progress)), ticks=tick)
    run_by_hand(shop, full=True)
    assert {"share", "seconds_left"}.isdisjoint(told[-1]), "without an earlier run nobody knows"
    told.clear()
    run_by_hand(shop, full=True)
    members = next(entry for entry in told if entry["resource"] == "members")
    assert members["resource_number"] == RESOURCE_NAMES.index("members") + 1
    shares = [share for entry in told if isinstance(share := entry.get("share"), float)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.5
    assert any("expected_end" in entry for entry in told)
    assert [entry["rows"] for entry in told][-1] == 64
    assert history(shop)[0].progress is not None


def test_two_workshops_share_one_folder(folder: Path, workshop: Workshop) -> None:
    other = workshop_in(folder, builder="other")
    try:
        first = run_by_hand(workshop)
        second = run_by_hand(other)
    finally:
        other.state.close()
    assert [run.builder for run in history(workshop)] == ["other", "test"]
    assert [run.state for run in history(workshop)] == ["published", "retired"]
    assert {first.snapshot_id, second.snapshot_id} == folders(workshop, folder)[0]
