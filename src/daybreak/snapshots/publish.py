"""Publication: one pointer, one transaction. And what an operator may do with a snapshot that is held."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Conflict, OperatorError
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.ports import State, Stores

_ACTOR = "service"


def publish(state: State, snapshot: Snapshot, now: datetime, *, fence: int | None = None, actor: str = _ACTOR) -> bool:
    """Makes a complete snapshot the served one. False when another scheduler has done so already, or when something
    newer is served (the snapshot is then discarded). Raises RunFenced, Conflict, Unavailable.
    """

    def work(stores: Stores) -> bool:
        found = stores.snapshots.get(snapshot.snapshot_id)
        if found is None or found.state in {SnapshotState.PUBLISHED, SnapshotState.RETIRED}:
            return False
        served = stores.snapshots.current()
        if served is not None and served.as_of > found.as_of and found.state is SnapshotState.COMPLETE:
            reason = f"Snapshot {served.snapshot_id}, which is served, is newer."
            stores.snapshots.discard(found.snapshot_id, now, reason)
            stores.audit.append(_event(now, "snapshot.discarded", actor, found, {"reason": reason}))
            return False
        stores.snapshots.publish(found.snapshot_id, fence, now)
        stores.audit.append(_event(now, "snapshot.published", actor, found, {}))
        return True

    return state.write(work)


def accept(state: State, snapshot_id: str, reason: str, now: datetime, *, actor: str = "operator") -> Snapshot:
    """Publishes a complete or held snapshot because an operator says so; a held one needs a reason.
    Raises OperatorError with what to do instead.
    """

    def work(stores: Stores) -> Snapshot:
        found = _found(stores, snapshot_id)
        if found.state is SnapshotState.HELD and not reason.strip():
            raise OperatorError(f"Snapshot {snapshot_id} is held: say why it is right, with --accept.")
        if found.state not in {SnapshotState.HELD, SnapshotState.COMPLETE}:
            raise OperatorError(f"Snapshot {snapshot_id} is {found.state}: only a complete or held one is published.")
        try:
            stores.snapshots.publish(snapshot_id, None, now, accepted_reason=reason.strip() or None)
        except Conflict as error:
            raise OperatorError(f"Snapshot {snapshot_id} cannot be published: {error.message}") from error
        stores.audit.append(_event(now, "snapshot.published", actor, found, {"accepted": reason.strip()}))
        return stores.snapshots.get(snapshot_id) or replace(found, state=SnapshotState.PUBLISHED)

    return state.write(work)


def discard(state: State, snapshot_id: str, reason: str, now: datetime, *, actor: str = "operator") -> None:
    """Gives a complete or held snapshot up; its files go with the next clean-up. Raises OperatorError."""

    def work(stores: Stores) -> None:
        found = _found(stores, snapshot_id)
        if found.state not in {SnapshotState.HELD, SnapshotState.COMPLETE}:
            raise OperatorError(f"Snapshot {snapshot_id} is {found.state}: only a complete or held one is discarded.")
        stores.snapshots.discard(snapshot_id, now, reason)
        stores.audit.append(_event(now, "snapshot.discarded", actor, found, {"reason": reason}))

    state.write(work)


def _found(stores: Stores, snapshot_id: str) -> Snapshot:
    found = stores.snapshots.get(snapshot_id)
    if found is None:
        raise OperatorError(f"There is no snapshot {snapshot_id}: see `daybreakd snapshot list`.")
    return found


def _event(now: datetime, action: str, actor: str, snapshot: Snapshot, details: dict[str, object]) -> AuditEvent:
    day = snapshot.day.isoformat() if snapshot.day else "by hand"
    return AuditEvent(
        at=now, action=action, result="ok", actor=actor, subject=snapshot.snapshot_id, details={"day": day, **details}
    )
