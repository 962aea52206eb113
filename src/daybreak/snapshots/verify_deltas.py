"""Proves the chain of deltas again: their files, their continuity, and the full files that they lead to."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, takewhile

from daybreak.catalogue.resources import RESOURCE_NAMES, resource_named
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.errors import FileStoreError
from daybreak.domain.snapshot import Snapshot, StoredFormat
from daybreak.export.delta.apply import applied_digest
from daybreak.export.gzip_member import decompressed
from daybreak.filestore.file_store import FileStore
from daybreak.snapshots.verify import manifest_entries, stored_deltas
from daybreak.state.stores import State, Stores


@dataclass(frozen=True, slots=True)
class VerifiedDeltas:
    """Result: versions and deltas read, deltas whose full files were compared byte for byte, and sentences about deltas
    that do not prove their version.
    """

    versions: int
    deltas: int
    compared: int
    faults: tuple[str, ...]


def verify_deltas(state: State, store: FileStore) -> VerifiedDeltas:
    """Read every delta of the published chain. Where the full files of both versions are kept, apply it to the first
    and compare with the second. Raises Unavailable.
    """
    chain = state.read(_chain)
    new_leaders = state.read(lambda stores: [stores.deltas.new_leaders(each.snapshot_id) for each in chain])
    deltas = compared = 0
    faults: list[str] = []
    for resource in RESOURCE_NAMES:
        digests: dict[str, str] = {}
        for snapshot, added in zip(chain, new_leaders, strict=True):
            # They may have been in a version before the last one.
            for client_id in added:
                digests.pop(client_id, None)
            for delta, before in _files(state, snapshot, resource):
                deltas += 1
                fault, is_compared = _fault(store, delta, before, digests.get(delta.client_id))
                compared += is_compared
                digests[delta.client_id] = delta.delta.content_sha256_after
                if fault is not None:
                    faults.append(f"version {snapshot.version}, {resource} of {delta.client_id}: {fault}")
    return VerifiedDeltas(len(chain), deltas, compared, tuple(faults))


def _chain(stores: Stores) -> list[Snapshot]:
    """Return the snapshots whose deltas lead to the published one, oldest first: those after the latest version whose
    deltas are not kept.
    """
    current = stores.snapshots.current()
    if current is None or current.version is None:
        return []
    kept = {
        each.version: each
        for each in stores.deltas.published_with_deltas()
        if each.chain_id == current.chain_id and each.chain_id != each.snapshot_id
    }
    return [kept[version] for version in takewhile(kept.__contains__, count(current.version, -1))][::-1]


def _files(state: State, snapshot: Snapshot, resource: str) -> Iterator[tuple[LeaderDelta, StoredFormat | None]]:
    """Yield the deltas of a snapshot, with the full CSV file before each if it is kept."""
    base_id = snapshot.deltas_from
    entries = () if base_id is None else manifest_entries(state, base_id, resource)
    files = {entry.client_id: entry.formats.get("csv") for entry in entries}
    for delta in stored_deltas(state, snapshot.snapshot_id, resource):
        yield delta, files.get(delta.client_id)


def _fault(
    store: FileStore, leader: LeaderDelta, before: StoredFormat | None, digest: str | None
) -> tuple[str | None, bool]:
    """Return what is wrong with a delta, None if nothing is, and whether full files were compared."""
    delta = leader.delta
    if digest is not None and digest != delta.content_sha256_before:
        return "it does not begin from the file that the delta before leads to", False
    try:
        for stored in delta.formats.values():
            store.check(stored.key, stored.bytes, stored.sha256)
        if before is None or not delta.formats:
            return None, False
        rows = decompressed(store.read(before.key))
        changes = decompressed(store.read(delta.formats["csv"].key))
        result = applied_digest(resource_named(leader.resource), rows, changes, delta.constants)
    except FileStoreError as error:
        return error.message, False
    except ValueError as error:
        return f"it cannot be applied: {error}", False
    if result != delta.content_sha256_after:
        return "applied to the file before, it does not yield the file after", True
    return None, True
