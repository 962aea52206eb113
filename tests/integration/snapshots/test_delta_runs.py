"""Chains of deltas through runs: held runs, settings, restored databases, retention, killed publications."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from daybreak.domain.delta import Chain
from daybreak.domain.run_report import ReferentialFault, RunDeltaFigures
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.filestore.file_store import PublicationMark
from daybreak.snapshots import deltas as run_deltas
from daybreak.snapshots.publish import accept, discard, mark_publication
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.state.database import open_state
from daybreak.state.stores import Stores
from tests.configured import configured
from tests.small_platform import context_in, leader_ids, open_context, platform_of, source_of, state_url, write_platform

LEADER = leader_ids(3)[0]
START = datetime(2026, 11, 1, 4, tzinfo=UTC)


@pytest.fixture
def clock() -> list[datetime]:
    """The time of all runs, which tests move."""
    return [START]


@pytest.fixture
def context(folder: Path, clock: list[datetime]) -> Iterator[RunContext]:
    with open_context(folder, clock=lambda: clock[0]) as found:
        yield found


def reopened(folder: Path, clock: list[datetime]) -> RunContext:
    """Open the state database of the folder as it is now."""
    return context_in(folder, state=open_state(state_url(folder)), clock=lambda: clock[0])


def run(context: RunContext, clock: list[datetime], mark: str, *, days: float = 1) -> Snapshot:
    """Publish changed members of the first Leader, a day later."""
    clock[0] += timedelta(days=days)
    platform = platform_of()
    platform[LEADER]["members"] = [mark]
    write_platform(source_of(context).path, platform)
    return run_manually(context)


def held_run(context: RunContext, clock: list[datetime], mark: str, *, days: float = 1) -> Snapshot:
    """Make such a run that is held."""
    source_of(context).faults.append(ReferentialFault("members", 3, "x"))
    held = run(context, clock, mark, days=days)
    source_of(context).faults.clear()
    assert held.state is SnapshotState.HELD
    return held


def chain_of(context: RunContext) -> Chain:
    found = context.state.read(lambda stores: stores.deltas.chain(LEADER))
    assert found is not None
    return found


def copy_database(source: Path, target: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path = Path(f"{target}{suffix}")
        path.unlink(missing_ok=True)
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", path)


def versions(context: RunContext) -> tuple[int, int, list[int]]:
    """Return the oldest version, the current one, and those of the entries."""
    chain = chain_of(context)
    return chain.oldest_version, chain.current.version, [entry.publication.version for entry in chain.entries]


def test_changed_file_without_a_delta_needs_the_full_file(context: RunContext, clock: list[datetime]) -> None:
    """The source of these tests makes no deltas. Such a change must never appear as unchanged."""
    run(context, clock, "a")
    run(context, clock, "b")
    (entry,) = chain_of(context).entries
    assert {name: delta.reason for name, delta in entry.resources.items()} == {"members": "not_made"}


def test_held_run_that_is_superseded_starts_no_wrong_chain(context: RunContext, clock: list[datetime]) -> None:
    run(context, clock, "a")
    held = held_run(context, clock, "b")
    accepted = accept(context.state, context.store, context.settings, held.snapshot_id, "valid", clock[0])
    assert accepted.version == 2
    assert versions(context) == (1, 2, [2])
    # A second run is held, and another snapshot is published before it is accepted.
    late = held_run(context, clock, "b", days=1 / 24)
    assert run_manually(replace(context, clock=lambda: late.as_of)).version == 3
    accept(context.state, context.store, context.settings, late.snapshot_id, "valid", clock[0])
    assert versions(context) == (4, 4, [])
    assert chain_of(context).started_by == "other_publication"


@pytest.mark.release
def test_disabled_deltas_end_the_chain(context: RunContext, clock: list[datetime]) -> None:
    run(context, clock, "a")
    run(context, clock, "b")
    off = replace(context, settings=configured(context.settings, snapshot={"deltas": False}))
    done = run(off, clock, "c")
    assert done.report.deltas == RunDeltaFigures(None, "deltas_disabled")
    assert versions(context) == (3, 3, [])
    run(context, clock, "d")
    assert versions(context) == (3, 4, [4])


def test_changed_columns_end_the_chain(
    context: RunContext, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(context, clock, "a")
    monkeypatch.setattr(run_deltas, "columns_digest", lambda: "other columns")
    run(context, clock, "b")
    assert versions(context) == (2, 2, [])
    assert chain_of(context).started_by == "columns_changed"


def test_full_run_continues_the_chain(context: RunContext, clock: list[datetime]) -> None:
    run(context, clock, "a")
    clock[0] += timedelta(hours=1)
    run_manually(context, full=True)
    assert versions(context) == (1, 2, [2])
    assert chain_of(context).entries[0].resources == {}


def test_new_leader_begins_its_own_chain(context: RunContext, clock: list[datetime], folder: Path) -> None:
    run(context, clock, "a")
    platform = platform_of(leaders=4)
    platform[LEADER]["members"] = ["a"]
    write_platform(folder / "platform.json", platform)
    clock[0] += timedelta(days=1)
    run_manually(context)
    new = next(iter(set(leader_ids(4)) - set(leader_ids(3))))
    found = context.state.read(lambda stores: stores.deltas.chain(new))
    assert found is not None
    assert (found.oldest_version, found.entries) == (2, ())
    assert versions(context) == (1, 2, [2])


def test_emptied_and_filled_resources_need_the_full_file(
    context: RunContext, clock: list[datetime], folder: Path
) -> None:
    first = platform_of()
    write_platform(folder / "platform.json", first)
    run_manually(context)
    second = platform_of()
    second[LEADER]["members"] = []
    last = leader_ids(3)[-1]
    second[last]["campaigns"] = ["one", "two"]
    write_platform(folder / "platform.json", second)
    clock[0] += timedelta(days=1)
    run_manually(context)
    emptied = chain_of(context).entries[0].resources["members"]
    assert (emptied.rows_before, emptied.rows_after, emptied.deleted) == (4, 0, 4)
    chain = context.state.read(lambda stores: stores.deltas.chain(last))
    assert chain is not None
    filled = chain.entries[0].resources["campaigns"]
    assert (filled.rows_before, filled.rows_after, filled.inserted) == (0, 2, 2)
    assert emptied.reason == filled.reason == "larger_than_full"


def test_restored_database_ends_the_chain_and_repeats_no_version(
    folder: Path, clock: list[datetime], tmp_path: Path
) -> None:
    with closing(reopened(folder, clock).state):
        context = reopened(folder, clock)
        for mark in "ab":
            run(context, clock, mark)
        context.state.close()
    copy_database(folder / "state.db", tmp_path / "backup.db")
    context = reopened(folder, clock)
    lost = [run(context, clock, mark).snapshot_id for mark in "cd"]
    assert versions(context) == (1, 4, [2, 3, 4])
    old_chain = chain_of(context).chain_id
    context.state.close()
    copy_database(tmp_path / "backup.db", folder / "state.db")
    context = reopened(folder, clock)
    assert versions(context) == (1, 2, [2])
    run(context, clock, "e")
    assert versions(context) == (5, 5, [])
    assert chain_of(context).started_by == "state_restored"
    assert chain_of(context).chain_id not in {old_chain, *lost}
    run(context, clock, "f")
    assert versions(context) == (5, 6, [6])
    context.state.close()


@pytest.mark.release
@pytest.mark.parametrize("was_published", [False, True])
def test_held_snapshot_of_a_restored_database_begins_a_new_chain(
    was_published: bool, folder: Path, clock: list[datetime], tmp_path: Path
) -> None:
    """Consumers have versions that were published after the backup. None of them is used again."""
    context = reopened(folder, clock)
    for mark in "ab":
        run(context, clock, mark)
    held = held_run(context, clock, "held")
    context.state.close()
    copy_database(folder / "state.db", tmp_path / "backup.db")
    context = reopened(folder, clock)
    if was_published:
        accept(context.state, context.store, context.settings, held.snapshot_id, "valid", clock[0])
    run(context, clock, "c")
    lost = versions(context)[1]
    context.state.close()
    copy_database(tmp_path / "backup.db", folder / "state.db")
    with closing(reopened(folder, clock).state):
        context = reopened(folder, clock)
        accepted = accept(context.state, context.store, context.settings, held.snapshot_id, "valid", clock[0])
        assert accepted.version == lost + 1
        assert versions(context) == (lost + 1, lost + 1, [])
        assert chain_of(context).started_by == "state_restored"
        run(context, clock, "d")
        assert versions(context) == (lost + 1, lost + 2, [lost + 2])
        context.state.close()


def test_interrupted_publication_continues_the_chain(context: RunContext, clock: list[datetime]) -> None:
    """The mark of a publication that was killed is not that of a lost one."""
    run(context, clock, "a")
    held = held_run(context, clock, "b")
    mark_publication(context.state, context.store, held)
    assert accept(context.state, context.store, context.settings, held.snapshot_id, "valid", clock[0]).version == 2
    assert versions(context) == (1, 2, [2])


def test_run_that_was_killed_after_the_mark_does_not_end_the_chain(context: RunContext, clock: list[datetime]) -> None:
    """The next run has another snapshot, which continues the chain."""
    run(context, clock, "a")
    killed = held_run(context, clock, "b")
    mark_publication(context.state, context.store, killed)
    discard(context.state, killed.snapshot_id, "killed", clock[0])
    assert run(context, clock, "c").version == 2
    assert versions(context) == (1, 2, [2])


def test_builder_that_was_killed_before_the_confirmation_continues_the_chain(
    context: RunContext, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(context, clock, "a")
    with monkeypatch.context() as patch:
        patch.setattr("daybreak.snapshots.publish.confirm_publication", lambda *_: None)
        run(context, clock, "b")
    run(context, clock, "c")
    assert versions(context) == (1, 3, [2, 3])


def test_paused_builder_does_not_replace_the_mark_of_a_later_publication(
    context: RunContext, clock: list[datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The builder is paused after its publication, before it writes the mark that confirms it."""
    run(context, clock, "a")
    write_mark = context.store.mark_publication
    marks: list[PublicationMark] = []

    def pause(first_id: str, mark: PublicationMark) -> None:
        marks.append(mark)
        if len(marks) == 2:
            assert run(context, clock, "c").version == 3
        write_mark(first_id, mark)

    monkeypatch.setattr(context.store, "mark_publication", pause)
    first = run(context, clock, "b")
    assert first.version == 2
    first_id = context.state.read(lambda stores: stores.deltas.first_publication())
    assert first_id is not None
    found = context.store.publication_mark(first_id)
    assert found is not None
    assert found.version == 3


