"""Publication, in one transaction, and operators' decisions about held snapshots."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

import structlog

from daybreak.domain.audit import AuditEvent
from daybreak.domain.delta import STATE_RESTORED
from daybreak.domain.errors import Conflict, FileStoreError, OperatorError, RunFenced, StatementsOutdated, Unavailable
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.filestore.file_store import FileStore, PublicationMark
from daybreak.settings import Settings
from daybreak.snapshots.events import published_event
from daybreak.snapshots.signing import require_signed, sign_for_publication
from daybreak.state.stores import State, Stores

T = TypeVar("T")

_ACTOR = "service"
_SUPERSEDED = "A newer snapshot is published."
_ATTEMPTS = 5

# The snapshot of a mark whose state database does not know the latest publication: no snapshot has this id.
_RESTORED = "restored"
_log = structlog.get_logger("daybreak.snapshots")


def publish(state: State, store: FileStore, settings: Settings, snapshot: Snapshot, now: datetime) -> bool:
    """Publish a complete snapshot. Return False if another builder has published it, or if a newer one is published
    (the snapshot is then discarded). Raises Conflict, Unavailable, and OperatorError if it cannot be signed.
    """
    transaction = partial(state.write, lambda stores: publish_within(stores, snapshot.snapshot_id, now))
    return publish_signed(state, store, settings, snapshot, now, transaction)


def publish_signed(
    state: State, store: FileStore, settings: Settings, snapshot: Snapshot, now: datetime, transaction: Callable[[], T]
) -> T:
    """Sign and publish a snapshot with `transaction`, which is repeated if another publication came between.

    Raises the errors of the transaction, and those of `sign_for_publication`.
    """
    attempts_left = _ATTEMPTS
    while True:
        attempts_left -= 1
        if not is_superseded(snapshot, state.read(lambda stores: stores.snapshots.current())):
            mark_publication(state, store, snapshot)
            sign_for_publication(state, store, settings, snapshot.snapshot_id, now)
        try:
            published = transaction()
        except StatementsOutdated:
            if not attempts_left:
                raise
            continue
        except (RunFenced, Conflict, OperatorError):
            confirm_publication(state, store)
            raise
        confirm_publication(state, store)
        return published


def publish_within(stores: Stores, snapshot_id: str, now: datetime, *, fence: int | None = None) -> bool:
    """Publish as `publish` does, in the caller's transaction. With a `fence`, only the builder of the run can publish.
    Raises RunFenced, Conflict.
    """
    found = stores.snapshots.get(snapshot_id)
    if found is None or found.state in {SnapshotState.PUBLISHED, SnapshotState.RETIRED}:
        return False
    current = stores.snapshots.current()
    if found.state is SnapshotState.COMPLETE and is_superseded(found, current):
        discard_within(stores, found, now, _SUPERSEDED)
        return False
    stores.snapshots.publish(snapshot_id, fence, now)
    require_signed(stores, snapshot_id)
    _record_publication(stores, found, now, _ACTOR, {})
    return True


def _record_publication(
    stores: Stores, snapshot: Snapshot, now: datetime, actor: str, details: dict[str, object]
) -> Snapshot:
    """Add a publication to the audit trail and to the outbox. Return the snapshot as published."""
    published = stores.snapshots.get(snapshot.snapshot_id) or replace(snapshot, state=SnapshotState.PUBLISHED)
    stores.audit.append(_event(now, "snapshot.published", actor, snapshot, details))
    stores.outbox.add(published_event(published, now))
    return published


def is_superseded(snapshot: Snapshot, current: Snapshot | None) -> bool:
    """Return whether the published snapshot is newer."""
    return current is not None and current.as_of > snapshot.as_of


def discard_superseded(stores: Stores, now: datetime) -> None:
    """Discard complete snapshots that are older than the published one, in the caller's transaction."""
    current = stores.snapshots.current()
    for run in stores.snapshots.unpublished():
        if run.state is SnapshotState.COMPLETE and is_superseded(run, current):
            discard_within(stores, run, now, _SUPERSEDED)


def discard_within(stores: Stores, snapshot: Snapshot, now: datetime, reason: str, *, actor: str = _ACTOR) -> None:
    """Discard a complete or held snapshot in the caller's transaction. Raises Conflict."""
    stores.snapshots.discard(snapshot.snapshot_id, now, reason)
    stores.audit.append(_event(now, "snapshot.discarded", actor, snapshot, {"reason": reason}))


