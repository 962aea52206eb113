"""Sync of the nine tables into a database: `daybreak sync`."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from daybreak_client.database_sync.engine import Callbacks, SyncRun
from daybreak_client.database_sync.plan import UNCHANGED, AccountState, Plan, ResourceState
from daybreak_client.database_sync.targets import open_database, place_of
from daybreak_client.errors import Busy, WrongUse
from daybreak_client.folder import DEFAULT_WAIT, LockWait, expanded, locked
from daybreak_client.service import AccountFiles

__all__ = ["UNCHANGED", "Callbacks", "ResourceResult", "SyncResult", "remove_account", "sync", "synced_accounts"]

EQUAL, DIFFERENT = "equal", "different"

_MAX_AGE_SECONDS = 7 * 24 * 3600.0


def sync(
    account: AccountFiles,
    target: str,
    *,
    schema: str | None = None,
    full: bool = False,
    verify: bool = False,
    dry_run: bool = False,
    callbacks: Callbacks | None = None,
) -> SyncResult:
    """Bring the tables of a database to the published version of an account.

    `target` is a URL: `duckdb:///exports.duckdb` or `postgresql://user@host/database`. The tables are in `schema`,
    by default `main` in DuckDB and `daybreak` in PostgreSQL, where those of several accounts are the same. All nine
    change in one transaction. Changed rows are transferred as deltas; `full` loads the full files instead. `verify`
    exports the tables again and compares their digests. `dry_run` changes nothing.

    Raises WrongUse, NotPublished, Refused, Unreachable, Damaged, DatabaseFailed, and Busy when another sync runs for
    longer than `callbacks.lock_wait`.
    """
    if dry_run and verify:
        raise WrongUse("A dry run cannot verify. Use --dry-run or --verify, not both.")
    callbacks = callbacks or Callbacks()
    with closing(open_database(target, schema, read_only=dry_run, lock_wait=callbacks.lock_wait)) as database:
        run = SyncRun(account, database, work_folder(account, place_of(target)), callbacks)
        if dry_run:
            plan = run.preview(full=full)
            return replace(_result(account, plan, None, dry_run=True), notes=_file_notes(run, plan))
        delete_old_downloads()
        plan, state = run.run(full=full)
        result = replace(_result(account, plan, state), notes=(*_file_notes(run, plan), *_notes(run, state)))
        if not verify:
            return result
        different = run.differing(plan.tables or account.tables(), state)
        verified = (
            replace(each, verified=DIFFERENT if each.resource in different else EQUAL) for each in result.resources
        )
        return replace(result, resources=tuple(verified))


def synced_accounts(target: str, schema: str | None = None, *, lock_wait: LockWait = DEFAULT_WAIT) -> frozenset[str]:
    """Return the client_ids of the accounts that a database contains. Raises WrongUse, Busy, DatabaseFailed."""
    with closing(open_database(target, schema, read_only=True, lock_wait=lock_wait)) as database:
        return frozenset(database.accounts())


def remove_account(
    target: str, client_id: str, schema: str | None = None, *, lock_wait: LockWait = DEFAULT_WAIT
) -> None:
    """Remove the rows of an account from a database. Raises WrongUse, Busy, DatabaseFailed."""
    database = open_database(target, schema, read_only=False, lock_wait=lock_wait)
    with closing(database), database.transaction():
        database.delete_account(client_id)


def _result(account: AccountFiles, plan: Plan, state: AccountState | None, *, dry_run: bool = False) -> SyncResult:
    before, after = plan.state, plan.published or plan.state
    assert after is not None
    previous = None if before is None else before.version
    if isinstance(after, AccountState):
        resources = [
            ResourceResult(each.resource, UNCHANGED, rows=each.rows, replaced_characters=each.replaced_characters)
            for each in after.resources.values()
        ]
    else:
        stored: Mapping[str, ResourceState] = state.resources if state else {}
        resources = [
            ResourceResult(
                step.resource,
                step.action,
                step.reason,
                rows=step.full.rows,
                inserted=sum(delta.inserted for delta in step.deltas),
                deleted=sum(delta.deleted for delta in step.deltas),
                size_bytes=sum(file.size_bytes for file in step.files),
                replaced_characters=stored[step.resource].replaced_characters if stored else 0,
            )
            for step in plan.steps
        ]
    at = after.version, after.snapshot_id, after.as_of
    return SyncResult(account.client_id, previous, *at, tuple(resources), dry_run=dry_run)


def _file_notes(run: SyncRun, plan: Plan) -> tuple[str, ...]:
    reason = run.late_reason(plan)
    late = "" if reason is None else f"New files are late. {reason}".strip()
    if plan.published is None:
        return (late,) if late else ()
    older = plan.published.older_note(plan.state.version if plan.state else None)
    return tuple(note for note in (late, older, plan.published.incomplete_note) if note)


def _notes(run: SyncRun, state: AccountState) -> tuple[str, ...]:
    keys = [f"{name} has no primary key: {reason}." for name, reason in run.without_key.items()]
    replaced = [
        f"{each.resource}: PostgreSQL cannot store NUL. U+FFFD, which replaces it, occurs "
        f"{each.replaced_characters} times in the table."
        for each in state.resources.values()
        if each.replaced_characters
    ]
    return (*keys, *replaced)


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """Result for one resource.

    `action` is `unchanged`, `delta` or `full`, then for `reason`. `rows` are in the table afterwards, `size_bytes` were
    downloaded. `replaced_characters` counts the characters U+FFFD in the table if some of them replace NUL, which
    PostgreSQL cannot store. `verified` is the result of the comparison with the published file: `equal` or `different`,
    empty if it was not requested.
    """

    resource: str
    action: str
    reason: str = ""
    rows: int = 0
    inserted: int = 0
    deleted: int = 0
    size_bytes: int = 0
    replaced_characters: int = 0
    verified: str = ""


@dataclass(frozen=True, slots=True)
class SyncResult:
    """Result of a sync of one account. `previous_version` is None for the first one.

    `notes` are messages for the user. After a dry run, nothing has changed.
    """

    client_id: str
    previous_version: int | None
    version: int
    snapshot_id: str
    as_of: datetime
    resources: tuple[ResourceResult, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def changed(self) -> bool:
        """Whether the version of the tables changed, or rows were loaded again."""
        return self.version != self.previous_version or any(each.action == "full" for each in self.resources)

    @property
    def different(self) -> tuple[str, ...]:
        """Resources whose tables differ from the published files."""
        return tuple(each.resource for each in self.resources if each.verified == DIFFERENT)


def work_folder(account: AccountFiles, place: str) -> Path:
    """Return the folder of downloads of one account for one database."""
    digest = hashlib.sha256(f"{account.address}\n{account.client_id}\n{place}".encode()).hexdigest()
    return _root() / digest[:32]


def delete_old_downloads() -> None:
    """Delete folders without a change for a week: those of syncs that failed and were not repeated."""
    oldest = time.time() - _MAX_AGE_SECONDS
    for folder in _root().glob("*/"):
        try:
            if max(path.stat().st_mtime for path in (folder, *folder.iterdir())) < oldest:
                with locked(folder):
                    shutil.rmtree(folder, ignore_errors=True)
        except (OSError, Busy):
            # Another sync has deleted the folder, or uses it.
            continue


def _root() -> Path:
    return expanded(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")) / "daybreak" / "sync"
