"""Marks in the file store, which reveal that the state database was restored from a backup.

Consumers may have versions that such a database does not know. No version is used twice, and all of them load the full
files once.
"""

from __future__ import annotations

import structlog

from daybreak.domain.errors import FileStoreError, Unavailable
from daybreak.domain.snapshot import Snapshot
from daybreak.ports.files import FileStore, PublicationMark
from daybreak.ports.state import State, Stores

_log = structlog.get_logger("daybreak.snapshots")


def mark_publication(state: State, store: FileStore, snapshot: Snapshot) -> None:
    """Mark a snapshot that is about to be published. A failure does not stop the publication. Raises Unavailable when
    the database does not respond.
    """
    first_id, last_version = state.read(_first_and_last)
    try:
        store.mark_publication(
            first_id or snapshot.snapshot_id, PublicationMark(last_version + 1, snapshot.snapshot_id)
        )
    except (FileStoreError, Unavailable) as error:
        _log.warning("publication.not_marked", code=error.code, reason=error.message)


def restored_from(state: State, store: FileStore) -> PublicationMark | None:
    """Return the mark of a publication that the state database does not know, because it was restored from an older
    backup. Raises FileStoreError, Unavailable.
    """
    first_id, last_version = state.read(_first_and_last)
    mark = None if first_id is None else store.publication_mark(first_id)
    if mark is None:
        return None
    snapshot_id = mark.snapshot_id
    is_known = state.read(lambda stores: stores.snapshots.get(snapshot_id)) is not None
    return None if is_known and mark.version <= last_version else mark


def _first_and_last(stores: Stores) -> tuple[str | None, int]:
    return stores.deltas.first_publication(), stores.deltas.last_version()
