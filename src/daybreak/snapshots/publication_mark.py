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
from daybreak.state.stores import State

_log = structlog.get_logger("daybreak.snapshots")


def mark_publication(state: State, store: FileStore, snapshot: Snapshot) -> None:
    """Mark a snapshot that is about to be published. If the state database was restored from a backup, the publication
    begins a new chain, with a version greater than all earlier ones.

    A failure of the file store does not stop the publication. Raises Unavailable when the database does not respond.
    """
    first_id, last_version = state.read(
        lambda stores: (stores.deltas.first_publication(), stores.deltas.last_version())
    )
    if first_id is not None:
        lost_version = _lost_version(state, store, first_id, last_version, snapshot)
        if lost_version is not None:
            last_version = max(last_version, lost_version)
            _log.warning("state.restored", version=last_version, snapshot_id=snapshot.snapshot_id)
            state.write(lambda stores: stores.deltas.restart_chain(snapshot.snapshot_id, STATE_RESTORED, last_version))
    try:
        store.mark_publication(
            first_id or snapshot.snapshot_id, PublicationMark(last_version + 1, snapshot.snapshot_id)
        )
    except (FileStoreError, Unavailable) as error:
        _log.warning("publication.not_marked", code=error.code, reason=error.message)


def _lost_version(state: State, store: FileStore, first_id: str, last_version: int, snapshot: Snapshot) -> int | None:
    """Return the version of the latest publication if the state database does not know it, because it was restored from
    an older backup. Return the last known version if the mark cannot be read.
    """
    try:
        mark = store.publication_mark(first_id)
    except (FileStoreError, Unavailable) as error:
        _log.warning("publication.mark_not_read", code=error.code, reason=error.message)
        return last_version
    # The last one is the mark of an interrupted publication of this snapshot.
    if mark is None or mark == PublicationMark(last_version + 1, snapshot.snapshot_id):
        return None
    is_known = state.read(lambda stores: stores.snapshots.get(mark.snapshot_id)) is not None
    return None if is_known and mark.version <= last_version else mark.version
