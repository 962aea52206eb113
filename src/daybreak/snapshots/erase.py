"""Erasure of a Member from the files of all kept snapshots.

The files that hold rows of the Member are copied without them, under new keys, and their manifest entries are replaced
in one transaction for each Leader and snapshot. Old files are deleted after no manifest lists them and no run can reuse
them. The database lists the keys of files to be deleted before they become unused, so an interrupted erasure continues
when it is requested again.

The state database does not store the identifier of the Member, only its digest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby

import structlog

from daybreak.domain.audit import AuditEvent
from daybreak.domain.delta import MEMBER_ERASED
from daybreak.domain.erasure import Erasure, ReplacedFiles, member_digest
from daybreak.domain.errors import Conflict, FileStoreError, OperatorError, RunError, StoreFull
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import FileRevision
from daybreak.filestore.packs import UsedObjects
from daybreak.snapshots.erasure_statements import ErasureStatements
from daybreak.snapshots.export_step import CODEC_NAMES
from daybreak.snapshots.member_files import MEMBER_RESOURCES, MemberFiles
from daybreak.snapshots.pack_trimming import complete_snapshots, trim_packs
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import STOPPED
from daybreak.snapshots.signing import authority_of
from daybreak.snapshots.verify import manifest_entries, stored_deltas
from daybreak.state.stores import Stores

COMMUNITIES = "communities"
MEMBERSHIPS = "member_communities"
_POLL_SECONDS = 1.0
_MAX_NAMED_FILES = 5
"""Files that an error names."""
_log = structlog.get_logger("daybreak.snapshots")


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Entries of one Leader in one snapshot whose files an erasure replaces, by resource: those with rows of the
    Member, then `communities`, if the Member belongs to one.
    """

    snapshot: Snapshot
    client_id: str
    entries: Mapping[str, ManifestEntry]

    @property
    def place(self) -> tuple[str, str]:
        """The snapshot and the Leader."""
        return self.snapshot.snapshot_id, self.client_id


@dataclass(frozen=True, slots=True)
class FoundMember:
    """Where a Member was found. `faults` are reasons why files could not be searched, by key. `deltas` are those that
    name the Member, by account.
    """

    files: Sequence[FoundFiles]
    faults: Mapping[str, str]
    deltas: Mapping[str, Sequence[ReplacedFiles]]