def test_unreadable_mark_begins_a_new_chain(context: RunContext, clock: list[datetime], folder: Path) -> None:
    run(context, clock, "a")
    (mark,) = (folder / "files" / "publications").iterdir()
    mark.unlink()
    mark.mkdir()
    run(context, clock, "b")
    assert versions(context) == (2, 2, [])
    assert chain_of(context).started_by == "state_restored"


def test_returned_leader_has_only_the_deltas_after_its_return(
    context: RunContext, clock: list[datetime], folder: Path
) -> None:
    def publish(mark: str, *, with_leader: bool = True) -> None:
        clock[0] += timedelta(days=1)
        platform = platform_of()
        platform[LEADER]["members"] = [mark]
        if not with_leader:
            del platform[LEADER]
        write_platform(folder / "platform.json", platform)
        run_manually(context)

    publish("a")
    publish("b")
    publish("c", with_leader=False)
    assert context.state.read(lambda stores: stores.deltas.chain(LEADER)) is None
    publish("d")
    publish("e")
    assert versions(context) == (4, 5, [5])
    assert chain_of(context).started_by == "account_added"


@pytest.mark.release
def test_deltas_are_kept_longer_than_their_snapshot(context: RunContext, clock: list[datetime]) -> None:
    settings = configured(context.settings, snapshot={"keep": 2, "keep_deltas": timedelta(days=5)})
    context = replace(context, settings=settings)
    for mark in "abcdefgh":
        run(context, clock, mark)
    clean(context.state, context.store, settings, clock[0] + timedelta(hours=1))
    assert len(context.state.read(lambda stores: stores.snapshots.served())) == 2
    assert versions(context) == (3, 8, [4, 5, 6, 7, 8]), "five days, and the current one"


