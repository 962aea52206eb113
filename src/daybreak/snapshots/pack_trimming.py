"""Removes the bytes of files that are no longer in use from the packs that contain them."""

from collections.abc import Collection, Iterable
from functools import partial

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.filestore.file_keys import delta_folder
from daybreak.filestore.file_store import FileStore
from daybreak.filestore.packs import by_pack, pack_folder
from daybreak.state.stores import State, Stores


def trim_packs(state: State, store: FileStore, packs: Collection[str]) -> None:
    """Replace the bytes in these packs that belong to no file of a kept snapshot or delta by zeros. A run in progress
    may reuse files of kept snapshots only.

    Two processes may trim the same pack of a bucket, and the later upload may contain bytes that the other one removed.
    The uses are therefore read again after each upload. Raises FileStoreError, Unavailable.
    """
    remaining = list(packs)
    while remaining:
        used = by_pack(state.read(partial(_keys_in_use, remaining)))
        remaining = [pack for pack in remaining if store.trim(pack, used.get(pack, []))]


def trim_packs_of(state: State, store: FileStore, keys: Iterable[str]) -> None:
    """Trim the packs of these files. `keys` are all keys in use in these packs, which the caller has read."""
    trim_packs(state, store, [pack for pack, slices in by_pack(keys).items() if store.trim(pack, slices)])


def complete_snapshots(stores: Stores) -> list[Snapshot]:
    """Return the snapshots with complete files, the published one first."""
    complete = [run for run in stores.snapshots.unpublished() if run.state is not SnapshotState.BUILDING]
    return [*stores.snapshots.served(), *complete]


def _keys_in_use(packs: Collection[str], stores: Stores) -> set[str]:
    folders = tuple({f"{pack.rpartition('/')[0]}/" for pack in packs})
    keys = set(stores.snapshots.keys_in_use([each.snapshot_id for each in complete_snapshots(stores)], folders))
    for snapshot_id in stores.deltas.needed():
        if pack_folder(delta_folder(snapshot_id)) in folders:
            for each in stores.deltas.of_snapshot(snapshot_id):
                keys.update(stored.key for stored in each.delta.formats.values())
    return keys
