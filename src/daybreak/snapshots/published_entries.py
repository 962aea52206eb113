"""Entries of the published snapshot during a run. Few are in memory, because there may be 100,000 Leaders."""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.export.job import DeltaBase
from daybreak.snapshots.verify import manifest_entries
from daybreak.state.stores import State

_LEADERS_PER_READ = 1000
_GROUPS_IN_MEMORY = 8
"""Groups of previous files: threads work on neighboring Leaders."""


@dataclass(frozen=True, slots=True)
class PublishedEntries:
    """The entries of a published snapshot, none without a snapshot. Methods raise Unavailable."""

    state: State
    snapshot: Snapshot | None

    def fingerprints(self, resource: str) -> dict[str, str]:
        """Return the fingerprints of a resource by client_id, sorted."""
        snapshot = self.snapshot
        if snapshot is None:
            return {}
        return self.state.read(lambda stores: stores.snapshots.fingerprints(snapshot.snapshot_id, resource))

    def of(self, resource: str, client_ids: Iterable[str]) -> dict[str, ManifestEntry]:
        """Return the entries of Leaders by client_id. Leaders without one are left out."""
        snapshot = self.snapshot
        if snapshot is None:
            return {}

        def read(some: Sequence[str]) -> list[ManifestEntry]:
            return self.state.read(lambda stores: stores.snapshots.entries_of(snapshot.snapshot_id, resource, some))

        remaining = iter(client_ids)
        groups = iter(lambda: list(islice(remaining, _LEADERS_PER_READ)), [])
        return {entry.client_id: entry for some in groups for entry in read(some)}

    def wanted(self, resource: str, wanted: Callable[[str], bool]) -> Iterator[ManifestEntry]:
        """Yield the entries of wanted Leaders, sorted."""
        if self.snapshot is not None:
            yield from manifest_entries(self.state, self.snapshot.snapshot_id, resource, wanted)


class PreviousFiles(Mapping[str, DeltaBase]):
    """The CSV files of a resource in the published snapshot, for deltas. Threads may use it.

    `client_ids` are the Leaders with a file, sorted. A file is read together with those of neighbors, which an export
    needs soon, but without those of `reused` Leaders.
    """

    def __init__(
        self, published: PublishedEntries, resource: str, client_ids: Sequence[str], reused: Container[str]
    ) -> None:
        def group(number: int) -> dict[str, DeltaBase]:
            start = number * _LEADERS_PER_READ
            some = client_ids[start : start + _LEADERS_PER_READ]
            found = published.of(resource, (client_id for client_id in some if client_id not in reused))
            return {client_id: DeltaBase(entry.rows, entry.formats["csv"]) for client_id, entry in found.items()}

        self._client_ids = client_ids
        self._group = lru_cache(_GROUPS_IN_MEMORY)(group)

    def __getitem__(self, client_id: str) -> DeltaBase:
        return self._group(bisect_left(self._client_ids, client_id) // _LEADERS_PER_READ)[client_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._client_ids)

    def __len__(self) -> int:
        return len(self._client_ids)