def find_member(context: RunContext, member_id: str) -> FoundMember:
    """Search the files of all kept snapshots and all deltas for a Member. Changes nothing.

    Raises Unavailable, OperatorError.
    """
    with _member_files(context, member_id) as files:
        found, faults = _found_files(context, files)
        return FoundMember(found, faults, _deltas_with_member(context, files))


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
        FileStoreError, Unavailable, RunError, OperatorError: The erasure is incomplete, and can be continued. Files
            that cannot be read do not prevent the erasure of others.
    """
    authority_of(context.state, context.settings, context.clock())
    requested = Erasure(context.new_id(), member_digest(member_id), requested_by, context.clock())
    erasure = context.state.write(lambda stores: stores.erasures.begin(requested))
    statements = ErasureStatements(context, erasure)
    with _member_files(context, member_id) as files:
        while True:
            unread = _replace_all(context, erasure, files, statements)
            for client_id, deltas in _deltas_with_member(context, files).items():
                context.state.write(partial(_withdraw_deltas, context, erasure, client_id, deltas))
            # A run that began before its files were replaced is still in progress, or its snapshot was searched.
            idle_since = context.clock()
            run = _running(context)
            if run is None:
                break
            waiting(run)
            _wait_for_end(context, run)
    statements.sign_kept_versions()
    _delete_obsolete(context, erasure, member_id, idle_since)
    if unread:
        more = len(unread) - _MAX_NAMED_FILES
        reasons = " ".join(unread[:_MAX_NAMED_FILES]) + (f" And {more:,} more." if more > 0 else "")
        raise OperatorError(
            f"The erasure is incomplete, because files that may have rows of the Member cannot be read: {reasons} "
            "All other files are done. Restore these files from a backup, or wait until their snapshots are deleted "
            "(snapshot.keep). Then run the command again."
        )
    return _finish(context, erasure, statements)


def _replace_all(context: RunContext, erasure: Erasure, files: MemberFiles, statements: ErasureStatements) -> list[str]:
    """Replace all files with rows of the Member. Return the reasons why some cannot be read.

    The search is repeated until it finds nothing, because a manifest may change during the replacement.
    """
    failures: dict[tuple[str, str], str] = {}
    while True:
        found, faults = _found_files(context, files)
        # Oldest version first, because each statement names the one before. Unpublished snapshots are last.
        remaining = sorted(
            (each for each in found if each.place not in failures),
            key=lambda each: (each.snapshot.version is None, each.snapshot.version or 0),
        )
        if not remaining:
            return [*faults.values(), *failures.values()]
        for each in remaining:
            try:
                _replace_files(context, erasure, files, each, statements)
            except StoreFull:
                raise
            except FileStoreError as error:
                if _are_listed(context, each.place, each.entries.values()):
                    failures[each.place] = error.message


def _member_files(context: RunContext, member_id: str) -> AbstractContextManager[MemberFiles]:
    settings = context.settings
    return MemberFiles.open(
        context.store, member_id, spill_folder=settings.spill_folder, codec=CODEC_NAMES[settings.snapshot.compression]
    )


def _found_files(context: RunContext, files: MemberFiles) -> tuple[list[FoundFiles], dict[str, str]]:
    """Return the files with rows of the Member, and the reasons why others cannot be read, by key."""
    found: list[FoundFiles] = []
    faults: dict[str, str] = {}
    for snapshot in context.state.read(complete_snapshots):
        by_leader: dict[str, dict[str, ManifestEntry]] = {}
        for resource in MEMBER_RESOURCES:
            for entry, fault in _search(context, files, snapshot, resource.name):
                if fault is None:
                    by_leader.setdefault(entry.client_id, {})[resource.name] = entry
                else:
                    key = next(iter(entry.formats.values())).key
                    faults[key] = fault.message if key in fault.message else f"{key}: {fault.message}"
        for client_id, entries in by_leader.items():
            communities = _communities_entry(context, snapshot, client_id, entries)
            found.append(FoundFiles(snapshot, client_id, entries | communities))
    return found, faults


def _search(
    context: RunContext, files: MemberFiles, snapshot: Snapshot, resource: str
) -> list[tuple[ManifestEntry, FileStoreError | None]]:
    """Search the files of one resource, again if a file was replaced or deleted in the meantime."""
    while True:
        found = list(files.search(manifest_entries(context.state, snapshot.snapshot_id, resource)))
        unreadable = (entry for entry, fault in found if fault is not None)
        if all(_are_listed(context, (snapshot.snapshot_id, entry.client_id), [entry]) for entry in unreadable):
            return found


def _replace_files(
    context: RunContext, erasure: Erasure, files: MemberFiles, found: FoundFiles, statements: ErasureStatements
) -> None:
    """Replace the files of one Leader in one snapshot. If its manifest changes in the meantime, the next search finds
    the Leader again.
    """
    snapshot_id, client_id = found.place
    old, chain_id = [*found.entries.values()], context.new_id()
    current = context.state.read(lambda stores: stores.snapshots.current())
    is_current = current is not None and current.snapshot_id == snapshot_id
    with context.store.revise(snapshot_id, context.new_id().replace("-", "")[:12]) as revision:
        new_keys = [revision.key(client_id, entry.resource, name) for entry in old for name in entry.formats]
        new_keys += statements.keys(found.snapshot, client_id, revision)
        reserve = partial(_reserve, erasure, new_keys)
        context.state.write(reserve)
        try:
            new = _copies(files, old, revision)
            signed = statements.write(found.snapshot, client_id, new, chain_id if is_current else None, revision)
            revision.commit()
        except FileStoreError:
            context.state.write(reserve)
            raise
    now = context.clock()
    removed = {before.resource: before.rows - after.rows for before, after in zip(old, new, strict=True)}
    old_keys = [stored.key for entry in old for stored in entry.formats.values()]

    def swap(stores: Stores) -> None:
        stores.snapshots.replace_entries(snapshot_id, old, new, now)
        replaced = [ReplacedFiles(snapshot_id, client_id, resource, rows) for resource, rows in removed.items()]
        stores.erasures.replace(erasure.erasure_id, replaced, new_keys, old_keys)
        _close_chain(context, erasure, client_id, stores, chain_id)
        if signed is not None:
            stores.signatures.add_revision(snapshot_id, client_id, signed)
        stores.audit.append(_event(erasure, now, client_id, snapshot_id, removed))

    try:
        context.state.write(swap)
    except Conflict:
        # The snapshot was deleted, or another erasure has changed it. The new files are deleted at the end, even if
        # that erasure deleted the files of these keys before they were written.
        context.state.write(reserve)
        return
    _log.info("files.erased", erasure=erasure.erasure_id, snapshot_id=snapshot_id, client_id=client_id)


def _reserve(erasure: Erasure, keys: Sequence[str], stores: Stores) -> None:
    stores.erasures.reserve(erasure.erasure_id, keys)


def _are_listed(context: RunContext, place: tuple[str, str], entries: Iterable[ManifestEntry]) -> bool:
    """Return whether the manifest of a Leader in a snapshot has the entries: no clean-up and no other erasure has
    removed them since they were found.
    """
    manifest = context.state.read(lambda stores: stores.snapshots.manifest(*place))
    return all(entry in manifest for entry in entries)


def _event(erasure: Erasure, now: datetime, client_id: str, snapshot_id: str, rows: Mapping[str, int]) -> AuditEvent:
    return AuditEvent(
        at=now,
        action="files.erased",
        result="ok",
        actor="operator",
        client_id=client_id,
        subject=snapshot_id,
        details={"erasure": erasure.erasure_id, "rows": rows},
    )


def _deltas_with_member(context: RunContext, files: MemberFiles) -> dict[str, list[ReplacedFiles]]:
    """Return the deltas that name the Member, by account. Its rows may be in deltas only. A delta that cannot be read
    is of no use to consumers, and is included without rows.
    """
    names = {resource.name for resource in MEMBER_RESOURCES}
    found: dict[str, list[ReplacedFiles]] = {}
    for snapshot_id in sorted(context.state.read(lambda stores: stores.deltas.needed())):
        for each in stored_deltas(context.state, snapshot_id):
            if each.resource not in names:
                continue
            try:
                rows = files.rows_in_delta(each.delta)
                if not rows:
                    continue
            except FileStoreError as error:
                _log.warning("delta.not_read", client_id=each.client_id, code=error.code, reason=error.message)
                rows = 0
            files_of_delta = ReplacedFiles(snapshot_id, each.client_id, f"{each.resource}.delta", rows)
            found.setdefault(each.client_id, []).append(files_of_delta)
    return found


def _close_chain(context: RunContext, erasure: Erasure, client_id: str, stores: Stores, chain_id: str) -> None:
    """End an account's chain of deltas, whose files become obsolete, and begin another one."""
    keys = stores.deltas.close_account_chain(client_id, chain_id, MEMBER_ERASED, context.clock())
    _reserve(erasure, keys, stores)


