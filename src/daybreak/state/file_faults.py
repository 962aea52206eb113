"""Repository of kept snapshots whose stored files are lost or damaged."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from daybreak.domain.display import format_count
from daybreak.state.schema import current_snapshot, snapshots
from daybreak.state.service_tables import file_faults
from daybreak.state.statements import Store


@dataclass(frozen=True, slots=True)
class FileFault:
    """A kept snapshot of which `files` are lost or damaged, first seen at `since`. `version` is that of its
    publication, and `is_current` whether its files are the published ones.
    """

    snapshot_id: str
    version: int
    files: int
    since: datetime
    is_current: bool

    def describe(self) -> str:
        """Return what happened and what to do, in one line."""
        files = f"{format_count(self.files, 'file')} of"
        since = f"lost or damaged since {self.since:%Y-%m-%d %H:%M} UTC."
        if self.is_current:
            return (
                f"{files} the published snapshot {self.snapshot_id[:8]} {since} The next run writes them again. To run "
                "it now: `daybreakd snapshot run`."
            )
        return (
            f"{files} version {self.version}, snapshot {self.snapshot_id[:8]}, {since} Restore them from a backup and "
            f"run `daybreakd snapshot verify {self.snapshot_id[:8]}`, or run "
            f"`daybreakd snapshot forget {self.snapshot_id[:8]}`."
        )


class FileFaultStore(Store):
    """Kept snapshots with lost or damaged files."""

    def record(self, snapshot_id: str, files: int, now: datetime, *, by_reading: bool) -> None:
        """Record how many files are lost or damaged. 0 ends an earlier fault, unless that was found by reading and this
        check compared sizes alone.
        """
        table = file_faults.c
        known = self._execute(sa.select(file_faults).where(table.snapshot_id == snapshot_id)).first()
        if known is not None and known.by_reading and not by_reading and known.files > files:
            return
        if files == 0:
            self._execute(sa.delete(file_faults).where(table.snapshot_id == snapshot_id))
            return
        since = now if known is None else known.since
        row = {"snapshot_id": snapshot_id, "files": files, "since": since, "by_reading": by_reading}
        self._upsert(file_faults, [row])

    def list_all(self) -> list[FileFault]:
        """Return the faults of snapshots that are kept, that of the published one first, then newest first."""
        is_current = snapshots.c.snapshot_id == current_snapshot.c.snapshot_id
        return self._all(
            sa.select(
                file_faults.c.snapshot_id,
                snapshots.c.version,
                file_faults.c.files,
                file_faults.c.since,
                current_snapshot.c.snapshot_id.is_not(None),
            )
            .select_from(
                file_faults.join(snapshots, snapshots.c.snapshot_id == file_faults.c.snapshot_id).outerjoin(
                    current_snapshot, is_current
                )
            )
            .where(snapshots.c.files_stand.is_(True), snapshots.c.version.is_not(None))
            .order_by(snapshots.c.version.desc()),
            FileFault,
        )

    def delete_of_deleted_snapshots(self) -> int:
        """Delete faults of snapshots that are no longer kept. Return their number."""
        kept = sa.select(snapshots.c.snapshot_id).where(snapshots.c.files_stand.is_(True))
        return self._changes(sa.delete(file_faults).where(file_faults.c.snapshot_id.not_in(kept)))
