"""Copies the stored files to another file store, for example from a folder to a bucket.

Every file of a manifest is copied under its key, and its digest is compared with the manifest while it is read. A copy
that was interrupted continues: files that the target already has are compared and left alone. What an earlier copy
brought, and the source has deleted since, is deleted: it may contain a Member that was erased.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby, islice
from operator import attrgetter

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import FileDamaged, FileStoreError, OperatorError, StoreFull
from daybreak.domain.snapshot import SnapshotState
from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import KINDS, FileStore, Kind, checked_pieces
from daybreak.snapshots.pack_trimming import complete_snapshots, trim_packs
from daybreak.snapshots.verify import ManifestFile, delta_files, manifest_files, statement_files
from daybreak.state.stores import State, Stores

_FILES_PER_BATCH = 4_096
# One request to a bucket reads a window of a pack with about this number.
_PACKED_FILES_PER_TASK = 256


@dataclass(slots=True)
class Copied:
    """Result so far: files that were copied and their size, files that the target already had, objects deleted from the
    target, and the faults.
    """

    files: int = 0
    bytes: int = 0
    present: int = 0
    deleted: int = 0
    faults: list[str] = field(default_factory=list)


def copy_files(
    state: State, source: FileStore, target: FileStore, threads: int, watch: Callable[[Copied], None]
) -> Copied:
    """Copy the files of all snapshots and deltas. `watch` receives the result so far.

    A file that is damaged in the source, or differs in the target, is a fault, and the others are copied. Raises
    OperatorError if the target belongs to a later publication, FileStoreError, Unavailable.
    """
    first_id = state.read(lambda stores: stores.deltas.first_publication())
    mark = None if first_id is None else source.publication_mark(first_id)
    found = None if first_id is None else target.publication_mark(first_id)
    if found is not None and (mark is None or found.version > mark.version):
        raise OperatorError(
            f"The target has files of version {found.version}, which is newer than those of the source. Nothing is "
            "copied. Check that source and target are not swapped."
        )
    copied = Copied()
    before = _EarlierCopy(state, target)
    is_stored = target.presence()
    files = _kept_files(state)
    packs = _Packs(source, target)
    absent: set[str] = set()

    def copy_some(some: Sequence[ManifestFile]) -> list[bool | FileStoreError]:
        if _is_packed(some[0]):
            return packs.copied_files(some)
        return [_copy_file(source, target, file, is_present=file.stored.key not in absent) for file in some]

    with ThreadPoolExecutor(max(threads, 1), "copy") as pool:
        while batch := list(islice(files, _FILES_PER_BATCH)):
            before.keep(batch)
            absent = {file.stored.key for file in batch if not is_stored(file.stored.key, file.stored.bytes)}
            for file in batch:
                if _is_packed(file) and file.stored.key in absent:
                    packs.copy(slice_of(file.stored.key).key)
            for file, result in zip(batch, chain.from_iterable(pool.map(copy_some, _tasks(batch))), strict=True):
                _count(copied, file, result)
                watch(copied)
    if not copied.faults:
        copied.deleted = before.delete_others(packs.keys)
        if first_id is not None and mark is not None:
            target.mark_publication(first_id, mark)
    return copied


class _EarlierCopy:
    """What the target had before: folders of snapshots and deltas, of which the copy keeps some objects."""

    def __init__(self, state: State, target: FileStore) -> None:
        self._state, self._target = state, target
        self._kept: dict[str, set[str]] = {}
        found = {kind: target.ids(kind) for kind in KINDS}

        def ended(stores: Stores) -> list[tuple[Kind, str]]:
            runs = ((kind, stores.snapshots.get(each)) for kind, ids in found.items() for each in ids)
            return [(kind, run.snapshot_id) for kind, run in runs if run and run.state is not SnapshotState.BUILDING]

        self._folders = state.read(ended)

    def keep(self, files: Iterable[ManifestFile]) -> None:
        """Keep the objects of these files."""
        for file in files if self._folders else ():
            key = slice_of(file.stored.key).key
            self._kept.setdefault("/".join(key.split("/", 2)[:2]), set()).add(key)

    def delete_others(self, copied: Collection[str]) -> int:
        """Delete the other objects, and the bytes of packs that are no longer in use, except in packs that were copied
        now. Return the number of deleted objects.
        """
        deleted = 0
        packs: list[str] = []
        for kind, snapshot_id in self._folders:
            kept = self._kept.get(f"{kind}/{snapshot_id}", set())
            deleted += self._target.remove(kind, snapshot_id, kept)
            packs += (key for key in kept if key.endswith(".pack") and key not in copied)
        # Together, because it reads all manifests.
        trim_packs(self._state, self._target, packs)
        return deleted


def _kept_files(state: State) -> Iterator[ManifestFile]:
    kept = state.read(lambda stores: [*complete_snapshots(stores), *stores.deltas.published_with_deltas()])
    snapshot_ids = list(dict.fromkeys(each.snapshot_id for each in kept))
    for resource in RESOURCE_NAMES:
        # Several snapshots refer to the same file of a Leader. In this order, no keys are kept to find that.
        client_id = attrgetter("client_id")
        files = merge(*(manifest_files(state, each, resource) for each in snapshot_ids), key=client_id)
        for _, of_leader in groupby(files, client_id):
            yield from {file.stored.key: file for file in of_leader}.values()
    for snapshot_id in snapshot_ids:
        for resource in RESOURCE_NAMES:
            yield from delta_files(state, snapshot_id, resource)
        yield from statement_files(state, snapshot_id)


def _is_packed(file: ManifestFile) -> bool:
    return slice_of(file.stored.key).length is not None


def _tasks(files: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Yield the files in groups: packed files that are read together, and each other file alone."""
    for is_packed, some in groupby(files, _is_packed):
        size = _PACKED_FILES_PER_TASK if is_packed else 1
        while part := list(islice(some, size)):
            yield part


