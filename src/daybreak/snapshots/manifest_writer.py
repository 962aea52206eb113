"""Writes the manifest of a run, thousands of entries per transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.snapshots.lease import Lease

_ENTRIES_PER_TRANSACTION = 2000
_LEADERS_PER_TRANSACTION = 5000


class ManifestWriter:
    """Collects the manifest entries of one run. `rows` counts their rows by resource, `files` their files.

    `published` is the published snapshot. Files with the same bytes in it keep their age.
    """

    def __init__(self, snapshot: Snapshot, lease: Lease, published: Snapshot | None) -> None:
        self._snapshot, self._lease, self._published = snapshot, lease, published
        self._pending: list[ManifestEntry] = []
        self.rows: Counter[str] = Counter()
        self.files = 0

    def add_leaders(self, client_ids: Sequence[str]) -> None:
        """Write the Leaders of the snapshot."""
        own = self._snapshot
        for start in range(0, len(client_ids), _LEADERS_PER_TRANSACTION):
            batch = client_ids[start : start + _LEADERS_PER_TRANSACTION]
            self._lease.write(
                lambda stores, batch=batch: stores.snapshots.add_leaders(  # type: ignore[misc]
                    own.snapshot_id, own.fence, batch
                )
            )

    def add(self, entries: Sequence[ManifestEntry]) -> None:
        """Add entries. They are written when a transaction is full."""
        self._pending.extend(entries)
        for entry in entries:
            self.rows[entry.resource] += entry.rows
            self.files += len(entry.formats)
        if len(self._pending) >= _ENTRIES_PER_TRANSACTION:
            self.flush()

    def flush(self) -> None:
        """Write the entries added so far."""
        entries, self._pending = self._pending, []
        own, base = self._snapshot, self._published
        if entries:
            self._lease.write(lambda stores: stores.snapshots.add_entries(own.snapshot_id, own.fence, entries, base))
