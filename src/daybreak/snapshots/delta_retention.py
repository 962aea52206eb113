"""Retention of deltas: deletes expired ones, and those of ended chains and dead runs.

The rows of a snapshot's deltas are deleted from the database first, and the files afterwards, as for full files.
"""

from collections.abc import Sequence
from datetime import datetime

from daybreak.domain.snapshot import Snapshot
from daybreak.filestore.file_store import FileStore
from daybreak.settings import SnapshotSettings
from daybreak.state.stores import State, Stores, delete_in_batches


def expired_deltas(
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


def clean_deltas(state: State, store: FileStore, settings: SnapshotSettings, now: datetime) -> int:
    """Delete deltas that are no longer needed. Return the number of files. Raises FileStoreError, Unavailable."""
    # The store is listed first, so that a run that starts in between is in the database when it is read.
    in_store = store.delta_ids()

    def read(stores: Stores) -> tuple[list[str], set[str]]:
        with_deltas = stores.deltas.published_with_deltas()
        expired = expired_deltas(with_deltas, stores.snapshots.served(), settings, now)
        return [*expired, *stores.deltas.abandoned()], stores.deltas.needed()

    ended, needed = state.read(read)
    for snapshot_id in ended:
        _forget(state, snapshot_id)
    known = state.read(lambda stores: stores.snapshots.known(in_store))
    removed = [each for each in in_store if each in known and (each in ended or each not in needed)]
    return sum(store.remove_deltas(snapshot_id) for snapshot_id in removed)


def _forget(state: State, snapshot_id: str) -> None:
    delete_in_batches(state, lambda stores, at_most: stores.deltas.forget(snapshot_id, at_most=at_most))