def _copy_file(source: FileStore, target: FileStore, file: ManifestFile, *, is_present: bool) -> bool | FileStoreError:
    """Return whether the file was copied, False if the target has it. Return the fault of a file that is damaged in the
    source, or different in the target.
    """
    stored = file.stored
    try:
        if is_present:
            target.check(stored.key, stored.bytes, stored.sha256)
            return False
        if _exists(target, stored.key):
            return FileStoreError(f"The target has another file {stored.key}. It is not replaced.")
    except FileDamaged as error:
        return FileStoreError(f"In the target: {error.message} It is not replaced.")
    try:
        in_source = f"{stored.key} in the source"
        verified = checked_pieces(in_source, source.read(stored.key), stored.bytes, stored.sha256)
        target.add(stored.key, file.resource, file.format, verified)
    except StoreFull:
        raise
    except FileStoreError as error:
        return error
    return True


class _Packs:
    """Copies packs as a whole, each once. Their files are then read back."""

    def __init__(self, source: FileStore, target: FileStore) -> None:
        self._source, self._target = source, target
        self._faults: dict[str, FileStoreError | None] = {}

    def copy(self, key: str) -> None:
        """Copy a pack, if it was not copied yet."""
        if key in self._faults:
            return
        self._faults[key] = None
        try:
            if _exists(self._target, key):
                raise FileStoreError(f"The target has another file {key}. It is not replaced.")
            self._target.add(key, "", "", self._source.read(key))
        except StoreFull:
            raise
        except FileStoreError as error:
            self._faults[key] = error

    @property
    def keys(self) -> Collection[str]:
        """The packs that were copied."""
        return self._faults

    def copied_files(self, files: Sequence[ManifestFile]) -> list[bool | FileStoreError]:
        """Return for each file whether it was copied, False if the target had its pack, or the fault of the file."""
        with self._target.checking() as check:
            return [self._copied_file(file, check) for file in files]

    def _copied_file(self, file: ManifestFile, check: Callable[[str, int, str], None]) -> bool | FileStoreError:
        stored = file.stored
        pack = slice_of(stored.key).key
        fault = self._faults.get(pack)
        if fault is not None:
            return fault
        try:
            check(stored.key, stored.bytes, stored.sha256)
        except FileStoreError as in_target:
            if pack not in self._faults:
                return FileStoreError(f"In the target: {in_target.message} It is not replaced.")
            try:
                self._source.check(stored.key, stored.bytes, stored.sha256)
            except FileStoreError as in_source:
                return FileStoreError(f"{in_source.message} Its pack was copied to the target: {pack}")
            return FileStoreError(f"In the target: {in_target.message} It was damaged by the copy.")
        return pack in self._faults


def _exists(store: FileStore, key: str) -> bool:
    try:
        next(store.read(key, 0, 1), b"")
    except FileStoreError:
        return False
    return True


def _count(copied: Copied, file: ManifestFile, result: bool | FileStoreError) -> None:  # noqa: FBT001 - a result
    if isinstance(result, FileStoreError):
        copied.faults.append(result.message)
    elif result:
        copied.files += 1
        copied.bytes += file.stored.bytes
    else:
        copied.present += 1
