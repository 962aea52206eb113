"""`sync`: bring the tables of a database to the published version of an account, in one transaction.

The database never contains a mixture of two versions. Files are downloaded and compared with their digests before the
transaction begins. Row counts are compared before it commits; a difference rolls it back, and full files replace the
deltas.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from daybreak_client.database_sync.csv_files import check_row_sizes, columns_of
from daybreak_client.database_sync.database import Applied, Database, KeyViolation, WrongContent
from daybreak_client.database_sync.plan import (
    DELTA,
    FULL,
    UNCHANGED,
    AccountState,
    Plan,
    ResourceState,
    Step,
    make_steps,
)
from daybreak_client.database_sync.versions import stored_table, version_tables
from daybreak_client.errors import Damaged, DatabaseFailed, Unreachable
from daybreak_client.folder import DEFAULT_WAIT, LockWait, ProgressCallback, locked
from daybreak_client.published import PublishedFile, SnapshotChanged
from daybreak_client.service import AccountFiles
from daybreak_client.tables import LEADER_COLUMN, Table

# Changes of the published snapshot during one sync. After two, a delta may be missing that the feed lists.
_MAX_CHANGES = 5
_CHANGES_WITH_DELTAS = 2
_MAX_AGE = timedelta(hours=25)
"""Age of data whose next files should be published: a day, and an hour to build and publish them."""
_REPEATED_CHANGES = "New snapshots were published repeatedly during the sync. Try again later."


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Receivers of progress: of downloads, from several threads, of the steps of a load as text, and of waits."""

    on_progress: ProgressCallback = lambda _file, _size_bytes: None
    on_step: Callable[[str], None] = lambda _text: None
    lock_wait: LockWait = DEFAULT_WAIT


class _AnotherSync(Exception):
    """Another process has changed the state of the account."""


