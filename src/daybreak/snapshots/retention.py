"""Retention: deletes the files of old snapshots, expired deltas, and what dead runs left.

Links are issued to all kept snapshots, and are valid for `access.link_lifetime`. A snapshot that stops being one of the
`snapshot.keep` newest is therefore kept for as long. The manifest of a snapshot is deleted from the database first, and
its files afterwards, outside any transaction. If a clean-up is killed in between, the next one deletes the files. The
same is true for deltas.

A run is recorded in the database before it writes a file, and its record is permanent. Files of a snapshot that is not
in the database therefore belong to another instance in the same store, or were written after the backup that was
restored. They are reported and never deleted.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import OperatorError
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.filestore.file_store import FileStore
from daybreak.filestore.packs import UsedObjects
from daybreak.settings import Settings, SnapshotSettings
from daybreak.snapshots.pack_trimming import trim_used_packs
from daybreak.snapshots.publish import discard_superseded
from daybreak.state.stores import State, Stores, delete_in_batches

_log = structlog.get_logger("daybreak.snapshots")
# A request just before the link expires must still find the file.
LINK_MARGIN = timedelta(minutes=10)
_ONLY_KEPT = "Only a retired snapshot with files can be forgotten. See `daybreakd snapshot list`."
_INSTEAD = {
    "published": "Its files are in use. To write lost ones again, run `daybreakd snapshot run`.",
    "complete": "Use `daybreakd snapshot discard`.",
    "held": "Use `daybreakd snapshot discard`.",
}


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Result of a clean-up: retired snapshots and leftovers of dead runs whose files were deleted, the number of files,
    and the snapshots in the store that the state database does not know.
    """

    retired: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    files: int = 0
    unknown: tuple[str, ...] = ()


def expired_snapshots(snapshots: Sequence[Snapshot], settings: Settings, now: datetime) -> list[Snapshot]:
    """Return the snapshots whose files may be deleted. `snapshots` are those with files, newest publication first."""
    link_lifetime = settings.access.link_lifetime + LINK_MARGIN
    # Each one with the publication that made it older than the `keep` newest.
    return [
        snapshot
        for snapshot, follower in zip(snapshots[max(settings.snapshot.keep, 1) :], snapshots, strict=False)
        if snapshot.state is SnapshotState.RETIRED
        and follower.published_at is not None
        and now >= follower.published_at + link_lifetime
    ]


def unknown_snapshots(stores: Stores, in_store: Sequence[str]) -> tuple[str, ...]:
    """Return the snapshots of the store that the database does not know. List the store before the transaction."""
    return tuple(sorted(set(in_store).difference(stores.snapshots.known(in_store))))


def clean(state: State, store: FileStore, settings: Settings, now: datetime, *, own: str | None = None) -> Cleaned:
    """Delete the files of expired snapshots and of dead runs. `own` is the caller's run.

    While another run is in progress, no files of expired snapshots are deleted, because that run may reuse them. Raises
    FileStoreError, Unavailable.
    """
    state.write(lambda stores: discard_superseded(stores, now))
    end_lapsed_runs(state, now)
    # The store is listed first, so that a run that starts in between is in the database when it is read.
    in_store, with_deltas = store.ids("snapshots"), store.ids("deltas")
    with_files, unpublished, abandoned, unknown = state.read(
        lambda stores: (
            stores.snapshots.served(),
            stores.snapshots.unpublished(),
            stores.snapshots.abandoned(),
            unknown_snapshots(stores, [*in_store, *with_deltas]),
        )
    )
    others_building = any(run.is_running(now) and run.snapshot_id != own for run in unpublished)
    expired = [] if others_building else expired_snapshots(with_files, settings, now)
    expired_ids = {snapshot.snapshot_id for snapshot in expired}
    kept_ids = {own, *(each.snapshot_id for each in (*with_files, *unpublished))}
    leftovers = [found for found in in_store if found not in kept_ids.union(unknown)]
    for snapshot in [*expired, *abandoned]:
        _delete_manifest(state, snapshot.snapshot_id)
    # After the manifests: the deltas after the oldest snapshot with files are kept.
    delta_files = _clean_deltas(state, store, with_deltas, settings.snapshot, now)
    if not expired and not leftovers:
        return Cleaned(files=delta_files, unknown=unknown)
    deleted = sorted({*expired_ids, *leftovers})
    reused = state.read(lambda stores: _reused_objects(stores, deleted))
    files = sum(store.remove("snapshots", snapshot_id, reused.keys) for snapshot_id in deleted)
    if expired or abandoned:
        trim_used_packs(state, store, reused)
    return Cleaned(tuple(sorted(expired_ids)), tuple(leftovers), files + delta_files, unknown)


def _expired_deltas(
    with_deltas: Sequence[Snapshot], with_files: Sequence[Snapshot], settings: SnapshotSettings, now: datetime
) -> list[str]:
    """Return the snapshots whose deltas have expired: older than `snapshot.keep_deltas`, and not needed to bring the
    oldest full files that are served up to date.
    """
    oldest_version = min((snapshot.version for snapshot in with_files if snapshot.version is not None), default=0)
    return [
        snapshot.snapshot_id
        for snapshot in with_deltas
        if snapshot.published_at is not None
        and snapshot.version is not None
        and snapshot.published_at < now - settings.keep_deltas
        and snapshot.version <= oldest_version
    ]


