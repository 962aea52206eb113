"""Synchronization of the directory with the operator's platform (`[directory]` in the settings)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from daybreak.access.directory.changes import DirectoryChanges, apply_changes, check_removals, compare_directories
from daybreak.access.directory.fields import format_faults
from daybreak.access.directory.platform_rows import directory_from_rows
from daybreak.domain.errors import DaybreakError, OperatorError, SourceError
from daybreak.domain.events import EventType, new_event
from daybreak.settings import DirectorySettings
from daybreak.sources.reading import DirectorySource, PlatformSource, Reading
from daybreak.state.stores import State, Stores

_EVENT_AFTER = timedelta(days=1)
_log = structlog.get_logger("daybreak.directory")


@dataclass(frozen=True, slots=True)
class DirectorySync:
    """Synchronizes the directory in the state database with the platform's. `clock` returns UTC instants."""

    settings: DirectorySettings
    source: DirectorySource
    state: State
    clock: Callable[[], datetime]

    def run(
        self, *, actor: str, dry_run: bool = False, accept_removals: bool = False
    ) -> tuple[DirectoryChanges, list[str]]:
        """Apply the differences in one transaction. Return them, and the faults of rows that were left out. `actor` is
        `operator` or `service`.

        Raises OperatorError when no queries are set or too much would be removed; SourceError when a query fails.
        """
        if not self.settings.is_synced:
            raise OperatorError(
                "No queries are configured. Set directory.accounts, directory.seats and directory.access, "
                "or use `daybreakd directory import`."
            )
        try:
            changes, faults = self._synchronize(actor, dry_run=dry_run, accept_removals=accept_removals)
        except DaybreakError as error:
            if not dry_run:
                self._record(error.message)
            raise
        if not dry_run:
            self._record(f"Rows that were left out:\n{format_faults(faults)}" if faults else None)
        return changes, faults

    def _record(self, failure: str | None) -> None:
        """Record the result, and notify operators after a day without a complete sync."""
        now = self.clock()

        def write(stores: Stores) -> None:
            status = stores.directory.record_sync(now, failure)
            if status.failing_since is not None and now - status.failing_since >= _EVENT_AFTER:
                since = status.failing_since.isoformat()
                data = {"failing_since": since, "reason": failure}
                stores.outbox.add(new_event(EventType.DIRECTORY_FAILING, since, now, data))

        self.state.write(write)

    def _synchronize(self, actor: str, *, dry_run: bool, accept_removals: bool) -> tuple[DirectoryChanges, list[str]]:
        # Compared before the write transaction: 100,000 accounts take seconds, and a writer blocks logins.
        current = self.state.read(lambda stores: stores.directory.load())
        wanted, faults = directory_from_rows(
            self._query("directory.accounts", self.settings.accounts),
            self._query("directory.seats", self.settings.seats),
            self._query("directory.access", self.settings.access),
            current,
        )
        changes = compare_directories(current, wanted, complete=True)
        if not accept_removals:
            check_removals(changes, current, self.settings.max_removed_share, faults)
        if not dry_run and not changes.is_empty:
            self.state.write(lambda stores: apply_changes(stores, changes, self.clock(), actor))
        return changes, faults

    def _query(self, setting: str, sql: str) -> list[dict[str, object]]:
        try:
            return self.source.query(sql)
        except SourceError as fault:
            raise type(fault)(f"{setting}: {fault.message}") from fault


@dataclass(frozen=True, slots=True)
class SyncingSource:
    """A row source that synchronizes the directory before each reading, so that files and seats have the same date."""

    source: PlatformSource
    sync: DirectorySync

    @property
    def engine(self) -> str:
        return self.source.engine

    def open(self, as_of: datetime) -> AbstractContextManager[Reading]:
        """Synchronize, then open the source. A failed sync is logged and does not stop the run."""
        try:
            changes, faults = self.sync.run(actor="service")
        except DaybreakError as error:
            _log.warning("directory.sync_failed", code=error.code, detail=error.message)
        else:
            if faults:
                _log.warning("directory.rows_left_out", rows=len(faults), detail=format_faults(faults))
            _log.info("directory.synced", changes=sum(1 for _ in changes.lines()))
        return self.source.open(as_of)