@dataclass(slots=True)
class SyncRun:
    """One sync of one account. `reload` contains resources that need a full load, with the reason.

    `without_key` contains tables that cannot have their primary key, with the reason.
    """

    account: AccountFiles
    database: Database
    work_folder: Path
    callbacks: Callbacks
    reload: dict[str, str] = field(default_factory=dict)
    without_key: dict[str, str] = field(default_factory=dict)

    def run(self, *, full: bool) -> tuple[Plan, AccountState]:
        """Sync, and try again with full files when deltas do not fit. Returns the plan and the new state."""
        changes = 0
        while changes < _MAX_CHANGES:
            try:
                plan = self.plan(full=full)
                if plan.published is None:
                    assert plan.state is not None
                    if plan.feed.etag:
                        self.database.save_etag(self.account.client_id, plan.feed.etag)
                    return plan, plan.state
                if changes >= _CHANGES_WITH_DELTAS and self._reload_deltas(plan, "a delta is not available"):
                    continue
                return plan, self._perform(plan)
            except (SnapshotChanged, _AnotherSync):
                changes += 1
            except Damaged:
                if not self._reload_deltas(plan, "a delta is damaged"):
                    raise
            except WrongContent as problem:
                if problem.resource in self.reload:
                    added = self._additions(plan, problem.resource)
                    raise Damaged(f"{problem.resource}: {problem.reason} after a full load.{added}") from problem
                self.reload[problem.resource] = problem.reason
            except KeyViolation as problem:
                if problem.resource in self.without_key:
                    raise DatabaseFailed(f"{problem.resource}: {problem.reason}.") from None
                self.without_key[problem.resource] = problem.reason
        raise Unreachable(_REPEATED_CHANGES)

    def preview(self, *, full: bool) -> Plan:
        """Return the plan of a sync. Changes nothing."""
        for _ in range(_MAX_CHANGES):
            with contextlib.suppress(SnapshotChanged):
                return self.plan(full=full)
        raise Unreachable(_REPEATED_CHANGES)

    def plan(self, *, full: bool) -> Plan:
        """Compare the state of the database with the service. Changes nothing. Raises SnapshotChanged."""
        client_id = self.account.client_id
        state = self.database.state(client_id)
        again = full or bool(self.reload) or (state is not None and not state.complete)
        since = None if state is None else state.version
        feed = self.account.feed(since, state.etag if state and not again else None)
        if feed is None:
            return Plan(state)
        if feed.closed_reason:
            feed = self.account.feed()
            assert feed is not None
        # A service that was restored from a copy can publish a version again, with other files.
        latest = (feed.chain_id, feed.version, feed.snapshot_id)
        if state is not None and not again and latest == (state.chain_id, state.version, state.snapshot_id):
            return Plan(state, feed=feed)
        published, tables = self.account.published(), self.account.tables()
        if (published.version, published.snapshot_id) != (feed.version, feed.snapshot_id):
            raise SnapshotChanged
        expected = [stored_table(table, state, published) for table in tables]
        lacking = self.database.missing_tables(expected)
        reload = dict.fromkeys(lacking, "the table lacks a column") | self.reload
        if full:
            reload |= {table.name: "requested" for table in tables}
        steps = make_steps(published, feed, state, reload=reload)
        return Plan(state, published, feed, steps, tables)

    def _perform(self, plan: Plan) -> AccountState:
        """Download the files of a plan and apply them in one transaction. Returns the new state."""
        files = [file for step in plan.steps for file in step.files]
        with locked(self.work_folder, self.callbacks.lock_wait):
            self._download(files)
            plan = replace(plan, tables=tuple(version_tables(plan, self.database, self.work_folder)))
            with self.database.transaction():
                state = self._apply(plan)
            shutil.rmtree(self.work_folder, ignore_errors=True)
        return state

    def _download(self, files: Sequence[PublishedFile]) -> None:
        self.account.download(self.work_folder, files, self.callbacks.on_progress)
        self.database.renew_connection()
        max_row_bytes = self.database.max_row_bytes
        if max_row_bytes is not None:
            for file in files:
                check_row_sizes(file, self.work_folder / file.name, max_row_bytes)

    def late_reason(self, plan: Plan) -> str | None:
        """Return why the next files are late, None if they are not. Without news, only the age of the data is known."""
        if plan.published is not None:
            return plan.published.reason or "" if plan.published.late else None
        assert plan.state is not None
        as_of = plan.state.as_of
        if datetime.now(UTC) - as_of < _MAX_AGE:
            return None
        return f"The current ones describe {as_of.astimezone(UTC):%Y-%m-%d %H:%M} UTC."

    def differing(self, tables: Sequence[Table], state: AccountState) -> list[str]:
        """Return the tables whose rows are not those of the published files.

        The digest of an export is compared first. The order of rows with equal keys, and replaced characters, may
        differ; then the full file decides. A table that lacks a column differs. Raises WrongUse for a column of another
        type, Unreachable when another version was published.
        """
        found = []
        tables = [stored_table(table, state) for table in tables]
        lacking = self.database.missing_tables(tables)
        for table in tables:
            stored = state.resources[table.name]
            if table.name in lacking:
                found.append(table.name)
                continue
            self.callbacks.on_step(f"Verifying {table.name}: {stored.rows:,} rows")
            if self.database.content_sha256(table, self.account.client_id) != stored.content_sha256:
                published = self.account.published()
                (file,) = published.select([table.name], ["csv"])
                if published.snapshot_id != state.snapshot_id:
                    raise Unreachable("A new version was published during the verification. Run the sync again.")
                if file.content_sha256 != stored.content_sha256 or not self._contains(table, file):
                    found.append(table.name)
        return found

    def _contains(self, table: Table, file: PublishedFile) -> bool:
        with locked(self.work_folder, self.callbacks.lock_wait):
            self._download([file])
            path, client_id = self.work_folder / file.name, self.account.client_id
            found = columns_of(path) == table.column_names and self.database.contains(table, client_id, path)
            shutil.rmtree(self.work_folder, ignore_errors=True)
        return found

    def _apply(self, plan: Plan) -> AccountState:
        assert plan.published is not None
        client_id = self.account.client_id
        if self.database.state(client_id) != plan.state:
            raise _AnotherSync
        tables = {table.name: table for table in plan.tables}
        self.database.create_tables(plan.tables, without_key=self.without_key)
        staged, resources = {}, {}
        # Rows that refer to rows of another table, as rows of member_communities do, are deleted before these and
        # inserted after them.
        for step in reversed(plan.steps):
            with self._named_failures(plan, step.resource):
                staged[step.resource] = self._stage(tables[step.resource], step)
        for step in plan.steps:
            table, stored = tables[step.resource], plan.state.resources.get(step.resource) if plan.state else None
            with self._named_failures(plan, step.resource):
                applied = self._apply_step(table, step, staged[step.resource])
                resources[step.resource] = self._state_after(table, step, stored, applied)
        state = AccountState(
            plan.feed.version, plan.feed.chain_id, plan.feed.snapshot_id, plan.published.as_of, "", resources
        )
        self.database.save_state(client_id, state, datetime.now(UTC))
        return state

    def _stage(self, table: Table, step: Step) -> Applied | None:
        """Stage the files of a step and delete rows that are gone. Returns None for an account without rows."""
        if step.action == FULL and not self.database.count(table, self.account.client_id):
            return None
        if not step.files:
            return Applied()
        self.callbacks.on_step(f"Reading {step.resource}")
        files = [self.work_folder / file.name for file in step.files]
        return self.database.stage(table, self.account.client_id, files, full=step.action == FULL)

    def _apply_step(self, table: Table, step: Step, staged: Applied | None) -> Applied:
        """Apply one step and check the number of rows. Raises WrongContent, KeyViolation."""
        client_id, applied = self.account.client_id, Applied()
        if step.action == FULL:
            self.callbacks.on_step(f"Loading {step.resource}: {step.full.rows:,} rows")
            if staged is None:
                applied = Applied(0, 0, self.database.load(table, client_id, self.work_folder / step.full.name))
            else:
                applied = self.database.apply(table, client_id, staged, full=True)
            if table.name not in self.without_key:
                self.database.add_key(table)
        elif step.action == DELTA:
            self.callbacks.on_step(f"Applying changes to {step.resource}")
            if step.files:
                assert staged is not None
                applied = self.database.apply(table, client_id, staged, full=False)
            expected = [sum(getattr(delta, kind) for delta in step.deltas) for kind in ("deleted", "inserted")]
            if [applied.deleted, applied.inserted] != expected:
                raise WrongContent(table.name, "rows were changed in the database")
            constants = step.deltas[-1].constants or {}
            if not constants.keys() <= {*table.column_names} - {LEADER_COLUMN}:
                raise WrongContent(table.name, "a delta sets a column that it must not")
            self.database.set_constants(table, client_id, constants)
        if self.database.count(table, client_id) != step.full.rows:
            raise WrongContent(table.name, "the number of rows differs")
        return applied

    @contextlib.contextmanager
    def _named_failures(self, plan: Plan, resource: str) -> Iterator[None]:
        """Name the resource of a failure, and what the user has added to its table."""
        try:
            yield
        except DatabaseFailed as failure:
            raise DatabaseFailed(f"{resource}: {failure.message}{self._additions(plan, resource)}") from None

    def _additions(self, plan: Plan, resource: str) -> str:
        """Return a sentence about additions of the user to a table, after a space."""
        (table,) = (each for each in plan.tables if each.name == resource)
        added = self.database.additions(table)
        return f" {added}" if added else ""

    def _state_after(self, table: Table, step: Step, stored: ResourceState | None, applied: Applied) -> ResourceState:
        replaced = applied.replaced_characters
        if stored is not None and step.action != FULL:
            replaced += stored.replaced_characters
        if replaced and step.action != UNCHANGED:
            # Rows that a delta deleted may have contained some of them.
            replaced = self.database.count_replaced(table, self.account.client_id)
        columns = stored.columns if stored is not None and step.action == UNCHANGED else table.columns
        former = self.database.added_columns(step.resource) - {column.name for column in columns}
        return ResourceState(step.resource, step.full.rows, step.full.content_sha256, replaced, columns, former)

    def _reload_deltas(self, plan: Plan, reason: str) -> bool:
        """Replace the deltas of a plan by full files. Returns False if it has none."""
        found = {step.resource: reason for step in plan.steps if step.action == DELTA}
        self.reload |= found
        return bool(found)
