"""Marks in the file store, which reveal that the state database was restored from a backup.

Consumers may have versions that such a database does not know. No version is used twice, and all of them load the full
files once.
"""

from __future__ import annotations

import structlog

from daybreak.domain.delta import STATE_RESTORED
from daybreak.domain.errors import FileStoreError, Unavailable
from daybreak.domain.snapshot import Snapshot
from daybreak.filestore.file_store import FileStore, PublicationMark
from daybreak.state.stores import State, Stores

# The snapshot of a mark whose state database does not know the latest publication: no snapshot has this id.
_RESTORED = "restored"
_log = structlog.get_logger("daybreak.snapshots")


def mark_publication(state: State, store: FileStore, snapshot: Snapshot) -> None:
    """Mark a snapshot that is about to be published. Call `confirm_publication` after the transaction. If the state
    database was restored from a backup, the publication begins a new chain, with a version greater than all earlier
    ones.

    A failure of the file store does not stop the publication. Raises Unavailable when the database does not respond.
    """
    first_id, last_version, current = state.read(_last_publication)
    current_id = "" if current is None else current.snapshot_id
    if first_id is not None:
        lost_version = _lost_version(state, store, first_id, last_version)
        if lost_version is not None:
            last_version = max(last_version, lost_version)
            _log.warning("state.restored", version=last_version, snapshot_id=snapshot.snapshot_id)
            state.write(lambda stores: stores.deltas.restart_chain(snapshot.snapshot_id, STATE_RESTORED, last_version))
            current_id = _RESTORED
    _write(store, first_id or snapshot.snapshot_id, PublicationMark(last_version, current_id, snapshot.snapshot_id))


def confirm_publication(state: State, store: FileStore) -> None:
    """Mark the published snapshot, after the transaction that published it. Raises Unavailable when the database does
    not respond.
    """
    first_id, last_version, current = state.read(_last_publication)
    if first_id is not None and current is not None:
        _write(store, first_id, PublicationMark(last_version, current.snapshot_id))


def _last_publication(stores: Stores) -> tuple[str | None, int, Snapshot | None]:
    return stores.deltas.first_publication(), stores.deltas.last_version(), stores.snapshots.current()


def _write(store: FileStore, first_id: str, mark: PublicationMark) -> None:
    try:
        store.mark_publication(first_id, mark)
    except (FileStoreError, Unavailable) as error:
        _log.warning("publication.not_marked", code=error.code, reason=error.message)


def _lost_version(state: State, store: FileStore, first_id: str, last_version: int) -> int | None:
    """Return the version of the latest publication if the state database does not know it, because it was restored from
    an older backup. Return the last known version if the mark cannot be read.
    """
    try:
        mark = store.publication_mark(first_id)
    except (FileStoreError, Unavailable) as error:
        _log.warning("publication.mark_not_read", code=error.code, reason=error.message)
        return last_version
    if mark is None:
        return None

    def is_known(snapshot_id: str | None) -> bool:
        return snapshot_id is None or state.read(lambda stores: stores.snapshots.get(snapshot_id)) is not None

    if mark.version > last_version or not is_known(mark.snapshot_id or None):
        return mark.version
    # A builder was killed during this publication. The database knows whether it was completed, unless it does not even
    # know the run.
    return None if is_known(mark.intended_id) else mark.version + 1