def _clean_deltas(
    state: State, store: FileStore, in_store: Sequence[str], settings: SnapshotSettings, now: datetime
) -> int:
    """Delete deltas that are no longer needed. Return the number of files. Raises FileStoreError, Unavailable."""

    def read(stores: Stores) -> tuple[list[str], set[str]]:
        with_deltas = stores.deltas.published_with_deltas()
        expired = _expired_deltas(with_deltas, stores.snapshots.served(), settings, now)
        return [*expired, *stores.deltas.abandoned()], stores.deltas.needed()

    ended, needed = state.read(read)
    for snapshot_id in ended:
        withdraw_deltas(state, snapshot_id)
    known = state.read(lambda stores: stores.snapshots.known(in_store))
    removed = [each for each in in_store if each in known and (each in ended or each not in needed)]
    return sum(store.remove("deltas", snapshot_id) for snapshot_id in removed)


def end_lapsed_runs(state: State, now: datetime) -> None:
    """Record that runs whose lease has lapsed have failed, before their files are deleted: their builder may be alive,
    on a node whose clock is behind, and then knows why it must stop.
    """
    for run in state.write(lambda stores: stores.snapshots.lapse(now)):
        _log.warning("run.lapsed", snapshot_id=run.snapshot_id, builder=run.builder)


def forget(state: State, store: FileStore, snapshot_id: str, reason: str, now: datetime) -> int:
    """Delete the files of a kept snapshot before its time, at the decision of an operator. Return their number. Its
    deltas stay. Files may already be lost.

    Raises OperatorError for the published snapshot, one that has no files or may still be published, and during a run,
    which may reuse the files. Raises FileStoreError, Unavailable; the next clean-up then deletes the files.
    """

    def decide(stores: Stores) -> None:
        found = stores.snapshots.get(snapshot_id)
        if found is None or found.state is not SnapshotState.RETIRED:
            state_text = "not known" if found is None else found.state
            raise OperatorError(f"Snapshot {snapshot_id} is {state_text}. {_INSTEAD.get(state_text, _ONLY_KEPT)}")
        if snapshot_id not in {each.snapshot_id for each in stores.snapshots.served()}:
            raise OperatorError(f"Snapshot {snapshot_id} has no files any more. {_ONLY_KEPT}")
        if any(run.is_running(now) for run in stores.snapshots.unpublished()):
            raise OperatorError("A run is in progress, and may reuse these files. Try again when it has ended.")
        details = {"reason": reason}
        stores.audit.append(
            AuditEvent(now, "snapshot.forgotten", "ok", "operator", None, None, snapshot_id, details=details)
        )

    state.write(decide)
    _delete_manifest(state, snapshot_id)
    state.write(lambda stores: stores.file_faults.delete_of_deleted_snapshots())
    reused = state.read(lambda stores: _reused_objects(stores, [snapshot_id]))
    removed = store.remove("snapshots", snapshot_id, reused.keys)
    trim_used_packs(state, store, reused)
    return removed


def _delete_manifest(state: State, snapshot_id: str) -> None:
    """Delete a snapshot's manifest. After the first transaction the snapshot's files are no longer served."""
    delete_in_batches(state, lambda stores, at_most: stores.snapshots.forget(snapshot_id, at_most=at_most))


def withdraw_deltas(state: State, snapshot_id: str) -> None:
    """Delete the deltas of a snapshot from the database: consumers of earlier versions then load full files. The next
    clean-up deletes the files.
    """
    delete_in_batches(state, lambda stores, at_most: stores.deltas.forget(snapshot_id, at_most=at_most))


def with_all_reused_keys(stores: Stores, kept: Collection[Snapshot]) -> list[str]:
    """Return kept snapshots whose manifests together have every key that a kept one has from a deleted one: usually the
    oldest alone.

    A run reuses files of one snapshot, which was published when the run began. A kept one of these has the same keys,
    unless erasures replaced files in it.
    """
    erased_ids = {files.snapshot_id for erasure in stores.erasures.list_all() for files in erasure.replaced}
    complete_ids = {snapshot.snapshot_id for snapshot in kept} - erased_ids
    return sorted(snapshot.snapshot_id for snapshot in kept if snapshot.report.carried_from not in complete_ids)


def _reused_objects(stores: Stores, deleted: Sequence[str]) -> UsedObjects:
    """Return the objects in the folders of deleted snapshots with files that kept snapshots reuse."""
    reused = UsedObjects()
    folders = tuple(f"snapshots/{snapshot_id}/" for snapshot_id in deleted)
    # Another clean-up may have deleted manifests since the kept snapshots were read.
    kept = [*stores.snapshots.served(), *stores.snapshots.unpublished()]
    for snapshot_id in with_all_reused_keys(stores, kept):
        reused.add(stores.snapshots.keys_in_use(snapshot_id, folders))
    return reused
