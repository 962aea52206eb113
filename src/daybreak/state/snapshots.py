"""Repository of runs: lease, progress, result, and the pointer to the served snapshot."""

from collections.abc import Collection
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from daybreak.catalogue.stored_columns import RecordedColumns, recorded_columns
from daybreak.domain.clock import MAX_DIFFERENCE
from daybreak.domain.delta import FIRST_PUBLICATION, OTHER_PUBLICATION
from daybreak.domain.errors import Conflict, NotFound, RunFenced
from daybreak.domain.run_report import RunProgress, RunReport
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.state.manifests import ManifestStore
from daybreak.state.records import columns_of, values_of
from daybreak.state.schema import (
    account_chains,
    current_snapshot,
    deliveries,
    delivery_attempts,
    outbox,
    snapshot_files,
    snapshot_leaders,
    snapshots,
)

SNAPSHOT_COLUMNS = columns_of(Snapshot, snapshots)
_LEASE_EXPIRED = "The lease expired: the builder stopped or lost the database, or clocks differ."
ERASED = "[erased]"
UNPUBLISHED = (SnapshotState.BUILDING, SnapshotState.COMPLETE, SnapshotState.HELD)

_NEWEST = (snapshots.c.fence.desc(),)
_LATEST = (snapshots.c.published_at.desc(), *_NEWEST)
"""Orders of runs and of publications, newest first."""


def snapshot_of(snapshot_id: str, state: str, *rest: Any) -> Snapshot:
    """Return the snapshot of the values of SNAPSHOT_COLUMNS."""
    return Snapshot(snapshot_id, SnapshotState(state), *rest)


def chain_of(snapshot: Snapshot, served: Snapshot | None, version: int) -> dict[str, str | None]:
    """Return the chain of a snapshot that is being published. It continues that of the served snapshot if its deltas
    begin from there, and if no version is missing in between.
    """
    if served is not None and snapshot.deltas_from == served.snapshot_id and served.version == version - 1:
        return {"chain_id": served.chain_id, "chain_reason": None}
    reason = snapshot.chain_reason if snapshot.deltas_from is None else OTHER_PUBLICATION
    return {"chain_id": snapshot.snapshot_id, "chain_reason": reason or FIRST_PUBLICATION}


