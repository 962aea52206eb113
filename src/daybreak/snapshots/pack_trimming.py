"""Removes the bytes of files that are no longer in use from the packs that contain them."""

from collections.abc import Collection
from functools import partial

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.filestore.file_keys import folder_of
from daybreak.filestore.file_store import FileStore
from daybreak.filestore.packs import UsedObjects, pack_folder
from daybreak.state.stores import State, Stores


def trim_packs(state: State, store: FileStore, packs: Collection[str]) -> None:
    """Replace the bytes in these packs that belong to no file of a kept snapshot or delta by zeros. A run in progress
    may reuse files of kept snapshots only.

    Two processes may trim the same pack of a bucket, and the later upload may contain bytes that the other one removed.
    The uses are therefore read again after each upload. Raises FileStoreError, Unavailable.
    """
    remaining = list(packs)
    while remaining:
        used = state.read(partial(_objects_in_use, remaining))
        remaining = [pack for pack in remaining if store.trim(pack, used.slices(pack))]


def trim_used_packs(state: State, store: FileStore, used: UsedObjects) -> None:
    """Trim the packs of `used`, which has all files in use in them, as the caller has read."""
    trim_packs(state, store, [pack for pack in used.packs if store.trim(pack, used.slices(pack))])


def complete_snapshots(stores: Stores) -> list[Snapshot]:
    """Return the snapshots with complete files, the published one first."""
    complete = [run for run in stores.snapshots.unpublished() if run.state is not SnapshotState.BUILDING]
    return [*stores.snapshots.served(), *complete]


def _objects_in_use(packs: Collection[str], stores: Stores) -> UsedObjects:
    folders = tuple({f"{pack.rpartition('/')[0]}/" for pack in packs})
    used = UsedObjects()
    for each in complete_snapshots(stores):
        used.add(stores.snapshots.keys_in_use(each.snapshot_id, folders))
    for snapshot_id in stores.deltas.needed():
        if pack_folder(folder_of("deltas", snapshot_id)) in folders:
            deltas = stores.deltas.of_snapshot(snapshot_id)
            used.add(stored.key for each in deltas for stored in each.delta.formats.values())
    return used
