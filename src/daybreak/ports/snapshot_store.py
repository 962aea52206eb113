"""Runs, their manifests and what is served, as the state database keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from daybreak.domain.snapshot import CurrentFile, ManifestEntry, Snapshot, SnapshotState


class SnapshotStore(Protocol):
    """Runs, manifests and the one pointer to what is served."""

    def claim_day(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot | None:
        """Claims `snapshot.day` for its builder: inserts it, or takes over a day whose builder let
        its lease lapse or whose last run failed (a new fence, a new snapshot id). None when another
        holds it or the day is done (complete, held, published)."""

    def begin_manual(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot:
        """A run by hand, with an id of its own."""

    def renew(
        self,
        snapshot_id: str,
        fence: int,
        now: datetime,
        lease_seconds: int,
        progress: Mapping[str, object],
    ) -> bool:
        """Keeps the lease and says how far it is. False when fenced."""

    def add_entries(self, snapshot_id: str, fence: int, entries: Sequence[ManifestEntry]) -> None:
        """Appends manifest entries (also the shared header-only ones). Raises RunFenced."""

    def add_leaders(self, snapshot_id: str, fence: int, client_ids: Sequence[str]) -> None: ...

    def finish(
        self,
        snapshot_id: str,
        fence: int,
        state: SnapshotState,
        now: datetime,
        *,
        report: Mapping[str, object],
        failure: str | None = None,
    ) -> None:
        """From building to complete, held or failed. Raises RunFenced."""

    def publish(
        self,
        snapshot_id: str,
        fence: int | None,
        now: datetime,
        *,
        accepted_reason: str | None = None,
    ) -> None:
        """Moves the pointer, one transaction; refuses one that is older (as_of) than the served
        one, is not complete, or held without a reason. Raises RunFenced, Conflict."""

    def discard(self, snapshot_id: str, now: datetime, reason: str) -> None: ...

    def lapse(self, now: datetime) -> list[Snapshot]:
        """Marks building runs whose lease is over as failed; returns them."""

    def current(self) -> Snapshot | None:
        """The snapshot that is served."""

    def get(self, snapshot_id: str) -> Snapshot | None: ...

    def of_day(self, day: date) -> Snapshot | None:
        """The latest run for that day's publication."""

    def recent(self, limit: int = 50) -> list[Snapshot]:
        """Newest first."""

    def file(self, snapshot_id: str | None, client_id: str, resource: str, format: str) -> CurrentFile | None:
        """One file (header-only when the Leader has no rows); `snapshot_id` None = the current
        one. None when the snapshot does not know the Leader, or is not (or no longer) served:
        published snapshots and retired ones whose files still stand are."""

    def leader_known(self, snapshot_id: str, client_id: str) -> bool: ...

    def manifest(self, snapshot_id: str, client_id: str) -> list[ManifestEntry]:
        """The nine entries of one Leader, header-only ones filled in, in catalogue order of names
        as stored; [] when unknown."""

    def entries(self, snapshot_id: str, resource: str | None = None) -> Iterator[ManifestEntry]:
        """All entries, ordered by resource and client_id."""

    def leaders(self, snapshot_id: str) -> Iterator[str]: ...

    def fingerprints(self, snapshot_id: str, resource: str) -> dict[str, str]: ...

    def rows_lost(
        self, before_id: str, now_id: str, resource: str, *, least_rows: int, share: float
    ) -> list[tuple[str, int, int]]:
        """Leaders that had at least so many rows and lost more than that share of them (all, when they have no entry
        any more): client_id, rows before, rows now; by client_id."""

    def served(self) -> list[Snapshot]:
        """Published and retired snapshots whose files still stand, newest publication first."""

    def abandoned(self) -> list[Snapshot]:
        """Runs whose manifest rows are to be forgotten, oldest first: failed and discarded ones, and
        those that were being forgotten when that was interrupted."""

    def forget(self, snapshot_id: str, *, at_most: int | None = None) -> int:
        """Deletes manifest rows; the run's own row stays for history, as retired without files. How
        many rows went. With `at_most`, call it again until it deletes fewer, so that others may
        write in between. Raises Conflict for a snapshot that is served, or may still be."""

    def keys_in_use(self, snapshot_ids: Sequence[str], folders: tuple[str, ...]) -> Iterator[str]:
        """Keys that the manifests of these snapshots name and that begin with one of the `folders`, at least one."""
