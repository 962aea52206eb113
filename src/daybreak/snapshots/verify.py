"""Reading files back: that every file of a snapshot is there, has its length and holds the bytes it was given.

A run reads its own files back before they may be published; `daybreakd snapshot verify` reads any snapshot's, and finds
what a disk has lost since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import msgspec

from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.errors import FileStoreError, OperatorError
from daybreak.domain.snapshot import StoredFormat
from daybreak.ports.files import FileStore
from daybreak.ports.state import State, Stores

# Small files are read in bunches: handing one to a thread costs more than reading it.
_AT_ONCE = 64
SAMPLE = 50


class Damage(msgspec.Struct, frozen=True, gc=False):
    """One file that is not what the manifest says, and why."""

    resource: str
    client_id: str
    format: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification read, and what it found."""

    files: int
    bytes: int
    damaged: tuple[Damage, ...]


def damaged_files(
    store: FileStore, files: Iterable[tuple[Damage, StoredFormat]], threads: int
) -> Iterator[Damage | StoredFormat]:
    """Reads files whole, in parallel; gives for each the StoredFormat that is good, or the Damage with its reason.
    Raises Unavailable when the store is away.
    """

    def read(some: list[tuple[Damage, StoredFormat]]) -> list[Damage | StoredFormat]:
        return [_checked(store, damage, stored) for damage, stored in some]

    rest = iter(files)
    batches = iter(lambda: list(islice(rest, _AT_ONCE)), [])
    with ThreadPoolExecutor(max(threads, 1), "verify") as pool:
        # A few batches at a time: a manifest may name millions of files.
        while some := list(islice(batches, max(threads, 1) * 2)):
            for found in pool.map(read, some):
                yield from found


def _checked(store: FileStore, damage: Damage, stored: StoredFormat) -> Damage | StoredFormat:
    try:
        store.check(stored.key, stored.bytes, stored.sha256)
    except FileStoreError as error:
        return Damage(damage.resource, damage.client_id, damage.format, damage.key, error.message)
    return stored


def verify_snapshot(state: State, store: FileStore, snapshot_id: str, *, threads: int = 2) -> Verified:
    """Reads every file that a snapshot's manifest names. Raises OperatorError when there is no such snapshot,
    Unavailable.
    """
    if state.read(lambda stores: stores.snapshots.get(snapshot_id)) is None:
        raise OperatorError(f"There is no snapshot {snapshot_id}: see `daybreakd snapshot list`.")
    count = size = 0
    damaged: list[Damage] = []
    for resource in RESOURCE_NAMES:
        for found in damaged_files(store, files_of(state, snapshot_id, resource), threads):
            count += 1
            if isinstance(found, Damage):
                damaged.append(found)
            else:
                size += found.bytes
    return Verified(count, size, tuple(damaged))


def files_of(state: State, snapshot_id: str, resource: str) -> list[tuple[Damage, StoredFormat]]:
    """One resource's files, read in one transaction that ends before the files are looked at."""

    def read(stores: Stores) -> list[tuple[Damage, StoredFormat]]:
        return [
            (Damage(resource, entry.client_id, format_name, stored.key, ""), stored)
            for entry in stores.snapshots.entries(snapshot_id, resource)
            for format_name, stored in entry.formats.items()
        ]

    return state.read(read)