def _withdraw_deltas(
    context: RunContext, erasure: Erasure, client_id: str, deltas: Sequence[ReplacedFiles], stores: Stores
) -> None:
    """End an account's chain because of deltas that name the Member."""
    _close_chain(context, erasure, client_id, stores, context.new_id())
    stores.erasures.replace(erasure.erasure_id, deltas, [], [])
    for snapshot_id, own in groupby(deltas, lambda each: each.snapshot_id):
        rows = {each.resource: each.rows for each in own}
        stores.audit.append(_event(erasure, context.clock(), client_id, snapshot_id, rows))


def _communities_entry(
    context: RunContext, snapshot: Snapshot, client_id: str, entries: Mapping[str, ManifestEntry]
) -> dict[str, ManifestEntry]:
    """Return the entry of `communities` if the Member belongs to one: its number of members becomes lower."""
    if MEMBERSHIPS not in entries:
        return {}
    all_entries = context.state.read(lambda stores: stores.snapshots.manifest(snapshot.snapshot_id, client_id))
    return {entry.resource: entry for entry in all_entries if entry.resource == COMMUNITIES and entry.rows}


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
    runs = context.state.read(lambda stores: stores.snapshots.unpublished())
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
    # A bucket has one object for equal files of several snapshots. Another one may list `communities` of the same
    # content, if another Member took the place of this one.
    in_use = context.state.read(_keys_in_use)
    context.store.delete([key for key in keys if slice_of(key).length is None and key not in in_use])
    trim_packs(context.state, context.store, UsedObjects(keys).packs)
    context.state.truncate_log()


def _keys_in_use(stores: Stores) -> set[str]:
    """Return the keys of `communities` that kept snapshots list for accounts with unfinished erasures."""
    ids = [snapshot.snapshot_id for snapshot in complete_snapshots(stores)]
    unfinished = [each for each in stores.erasures.list_all() if each.finished_at is None]
    keys: set[str] = set()
    for client_id in {files.client_id for each in unfinished for files in each.replaced}:
        for entries in stores.snapshots.manifests(ids, client_id, [COMMUNITIES]).values():
            keys |= {stored.key for entry in entries.values() for stored in entry.formats.values()}
    return keys


def _finish(context: RunContext, erasure: Erasure, statements: ErasureStatements) -> Erasure:
    now = context.clock()
    receipts = statements.receipts(now)

    def finish(stores: Stores) -> Erasure:
        stores.erasures.finish(erasure.erasure_id, now)
        for client_id, receipt in receipts:
            stores.erasures.add_receipt(erasure.erasure_id, client_id, receipt.content, receipt.signature)
        finished = stores.erasures.get(erasure.erasure_id)
        assert finished is not None
        details = {"erasure": erasure.erasure_id, "files": len(finished.replaced)}
        stores.audit.append(AuditEvent(at=now, action="member.erased", result="ok", actor="operator", details=details))
        return finished

    return context.state.write(finish)
