"""Erasure of a Member from the files of all kept snapshots.

The files that hold rows of the Member are copied without them, under new keys, and their manifest entries are replaced
in one transaction for each Leader and snapshot. Old files are deleted after no manifest lists them and no run can reuse
them. The database lists the keys of files to be deleted before they become unused, so an interrupted erasure continues
when it is requested again.

The state database does not store the identifier of the Member, only its digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import structlog

from daybreak.domain.audit import AuditEvent
from daybreak.domain.delta import MEMBER_ERASED, LeaderDelta
from daybreak.domain.erasure import Erasure, ReplacedFiles, member_digest
from daybreak.domain.errors import Conflict, FileStoreError, RunError
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState
from daybreak.ports.files import FileRevision
from daybreak.ports.state import Stores
from daybreak.snapshots.export_step import CODECS
from daybreak.snapshots.member_files import MEMBER_RESOURCES, MemberFiles
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import STOPPED

COMMUNITIES = "communities"
MEMBERSHIPS = "member_communities"
_RECENT_RUNS = 200
_UNPUBLISHED = frozenset({SnapshotState.COMPLETE, SnapshotState.HELD})
_POLL_SECONDS = 1.0
_log = structlog.get_logger("daybreak.snapshots")


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Entries of one Leader in one snapshot whose files hold rows of the Member, by resource."""

    snapshot: Snapshot
    client_id: str
    entries: Mapping[str, ManifestEntry]


def find_member(context: RunContext, member_id: str) -> list[FoundFiles]:
    """Return the files of all kept snapshots that hold rows of a Member. Changes nothing.

    Raises FileStoreError, Unavailable, OperatorError.
    """
    with _member_files(context, member_id) as files:
        return list(_found_files(context, files))


def erase_member(
    context: RunContext, member_id: str, requested_by: str, waiting: Callable[[Snapshot], None]
) -> Erasure:
    """Erase a Member from all stored files, and return the receipt. Continues an interrupted erasure of this Member.

    Args:
        context: Adapters and settings. `stop` ends the wait for a run.
        member_id: MEMBER_ID in lower case.
        requested_by: Name of the operator, for the receipt.
        waiting: Called once for each run that has to end first, because it may reuse or write files of the Member.

    Raises:
        FileStoreError, Unavailable, RunError, OperatorError: The erasure is incomplete, and can be continued.
    """
    requested = Erasure(context.new_id(), member_digest(member_id), requested_by, context.clock())
    erasure = context.state.write(lambda stores: stores.erasures.begin(requested))
    with _member_files(context, member_id) as files:
        while True:
            # The search is repeated until it finds nothing: a manifest may have changed during the replacement.
            while found := list(_found_files(context, files)):
                for each in found:
                    _replace_files(context, erasure, files, each)
            for client_id in _accounts_with_deltas(context, files):
                context.state.write(partial(_close_chain, context, erasure, client_id))
            # A run that began before its files were replaced is still in progress, or its snapshot was searched.
            idle_since = context.clock()
            run = _running(context)
            if run is None:
                break
            waiting(run)
            _wait_for_end(context, run)
    _delete_obsolete(context, erasure, member_id, idle_since)
    return _finish(context, erasure)


def _member_files(context: RunContext, member_id: str) -> AbstractContextManager[MemberFiles]:
    settings = context.settings
    return MemberFiles.open(
        context.store, member_id, spill_folder=settings.spill_folder, codec=CODECS[settings.snapshot.compression]
    )


def _found_files(context: RunContext, files: MemberFiles) -> Iterator[FoundFiles]:
    for snapshot in context.state.read(_kept_snapshots):
        by_leader: dict[str, dict[str, ManifestEntry]] = {}
        try:
            for resource in MEMBER_RESOURCES:
                for entry in files.search(_entries(context, snapshot, resource.name)):
                    by_leader.setdefault(entry.client_id, {})[resource.name] = entry
        except FileStoreError:
            if any(each.snapshot_id == snapshot.snapshot_id for each in context.state.read(_kept_snapshots)):
                raise
            # Its files were deleted in the meantime.
            continue
        for client_id, entries in by_leader.items():
            yield FoundFiles(snapshot, client_id, entries)


def _entries(context: RunContext, snapshot: Snapshot, resource: str) -> list[ManifestEntry]:
    return context.state.read(lambda stores: list(stores.snapshots.entries(snapshot.snapshot_id, resource)))


def _kept_snapshots(stores: Stores) -> list[Snapshot]:
    """Return the snapshots with complete files, the published one first."""
    unpublished = [run for run in stores.snapshots.recent(_RECENT_RUNS) if run.state in _UNPUBLISHED]
    return [*stores.snapshots.served(), *unpublished]