class SnapshotStore(ManifestStore):
    """Runs, manifests, and the pointer to the published snapshot."""

    # --- Building --------------------------------------------------------------------------------

    def claim_day(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot | None:
        """Claim `snapshot.day` for its builder: insert the run, or take over a day whose lease has lapsed or whose last
        run failed, with a new fence and a new snapshot id. Return None when another builder has the day, or when it is
        complete, held or published.
        """
        assert snapshot.day is not None
        if self._is_claimed(snapshot.day, now):
            return None
        # The update locks the counter, so that concurrent claims continue one at a time.
        fence = self._count("fence")
        if self._is_claimed(snapshot.day, now):
            return None
        self._execute(
            sa.update(snapshots)
            .where(snapshots.c.day == snapshot.day, snapshots.c.state == SnapshotState.BUILDING)
            .values(state=SnapshotState.FAILED, failure=_LEASE_EXPIRED, finished_at=now)
        )
        return self._begin(snapshot, fence, now, lease_seconds)

    def begin_manual(self, snapshot: Snapshot, now: datetime, lease_seconds: int) -> Snapshot:
        """Insert a manual run."""
        return self._begin(snapshot, self._count("fence"), now, lease_seconds)

    def renew(self, snapshot_id: str, fence: int, now: datetime, lease_seconds: int, progress: RunProgress) -> bool:
        """Renew the lease and store the progress. Return False when another builder has the run."""
        building = snapshots.c.fence == fence, snapshots.c.state == SnapshotState.BUILDING
        lease = {"heartbeat_at": now, "lease_until": now + timedelta(seconds=lease_seconds)}
        return self._change(snapshots, snapshot_id, *building, **lease, progress=progress)

    def finish(
        self,
        snapshot_id: str,
        fence: int,
        state: SnapshotState,
        now: datetime,
        *,
        report: RunReport,
        failure: str | None = None,
    ) -> None:
        """Change a building run to complete, held or failed. Raises RunFenced."""
        self.require_builder(snapshot_id, fence)
        self._change(
            snapshots, snapshot_id, state=state, finished_at=now, report=report, failure=failure, lease_until=None
        )

    def lapse(self, now: datetime) -> list[Snapshot]:
        """Mark building runs whose lease has lapsed as failed, and return them."""
        return self._all(
            sa.update(snapshots)
            .where(
                snapshots.c.state == SnapshotState.BUILDING,
                sa.or_(snapshots.c.lease_until <= now, snapshots.c.heartbeat_at > now + MAX_DIFFERENCE),
            )
            .values(state=SnapshotState.FAILED, failure=_LEASE_EXPIRED, finished_at=now)
            .returning(*SNAPSHOT_COLUMNS),
            snapshot_of,
        )

    # --- Publishing ------------------------------------------------------------------------------

    def publish(
        self, snapshot_id: str, fence: int | None, now: datetime, *, accepted_reason: str | None = None
    ) -> None:
        """Publish a snapshot under the next version.

        Raises RunFenced, and Conflict for a snapshot that is older (`as_of`) than the published one, is not complete,
        or is held without a reason.
        """
        served_id = self.lock_current()
        snapshot = self._locked(snapshot_id)
        self._check_publishable(snapshot, fence, accepted_reason)
        served = None if served_id is None else self.get(served_id)
        if served is not None:
            if served.as_of > snapshot.as_of and not (accepted_reason and served.is_ahead_of(now)):
                raise Conflict(
                    f"Snapshot {snapshot_id} ({snapshot.as_of:%Y-%m-%d %H:%M:%S} UTC) is older than the served "
                    f"one ({served.as_of:%Y-%m-%d %H:%M:%S} UTC). Run a new snapshot."
                )
            self._change(snapshots, served.snapshot_id, state=SnapshotState.RETIRED)
        version = self._count("version")
        self._change(
            snapshots,
            snapshot_id,
            state=SnapshotState.PUBLISHED,
            published_at=now,
            accepted_reason=accepted_reason,
            version=version,
            **chain_of(snapshot, served, version),
        )
        # These accounts have other files now than those that the deltas begin from.
        self._execute(
            sa.update(account_chains)
            .where(account_chains.c.closed_at >= snapshot.started_at)
            .values(from_version=version)
        )
        self._execute(sa.update(current_snapshot).values(snapshot_id=snapshot_id, moved_at=now))

    def _check_publishable(self, snapshot: Snapshot, fence: int | None, accepted_reason: str | None) -> None:
        if fence is not None and (fence != snapshot.fence or snapshot.state == SnapshotState.FAILED):
            raise RunFenced(f"Run {snapshot.snapshot_id} was taken over by another builder.")
        if snapshot.state in (SnapshotState.PUBLISHED, SnapshotState.RETIRED):
            raise Conflict(f"Snapshot {snapshot.snapshot_id} is already published.")
        if snapshot.state == SnapshotState.HELD:
            if not (accepted_reason or "").strip():
                raise Conflict(
                    f"Snapshot {snapshot.snapshot_id} is blocked by the guard. State a reason to publish it."
                )
        elif snapshot.state != SnapshotState.COMPLETE:
            raise Conflict(
                f"Snapshot {snapshot.snapshot_id} is {snapshot.state}. Only complete snapshots can be published."
            )

    def lock_current(self) -> str | None:
        """Lock the pointer to the published snapshot, and return its id: publications, discards and requests of runs
        wait until this transaction ends.
        """
        return self._execute(sa.select(current_snapshot.c.snapshot_id).with_for_update()).scalar()

    def discard(self, snapshot_id: str, now: datetime, reason: str) -> None:
        """Change a complete or held snapshot to discarded. Raises Conflict."""
        self.lock_current()
        snapshot = self._locked(snapshot_id)
        if snapshot.state not in (SnapshotState.COMPLETE, SnapshotState.HELD):
            raise Conflict(
                f"Snapshot {snapshot_id} is {snapshot.state}. Only complete and held snapshots can be discarded."
            )
        failure = f"Discarded {now:%Y-%m-%d %H:%M} UTC: {reason}"
        self._change(snapshots, snapshot_id, state=SnapshotState.DISCARDED, failure=failure)

    # --- Erasures ----------------------------------------------------------------------------------

    def redact_reports(self, text: str) -> int:
        """Replace a text in the reports and failures of all runs, and in the events about them and their deliveries, by
        `[erased]`. Return the number of changed values.
        """
        return sum(
            self._changes(
                sa.update(column.table)
                .where(sa.type_coerce(column, sa.Text).contains(text, autoescape=True))
                .values({column: sa.func.replace(sa.type_coerce(column, sa.Text), text, ERASED)})
            )
            # JSON is stored as text, and escapes no character of an identifier.
            for column in (
                snapshots.c.report,
                snapshots.c.failure,
                snapshots.c.progress,
                outbox.c.data,
                deliveries.c.body,
                deliveries.c.detail,
                delivery_attempts.c.detail,
            )
        )

    def forget_fingerprint(self, snapshot_id: str, client_id: str, resource: str) -> None:
        """Let the next run write the files of a Leader again, although the rows are unchanged."""
        fence, own = self._fence_of(snapshot_id), snapshot_files.c
        self._execute(
            sa.update(snapshot_files)
            .where(own.fence == fence, own.resource == resource, own.client_id == client_id)
            .values(fingerprint="")
        )

    # --- Reads -----------------------------------------------------------------------------------

    def current(self) -> Snapshot | None:
        """Return the published snapshot."""
        is_current = current_snapshot.c.snapshot_id == snapshots.c.snapshot_id
        return self._first(sa.select(*SNAPSHOT_COLUMNS).join(current_snapshot, is_current), snapshot_of)

    def get(self, snapshot_id: str) -> Snapshot | None:
        """Return a run, None when it is unknown."""
        return self._first(sa.select(*SNAPSHOT_COLUMNS).where(snapshots.c.snapshot_id == snapshot_id), snapshot_of)

    def known(self, snapshot_ids: Collection[str]) -> set[str]:
        """Return those of the ids that are recorded."""
        found = sa.select(snapshots.c.snapshot_id).where(snapshots.c.snapshot_id.in_(snapshot_ids))
        return set(self._execute(found).scalars())

    def columns(self, snapshot_id: str) -> RecordedColumns | None:
        """Return the columns that the files of a run have, None if it recorded none."""
        return self._execute(sa.select(snapshots.c.columns).where(snapshots.c.snapshot_id == snapshot_id)).scalar()

    def of_day(self, day: date) -> Snapshot | None:
        """Return the latest run for that day's publication."""
        return next(iter(self._snapshots(snapshots.c.day == day, limit=1)), None)

    def recent(self, limit: int = 50) -> list[Snapshot]:
        """Return the most recent runs, newest first."""
        return self._snapshots(limit=limit)

    def published_since(self, since: datetime) -> list[Snapshot]:
        """Return snapshots published since that instant, newest first, whether or not they still have files."""
        return self._snapshots(snapshots.c.published_at >= since, order=_LATEST)

    def served(self) -> list[Snapshot]:
        """Return published and retired snapshots that have files, newest publication first."""
        published = snapshots.c.state.in_([SnapshotState.PUBLISHED, SnapshotState.RETIRED])
        return self._snapshots(published, snapshots.c.files_stand.is_(True), order=_LATEST)

    def unpublished(self) -> list[Snapshot]:
        """Return building, complete and held runs, newest first."""
        return self._snapshots(snapshots.c.state.in_(UNPUBLISHED))

    def abandoned(self) -> list[Snapshot]:
        """Return runs whose manifests are to be deleted, oldest first: failed and discarded ones, and those whose
        deletion was interrupted.
        """
        finished = snapshots.c.state.in_([SnapshotState.FAILED, SnapshotState.DISCARDED])
        has_rows = sa.or_(
            sa.exists().where(snapshot_files.c.fence == snapshots.c.fence),
            sa.exists().where(snapshot_leaders.c.fence == snapshots.c.fence),
        )
        stand = snapshots.c.files_stand
        is_abandoned = sa.or_(sa.and_(finished, stand), sa.and_(sa.not_(stand), has_rows))
        return self._snapshots(is_abandoned, order=(snapshots.c.fence,))

    def _is_claimed(self, day: date, now: datetime) -> bool:
        """Return whether the day is done, or being built under a valid lease."""
        runs = self._snapshots(snapshots.c.day == day, snapshots.c.state != SnapshotState.FAILED, limit=1)
        return any(not run.lapsed(now) for run in runs)

    def _begin(self, snapshot: Snapshot, fence: int, now: datetime, lease_seconds: int) -> Snapshot:
        lease_until = now + timedelta(seconds=lease_seconds)
        begun = replace(snapshot, fence=fence, state=SnapshotState.BUILDING, heartbeat_at=now, lease_until=lease_until)
        self._execute(sa.insert(snapshots).values(columns=recorded_columns(), files_stand=True, **values_of(begun)))
        return begun

    def _locked(self, snapshot_id: str) -> Snapshot:
        of_id = sa.select(*SNAPSHOT_COLUMNS).where(snapshots.c.snapshot_id == snapshot_id)
        snapshot = self._first(of_id.with_for_update(of=snapshots), snapshot_of)
        if snapshot is None:
            raise NotFound(f"Snapshot {snapshot_id} does not exist.")
        return snapshot

    def _snapshots(
        self, *conditions: sa.ColumnElement[bool], order: tuple[Any, ...] = _NEWEST, limit: int | None = None
    ) -> list[Snapshot]:
        """Return the runs that fulfill the conditions, by default newest first."""
        found = sa.select(*SNAPSHOT_COLUMNS).where(*conditions).order_by(*order).limit(limit)
        return self._all(found, snapshot_of)
