"""Finds stored files that are lost or have another size, without reading them.

A run compares the manifests of all kept snapshots with the file store, and writes the lost files of unchanged Leaders
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import structlog

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.snapshot import Snapshot
from daybreak.filestore.file_store import FileStore
from daybreak.snapshots.verify import ManifestFile, delta_files, manifest_files, statement_files
from daybreak.state.stores import State

_log = structlog.get_logger("daybreak.snapshots")


def find_lost_files(state: State, store: FileStore, now: datetime, check: Callable[[], None]) -> dict[str, set[str]]:
    """Record the lost files of every kept snapshot. Return the Leaders whose files of the published snapshot are lost,
    by resource. `check` is called often, and raises an error to stop.

    Raises FileStoreError, Unavailable.
    """
    is_stored = store.presence()
    lost_leaders: dict[str, set[str]] = {}
    for position, snapshot in enumerate(state.read(lambda stores: stores.snapshots.served())):
        lost = 0
        for file in _files_of(state, snapshot):
            check()
            if is_stored(file.stored.key, file.stored.bytes):
                continue
            lost += 1
            if position == 0:
                lost_leaders.setdefault(file.resource, set()).add(file.client_id)
        if lost:
            _log.error("files.lost", snapshot_id=snapshot.snapshot_id, version=snapshot.version, files=lost)
        _record(state, snapshot.snapshot_id, lost, now)
    state.write(lambda stores: stores.file_faults.delete_of_deleted_snapshots())
    return lost_leaders


def _files_of(state: State, snapshot: Snapshot) -> Iterator[ManifestFile]:
    for resource in RESOURCE_NAMES:
        yield from manifest_files(state, snapshot.snapshot_id, resource)
        yield from delta_files(state, snapshot.snapshot_id, resource)
    yield from statement_files(state, snapshot.snapshot_id)


def _record(state: State, snapshot_id: str, lost: int, now: datetime) -> None:
    state.write(lambda stores: stores.file_faults.record(snapshot_id, lost, now, by_reading=False))
