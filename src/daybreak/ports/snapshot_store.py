"""Port of the runs, the manifests and the pointer to the published snapshot in the state database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from daybreak.domain.snapshot import (
    CurrentFile,
    ManifestEntry,
    Snapshot,
    SnapshotState,
    TableFiles,
    TableVersion,
)


class SnapshotStore(Protocol):
    """Runs, manifests, and the pointer to the published snapshot."""

    def claim_day(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot | None:
        """Claim `snapshot.day` for its builder: insert the run, or take over a day whose lease has lapsed or whose last
        run failed, with a new fence and a new snapshot id. Return None when another builder has the day, or when it is
        complete, held or published.
        """

    def begin_manual(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot:
        """Insert a manual run."""

    def renew(
        self,
        snapshot_id: str,
        fence: int,
        now: datetime,
        lease_seconds: int,
        progress: Mapping[str, object],
    ) -> bool:
        """Renew the lease and store the progress. Return False when another builder has the run."""

    def add_entries(self, snapshot_id: str, fence: int, entries: Sequence[ManifestEntry]) -> None:
        """Append manifest entries, including the shared header-only ones. Raises RunFenced."""

    def add_leaders(self, snapshot_id: str, fence: int, client_ids: Sequence[str]) -> None:
        """Append Leaders of the snapshot. Raises RunFenced."""

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
        """Change a building run to complete, held or failed. Raises RunFenced."""

    def publish(
        self,
        snapshot_id: str,
        fence: int | None,
        now: datetime,
        *,
        accepted_reason: str | None = None,
    ) -> None:
        """Publish a snapshot under the next version.

        Raises RunFenced, and Conflict for a snapshot that is older (`as_of`) than the published one, is not complete,
        or is held without a reason.
        """

    def lock_current(self) -> None:
        """Lock the pointer to the published snapshot: publications and discards wait until this transaction ends."""

    def discard(self, snapshot_id: str, now: datetime, reason: str) -> None:
        """Change a complete or held snapshot to discarded. Raises Conflict."""

    def lapse(self, now: datetime) -> list[Snapshot]:
        """Mark building runs whose lease has lapsed as failed, and return them."""

    def current(self) -> Snapshot | None:
        """Return the published snapshot."""

    def get(self, snapshot_id: str) -> Snapshot | None:
        """Return a run, None when it is unknown."""

    def of_day(self, day: date) -> Snapshot | None:
        """Return the latest run for that day's publication."""

    def recent(self, limit: int = 50) -> list[Snapshot]:
        """Return the most recent runs, newest first."""

    def file(self, snapshot_id: str | None, client_id: str, resource: str, format: str) -> CurrentFile | None:
        """Return one file, the header-only one for a Leader without rows. `snapshot_id` None is the published snapshot.

        Return None for an unknown Leader, and for a snapshot that is neither published nor retired with its files.
        """

    def table(self, client_id: str, resource: str, at: TableVersion) -> TableFiles | None:
        """Return the Parquet files of a resource of a Leader, read by one statement.

        Return None for an unknown Leader, and unless that snapshot is kept and has Parquet files with statistics.
        """

    def leader_known(self, snapshot_id: str, client_id: str) -> bool:
        """Return whether the snapshot has the Leader."""

    def manifest(self, snapshot_id: str, client_id: str) -> list[ManifestEntry]:
        """Return the nine entries of one Leader, with header-only entries filled in, ordered by resource. Empty for an
        unknown Leader.
        """

    def entries(self, snapshot_id: str, resource: str | None = None) -> Iterator[ManifestEntry]:
        """Yield all entries, ordered by resource and client_id."""

    def replace_entries(
        self, snapshot_id: str, before: Sequence[ManifestEntry], after: Sequence[ManifestEntry], now: datetime
    ) -> None:
        """Replace manifest entries of Leaders. Links that were issued earlier stop working.

        Raises Conflict if an entry is no longer as in `before`, which has the same Leaders and resources as `after`.
        """

    def redact_reports(self, text: str) -> int:
        """Replace a text in the reports and failures of all runs, and in events about them, by `[erased]`. Return the
        number of changed values.
        """

    def leaders(self, snapshot_id: str) -> Iterator[str]:
        """Yield the Leaders of a snapshot."""

    def fingerprints(self, snapshot_id: str, resource: str) -> dict[str, str]:
        """Return the fingerprint of each Leader's rows of a resource, by client_id."""

    def rows_lost(
        self, before_id: str, now_id: str, resource: str, *, least_rows: int, share: float
    ) -> list[tuple[str, int, int]]:
        """Return Leaders that had at least `least_rows` rows and lost more than `share` of them: (client_id, rows
        before, rows now), ordered by client_id. A Leader without an entry has lost all rows.
        """

    def published_since(self, since: datetime) -> list[Snapshot]:
        """Return snapshots published since that instant, newest first, whether or not they still have files."""

    def served(self) -> list[Snapshot]:
        """Return published and retired snapshots that have files, newest publication first."""

    def unpublished(self) -> list[Snapshot]:
        """Return building, complete and held runs, newest first."""

    def abandoned(self) -> list[Snapshot]:
        """Return runs whose manifests are to be deleted, oldest first: failed and discarded ones, and those whose
        deletion was interrupted.
        """

    def forget(self, snapshot_id: str, *, at_most: int | None = None) -> int:
        """Delete a snapshot's manifest, and return the number of rows. The run stays, as retired without files.

        With `at_most`, repeat until fewer rows were deleted; other transactions can write in between. Raises Conflict
        for a snapshot that is published, or may still be published.
        """

    def keys_in_use(self, snapshot_ids: Sequence[str], folders: tuple[str, ...]) -> Iterator[str]:
        """Yield the keys in the manifests of these snapshots that begin with one of the `folders`."""