def accept(
    state: State,
    store: FileStore,
    settings: Settings,
    snapshot_id: str,
    reason: str,
    now: datetime,
    *,
    actor: str = "operator",
) -> Snapshot:
    """Publish a complete or held snapshot by decision of an operator. A held one needs a reason. Raises
    OperatorError.
    """

    def check(stores: Stores) -> Snapshot:
        found = _undecided(stores, snapshot_id, "published")
        if found.state is SnapshotState.HELD and not reason.strip():
            raise OperatorError(f"Snapshot {snapshot_id} is held. State why it is valid with --accept.")
        return found

    def work(stores: Stores) -> Snapshot:
        found = check(stores)
        try:
            stores.snapshots.publish(snapshot_id, None, now, accepted_reason=reason.strip() or None)
        except Conflict as error:
            raise OperatorError(f"Snapshot {snapshot_id} cannot be published: {error.message}") from error
        require_signed(stores, snapshot_id)
        return _record_publication(stores, found, now, actor, {"accepted": reason.strip()})

    found = state.read(check)
    return publish_signed(state, store, settings, found, now, lambda: state.write(work))


def discard(state: State, snapshot_id: str, reason: str, now: datetime, *, actor: str = "operator") -> None:
    """Discard a complete or held snapshot. The next clean-up deletes its files. Raises OperatorError."""

    def work(stores: Stores) -> None:
        discard_within(stores, _undecided(stores, snapshot_id, "discarded"), now, reason, actor=actor)

    state.write(work)


def _undecided(stores: Stores, snapshot_id: str, decision: str) -> Snapshot:
    """Return a snapshot that an operator may decide about. Raises OperatorError for another one."""
    found = stores.snapshots.get(snapshot_id)
    if found is None:
        raise OperatorError(f"There is no snapshot {snapshot_id}. Run `daybreakd snapshot list`.")
    if found.state not in {SnapshotState.HELD, SnapshotState.COMPLETE}:
        raise OperatorError(
            f"Snapshot {snapshot_id} is {found.state}. Only a complete or held snapshot can be {decision}."
        )
    return found


def _event(now: datetime, action: str, actor: str, snapshot: Snapshot, details: dict[str, object]) -> AuditEvent:
    day = snapshot.day.isoformat() if snapshot.day else "by hand"
    return AuditEvent(
        at=now, action=action, result="ok", actor=actor, subject=snapshot.snapshot_id, details={"day": day, **details}
    )


def mark_publication(state: State, store: FileStore, snapshot: Snapshot) -> None:
    """Mark a snapshot that is about to be published. Call `confirm_publication` after the transaction. If the state
    database was restored from a backup, the publication begins a new chain, with a version greater than all earlier
    ones.

    A failure of the file store does not stop the publication. Raises Unavailable when the database does not respond.
    """
    first_id, last_version, current = state.read(_last_publication)
    current_id = "" if current is None else current.snapshot_id
    if first_id is not None:
        lost_version = _lost_version(state, store, first_id, last_version)
        if lost_version is not None:
            last_version = max(last_version, lost_version)
            _log.warning("state.restored", version=last_version, snapshot_id=snapshot.snapshot_id)
            state.write(lambda stores: stores.deltas.restart_chain(snapshot.snapshot_id, STATE_RESTORED, last_version))
            current_id = _RESTORED
    _write(store, first_id or snapshot.snapshot_id, PublicationMark(last_version, current_id, snapshot.snapshot_id))


def confirm_publication(state: State, store: FileStore) -> None:
    """Mark the published snapshot, after a transaction that published it or failed. If this builder was paused before
    the write, and another one has published since, the mark is written again. Raises Unavailable when the database
    does not respond.
    """
    written = None
    while True:
        first_id, last_version, current = state.read(_last_publication)
        if first_id is None or current is None:
            return
        mark = PublicationMark(last_version, current.snapshot_id)
        if mark == written:
            return
        _write(store, first_id, mark)
        written = mark


def _last_publication(stores: Stores) -> tuple[str | None, int, Snapshot | None]:
    return stores.deltas.first_publication(), stores.deltas.last_version(), stores.snapshots.current()


def _write(store: FileStore, first_id: str, mark: PublicationMark) -> None:
    try:
        store.mark_publication(first_id, mark)
    except (FileStoreError, Unavailable) as error:
        _log.warning("publication.not_marked", code=error.code, reason=error.message)


def _lost_version(state: State, store: FileStore, first_id: str, last_version: int) -> int | None:
    """Return the version of the latest publication if the state database does not know it, because it was restored from
    an older backup. Return the last known version if the mark cannot be read.
    """
    try:
        mark = store.publication_mark(first_id)
    except (FileStoreError, Unavailable) as error:
        _log.warning("publication.mark_not_read", code=error.code, reason=error.message)
        return last_version
    if mark is None:
        return None

    def is_known(snapshot_id: str | None) -> bool:
        return snapshot_id is None or state.read(lambda stores: stores.snapshots.get(snapshot_id)) is not None

    if mark.version > last_version or not is_known(mark.snapshot_id or None):
        return mark.version
    # A builder was killed during this publication. The database knows whether it was completed, unless it does not even
    # know the run.
    return None if is_known(mark.intended_id) else mark.version + 1