@pytest.mark.release
def test_deltas_reach_back_to_the_oldest_full_snapshot(context: RunContext, clock: list[datetime]) -> None:
    settings = configured(context.settings, snapshot={"keep": 6, "keep_deltas": timedelta(days=2)})
    context = replace(context, settings=settings)
    for mark in "abcdefgh":
        run(context, clock, mark)
    clean(context.state, context.store, settings, clock[0] + timedelta(hours=1))
    served = context.state.read(lambda stores: stores.snapshots.served())
    assert versions(context)[0] == min(each.version or 0 for each in served) == 3


def test_failed_publication_changes_neither_files_nor_chain(context: RunContext, clock: list[datetime]) -> None:
    run(context, clock, "a")
    before = context.state.read(lambda stores: (stores.snapshots.current(), stores.deltas.chain(LEADER)))

    class Interrupted(Exception):
        """The process ends before the transaction is committed."""

    real_write = context.state.write

    def interrupted_write(work: object) -> object:
        def run_and_end(stores: Stores) -> object:
            result = work(stores)  # type: ignore[operator]
            current = stores.snapshots.current()
            if current is not None and current.version == 2:
                raise Interrupted
            return result

        return real_write(run_and_end)

    context.state.write = interrupted_write  # type: ignore[method-assign,assignment]
    with pytest.raises(Interrupted):
        run(context, clock, "b")
    after = context.state.read(lambda stores: (stores.snapshots.current(), stores.deltas.chain(LEADER)))
    assert after == before
