"""Publication: one pointer, one transaction. And what an operator may do with a snapshot that is held."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Conflict, OperatorError
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.ports.state import State, Stores

_ACTOR = "service"


def publish(state: State, snapshot: Snapshot, now: datetime) -> bool:
    """Makes a complete snapshot the served one. False when another scheduler has done so already, or when something
    newer is served (the snapshot is then discarded). Raises Conflict, Unavailable.
    """
    return state.write(lambda stores: publish_within(stores, snapshot.snapshot_id, now))


def publish_within(stores: Stores, snapshot_id: str, now: datetime, *, fence: int | None = None) -> bool:
    """The same inside the caller's transaction; with a `fence` for its builder alone. Raises RunFenced, Conflict."""
    found = stores.snapshots.get(snapshot_id)
    if found is None or found.state in {SnapshotState.PUBLISHED, SnapshotState.RETIRED}:
        return False
    served = stores.snapshots.current()
    if found.state is SnapshotState.COMPLETE and superseded(found, served):
        discard_within(stores, found, now, "A newer snapshot is served.")
        return False
    stores.snapshots.publish(snapshot_id, fence, now)
    stores.audit.append(_event(now, "snapshot.published", _ACTOR, found, {}))
    return True


def superseded(snapshot: Snapshot, served: Snapshot | None) -> bool:
    """Whether a complete snapshot can no longer be published, because what is served is newer."""
    return served is not None and served.as_of > snapshot.as_of


def discard_within(stores: Stores, snapshot: Snapshot, now: datetime, reason: str, *, actor: str = _ACTOR) -> None:
    """Gives a complete or held snapshot up, inside the caller's transaction. Raises Conflict."""
    stores.snapshots.discard(snapshot.snapshot_id, now, reason)
    stores.audit.append(_event(now, "snapshot.discarded", actor, snapshot, {"reason": reason}))


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
        discard_within(stores, found, now, reason, actor=actor)

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
