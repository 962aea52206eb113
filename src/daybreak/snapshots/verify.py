"""Reads files back: each file of a snapshot must exist, and have the length and digest in the manifest.

A run reads back its files before publication. `daybreakd snapshot verify` reads the files of any snapshot, to find
files that were damaged later.
"""

import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import msgspec

from daybreak.catalogue.formats import STATEMENTS, delta_format
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.errors import FileStoreError, OperatorError
from daybreak.domain.snapshot import ManifestEntry, Snapshot, StoredFormat
from daybreak.filestore.file_store import FileStore
from daybreak.state.paging import in_pages
from daybreak.state.stores import State, Stores

# Many files per task, because passing a small file to a thread takes longer than reading it.
_FILES_PER_TASK = 64
SAMPLE_INTERVAL = 50
"""A sample contains about one file per this number of files."""
REUSED_SAMPLE_INTERVAL = 7
"""Number of days over which all reused files are read back, a part each day."""


class ManifestFile(msgspec.Struct, frozen=True, gc=False):
    """One file of a snapshot, as the manifest lists it."""

    resource: str
    client_id: str
    format: str
    stored: StoredFormat


class CheckedFile(msgspec.Struct, frozen=True, gc=False):
    """A file that was read back. `fault` describes the damage, None if the file is intact."""

    file: ManifestFile
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of a verification: the number and size of intact files, and the damaged ones."""

    files: int
    bytes: int
    damaged: tuple[CheckedFile, ...]


def read_back(store: FileStore, files: Iterable[ManifestFile], threads: int) -> Iterator[CheckedFile]:
    """Read files in parallel and yield each with its result. Raises Unavailable when the store does not respond."""

    def check(batch: list[ManifestFile]) -> list[CheckedFile]:
        with store.checking() as check_file:
            return [_checked(check_file, file) for file in batch]

    remaining = iter(files)
    batches = iter(lambda: list(islice(remaining, _FILES_PER_TASK)), [])
    with ThreadPoolExecutor(max(threads, 1), "verify") as pool:
        # A few batches at a time: a manifest may list millions of files.
        while next_batches := list(islice(batches, max(threads, 1) * 2)):
            for checked in pool.map(check, next_batches):
                yield from checked


def _checked(check: Callable[[str, int, str], None], file: ManifestFile) -> CheckedFile:
    try:
        check(file.stored.key, file.stored.bytes, file.stored.sha256)
    except FileStoreError as error:
        return CheckedFile(file, error.message)
    return CheckedFile(file)


def verify_snapshot(state: State, store: FileStore, snapshot_id: str, *, threads: int = 2) -> Verified:
    """Read every file in a snapshot's manifest. Raises OperatorError for an unknown snapshot, Unavailable."""
    if state.read(lambda stores: stores.snapshots.get(snapshot_id)) is None:
        raise OperatorError(f"There is no snapshot {snapshot_id}. Run `daybreakd snapshot list`.")
    count = size_bytes = 0
    damaged: list[CheckedFile] = []
    of_resources = (manifest_files(state, snapshot_id, resource) for resource in RESOURCE_NAMES)
    for files in (*of_resources, statement_files(state, snapshot_id)):
        for checked in read_back(store, files, threads):
            count += 1
            if checked.fault is None:
                size_bytes += checked.file.stored.bytes
            else:
                damaged.append(checked)
    return Verified(count, size_bytes, tuple(damaged))


def manifest_entries(
    state: State, snapshot_id: str, resource: str, wanted: Callable[[str], bool] | None = None
) -> Iterator[ManifestEntry]:
    """Yield the entries of one resource, those of `wanted` Leaders or of all, with a transaction for each page."""
    return in_pages(
        lambda after: state.read(
            lambda stores: stores.snapshots.entries_after(snapshot_id, resource, after, wanted),
        )
    )


def manifest_files(
    state: State, snapshot_id: str, resource: str, wanted: Callable[[str], bool] | None = None
) -> Iterator[ManifestFile]:
    """Yield the files of `manifest_entries`."""
    for entry in manifest_entries(state, snapshot_id, resource, wanted):
        for format_name, stored in entry.formats.items():
            yield ManifestFile(resource, entry.client_id, format_name, stored)


def stored_deltas(state: State, snapshot_id: str, resource: str | None = None) -> Iterator[LeaderDelta]:
    """Yield the deltas of one or all resources, with a transaction for each page."""
    return in_pages(lambda after: state.read(lambda stores: stores.deltas.deltas_after(snapshot_id, resource, after)))


def delta_files(state: State, snapshot_id: str, resource: str) -> Iterator[ManifestFile]:
    """Yield the delta files of one resource. Those without rows, which Leaders share, are included once."""
    shared: set[str] = set()
    for each in stored_deltas(state, snapshot_id, resource):
        for format_name, stored in each.delta.formats.items():
            if stored.key not in shared:
                yield ManifestFile(resource, each.client_id, delta_format(format_name).name, stored)
            if not each.delta.has_rows:
                shared.add(stored.key)


def statement_files(state: State, snapshot_id: str) -> list[ManifestFile]:
    """Return the files with the signed statements of a snapshot."""

    def read(stores: Stores) -> list[ManifestFile]:
        signed = stores.signatures.of_snapshot(snapshot_id)
        later = stores.signatures.revisions(snapshot_id)
        packs = [("", pack) for pack in (() if signed is None else signed.packs)]
        packs += [(revision.client_id, revision.pack) for revision in later]
        return [
            ManifestFile(
                "statements", client_id, STATEMENTS.name,
                StoredFormat(pack.bytes, pack.sha256, pack.bytes, pack.sha256, pack.key),
            )
            for client_id, pack in packs
        ]  # fmt: skip

    return state.read(read)


def is_read_back(snapshot: Snapshot, reused: Container[str], *, read_all: bool) -> Callable[[str], bool]:
    """Return a function that returns whether a run reads back the files of a Leader: new ones, all or a sample, and a
    changing part of the reused ones.

    `reused` are the Leaders whose files are reused. The shared header-only files are always included.
    """
    day = snapshot.as_of.toordinal()

    def is_included(client_id: str) -> bool:
        is_reused = client_id in reused
        if not is_reused and (read_all or not client_id):
            return True
        interval = REUSED_SAMPLE_INTERVAL if is_reused else SAMPLE_INTERVAL
        return zlib.crc32(client_id.encode()) % interval == day % interval

    return is_included