def _replace_files(context: RunContext, erasure: Erasure, files: MemberFiles, found: FoundFiles) -> None:
    """Replace the files of one Leader in one snapshot. If its manifest changes in the meantime, the next search finds
    the Leader again.
    """
    snapshot_id, client_id = found.snapshot.snapshot_id, found.client_id
    old = [*found.entries.values(), *_communities_entry(context, found)]
    revision = context.store.revise(snapshot_id, context.new_id().replace("-", "")[:12])
    new_keys = [revision.key(client_id, entry.resource, name) for entry in old for name in entry.formats]
    context.state.write(lambda stores: stores.erasures.reserve(erasure.erasure_id, new_keys))
    new = _copies(files, old, revision)
    revision.commit()
    now = context.clock()
    removed = {before.resource: before.rows - after.rows for before, after in zip(old, new, strict=True)}
    old_keys = [stored.key for entry in old for stored in entry.formats.values()]
    event = AuditEvent(
        at=now,
        action="files.erased",
        result="ok",
        actor="operator",
        client_id=client_id,
        subject=snapshot_id,
        details={"erasure": erasure.erasure_id, "rows": removed},
    )

    def swap(stores: Stores) -> None:
        stores.snapshots.replace_entries(snapshot_id, old, new, now)
        replaced = [ReplacedFiles(snapshot_id, client_id, resource, rows) for resource, rows in removed.items()]
        stores.erasures.replace(erasure.erasure_id, replaced, new_keys, old_keys)
        _close_chain(context, erasure, client_id, stores)
        stores.audit.append(event)

    try:
        context.state.write(swap)
    except Conflict:
        # The snapshot was deleted, or another erasure has changed it.
        return
    _log.info("files.erased", erasure=erasure.erasure_id, snapshot_id=snapshot_id, client_id=client_id)


def _accounts_with_deltas(context: RunContext, files: MemberFiles) -> set[str]:
    """Return the accounts with deltas that name the Member. Its rows may be in deltas only."""
    names = {resource.name for resource in MEMBER_RESOURCES}
    found: set[str] = set()
    for snapshot_id in context.state.read(lambda stores: stores.deltas.needed()):
        for each in context.state.read(partial(_deltas_of, snapshot_id)):
            if each.resource in names and each.client_id not in found and files.occurs_in_delta(each.delta):
                found.add(each.client_id)
    return found


def _deltas_of(snapshot_id: str, stores: Stores) -> list[LeaderDelta]:
    return list(stores.deltas.of_snapshot(snapshot_id))


def _close_chain(context: RunContext, erasure: Erasure, client_id: str, stores: Stores) -> None:
    """End an account's chain of deltas, whose files become obsolete."""
    keys = stores.deltas.close_account_chain(client_id, context.new_id(), MEMBER_ERASED, context.clock())
    stores.erasures.reserve(erasure.erasure_id, keys)


def _communities_entry(context: RunContext, found: FoundFiles) -> list[ManifestEntry]:
    """Return the entry of `communities` if the Member belongs to one: its number of members becomes lower."""
    if MEMBERSHIPS not in found.entries:
        return []
    entries = context.state.read(lambda stores: stores.snapshots.manifest(found.snapshot.snapshot_id, found.client_id))
    return [entry for entry in entries if entry.resource == COMMUNITIES and entry.rows]


def _copies(files: MemberFiles, old: Sequence[ManifestEntry], revision: FileRevision) -> list[ManifestEntry]:
    """Write the copies of the entries' files. `communities` is the last entry, if it is one of them."""
    new = []
    removed: Mapping[str, int] = {}
    for entry in old:
        if entry.resource == COMMUNITIES:
            new.append(files.with_fewer_members(entry, revision, removed))
        else:
            copy, by_community = files.without_member(entry, revision)
            new.append(copy)
            if entry.resource == MEMBERSHIPS:
                removed = by_community
    return new


def _running(context: RunContext) -> Snapshot | None:
    now = context.clock()
    runs = context.state.read(lambda stores: stores.snapshots.recent(_RECENT_RUNS))
    return next((run for run in runs if run.is_running(now)), None)


def _wait_for_end(context: RunContext, run: Snapshot) -> None:
    while True:
        found = context.state.read(lambda stores: stores.snapshots.get(run.snapshot_id))
        if found is None or not found.is_running(context.clock()):
            return
        if context.stop.wait(_POLL_SECONDS):
            raise RunError("The erasure was stopped. Run the command again to complete it.", code=STOPPED)


def _delete_obsolete(context: RunContext, erasure: Erasure, member_id: str, idle_since: datetime) -> None:
    """Delete the replaced files, the files of dead runs, and mentions in reports. No run is in progress."""
    clean(context.state, context.store, context.settings, context.clock())
    if context.spill is not None:
        context.spill.delete_before(idle_since)
    context.state.write(lambda stores: stores.snapshots.redact_reports(member_id))
    keys = context.state.write(lambda stores: stores.erasures.take_obsolete(erasure.erasure_id))
    context.store.delete(keys)


def _finish(context: RunContext, erasure: Erasure) -> Erasure:
    now = context.clock()

    def finish(stores: Stores) -> Erasure:
        stores.erasures.finish(erasure.erasure_id, now)
        finished = stores.erasures.get(erasure.erasure_id)
        assert finished is not None
        details = {"erasure": erasure.erasure_id, "files": len(finished.replaced)}
        stores.audit.append(AuditEvent(at=now, action="member.erased", result="ok", actor="operator", details=details))
        return finished

    return context.state.write(finish)
