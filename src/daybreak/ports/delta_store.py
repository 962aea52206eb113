"""Port of the deltas and chains in the state database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from daybreak.domain.delta import Chain, LeaderDelta
from daybreak.domain.snapshot import CurrentFile, Snapshot


class DeltaStore(Protocol):
    """Deltas of publications, and the chains that they form."""

    def begin(self, snapshot_id: str, fence: int, base_id: str | None, reason: str | None = None) -> None:
        """Record the snapshot that a run's deltas begin from, or the reason why it makes none. Raises RunFenced."""

    def add(self, snapshot_id: str, fence: int, deltas: Sequence[LeaderDelta]) -> None:
        """Append deltas of a run. Raises RunFenced."""

    def add_new_leaders(self, snapshot_id: str, fence: int, client_ids: Sequence[str]) -> None:
        """Append Leaders that the snapshot before did not have. Raises RunFenced."""

    def of_snapshot(self, snapshot_id: str, resource: str | None = None) -> Iterator[LeaderDelta]:
        """Yield the deltas of a snapshot, ordered by client_id and resource."""

    def new_leaders(self, snapshot_id: str) -> frozenset[str]:
        """Return the Leaders of a snapshot that the snapshot before did not have."""

    def chain(self, client_id: str) -> Chain | None:
        """Return the chain of an account up to the published snapshot. Return None when there is none, or when it does
        not have the Leader.
        """

    def file(self, publication: str | int, client_id: str, resource: str, format: str) -> CurrentFile | None:
        """Return one delta file of csv or json, None if it is not in the account's chain. `publication` is the id of a
        snapshot or a version.
        """

    def version_after(self, instant: datetime) -> int | None:
        """Return the version of the first publication at or after an instant, kept or not."""

    def version_before(self, instant: datetime) -> int | None:
        """Return the version of the last publication at or before an instant, kept or not."""

    def close_account_chain(self, client_id: str, chain_id: str, reason: str, now: datetime) -> list[str]:
        """End an account's chain at the published version, and begin the chain `chain_id` there. Delete all its deltas,
        and return the keys of their files, which the caller deletes after the transaction. Shared files are kept.

        Call it in the transaction that changes the account's published files. A run in progress may have compared with
        the old files: its publication begins the account's chain again.
        """

    def needed(self) -> set[str]:
        """Return the ids of snapshots whose deltas are kept, and of runs that may still be published."""

    def published_with_deltas(self) -> list[Snapshot]:
        """Return the published and retired snapshots whose deltas are kept, newest first."""

    def abandoned(self) -> list[str]:
        """Return the ids of snapshots whose deltas are to be deleted: those of ended runs and of ended chains, and
        those whose deletion was interrupted.
        """

    def forget(self, snapshot_id: str, *, at_most: int) -> int:
        """Delete up to `at_most` deltas of a snapshot from the database, and return their number. Repeat until fewer
        were deleted. Nothing is served from it any more. Raises Conflict for a snapshot that may still be published.
        """

    def first_publication(self) -> str | None:
        """Return the id of the first published snapshot."""

    def last_version(self) -> int:
        """Return the version of the latest publication, 0 before the first one."""

    def restart_chain(self, snapshot_id: str, reason: str, last_version: int) -> None:
        """Let the publication of a snapshot begin a new chain, with a version greater than `last_version`."""
