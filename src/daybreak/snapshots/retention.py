"""Which snapshots keep their files, and the removal of the others and of what dead runs left.

Nothing that a live link can reach is ever removed: a link may be asked for until the moment a snapshot is retired, and
lives `link_lifetime` from then. The database forgets a snapshot first and its files go afterwards, outside of any
transaction: a clean-up that is killed in between leaves files that nobody is told of, and the next one finds them.

A run is in the database before it writes a file, and stays there. So what the database has never heard of is another
instance's in the same store, or of after the backup that was restored: it is named and never removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.ports.files import FileStore
from daybreak.ports.state import State, Stores
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.publish import discard_within, superseded

_LOOK_BACK = 200
_ROWS_AT_ONCE = 20_000
_WANTED = frozenset({SnapshotState.COMPLETE, SnapshotState.HELD, SnapshotState.PUBLISHED})


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a clean-up did: snapshots whose files went, leftovers that went, and files in all; and which snapshots lie
    in the store that the state database does not know.
    """

    retired: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    files: int = 0
    unknown: tuple[str, ...] = ()


def may_go(served: Sequence[Snapshot], plan: RunPlan, now: datetime) -> list[Snapshot]:
    """The snapshots whose files may be removed. `served` is newest publication first, the served one at its head.

    A snapshot is retired at the moment its follower is published. A follower without that moment proves nothing.
    """
    going = []
    reach: timedelta = plan.link_lifetime + plan.link_margin
    for place, snapshot in enumerate(served):
        if place < max(plan.keep, 1) or snapshot.state is not SnapshotState.RETIRED:
            continue
        retired_at = served[place - 1].published_at
        if retired_at is not None and now >= retired_at + reach:
            going.append(snapshot)
    return going


def clean(state: State, store: FileStore, plan: RunPlan, now: datetime, *, own: str | None = None) -> Cleaned:
    """Removes files beyond retention and leftovers of runs that are over. `own` is the caller's own run: while any
    other run is under way nothing is retired, because it may be carrying files over.
    Raises FileStoreError, Unavailable.
    """
    state.write(lambda stores: _give_up_superseded(stores, now))
    # The store is listed before the database is asked: a run that starts in between is known by then.
    lying = store.snapshot_ids()

    def read(stores: Stores) -> tuple[list[Snapshot], list[Snapshot], list[Snapshot], tuple[str, ...]]:
        unknown = tuple(found for found in lying if stores.snapshots.get(found) is None)
        return stores.snapshots.served(), stores.snapshots.recent(_LOOK_BACK), stores.snapshots.abandoned(), unknown

    served, recent, abandoned, unknown = state.read(read)
    building = [run for run in recent if run.under_way(now)]
    going = [] if any(run.snapshot_id != own for run in building) else may_go(served, plan, now)
    gone = {snapshot.snapshot_id for snapshot in going}
    living = {snapshot.snapshot_id for snapshot in [*served, *building]} | {
        run.snapshot_id for run in recent if run.state in _WANTED
    }
    if own is not None:
        living.add(own)
    living -= gone
    leftovers = [found for found in lying if found not in living and found not in gone and found not in unknown]
    for snapshot in [*going, *abandoned]:
        _forget(state, snapshot.snapshot_id)
    if not going and not leftovers:
        return Cleaned(unknown=unknown)
    doomed = frozenset([*gone, *leftovers])
    keep_keys = state.read(lambda stores: _carried(stores, sorted(living), doomed))
    files = sum(store.remove(found, keep_keys.get(found, frozenset())) for found in sorted(doomed))
    return Cleaned(retired=tuple(sorted(gone)), leftovers=tuple(leftovers), files=files, unknown=unknown)


def _give_up_superseded(stores: Stores, now: datetime) -> None:
    """Complete snapshots that were overtaken will never be served: their files need not be kept."""
    served = stores.snapshots.current()
    for run in stores.snapshots.recent(_LOOK_BACK):
        if run.state is SnapshotState.COMPLETE and superseded(run, served):
            discard_within(stores, run, now, "A newer snapshot is served.")


def _forget(state: State, snapshot_id: str) -> None:
    """Deletes a snapshot's manifest rows, some thousands at a time: logins must get in between. It is not served any
    more from the first of them on.
    """
    while state.write(lambda stores: stores.snapshots.forget(snapshot_id, at_most=_ROWS_AT_ONCE)) == _ROWS_AT_ONCE:
        pass


def _carried(stores: Stores, living: Sequence[str], doomed: frozenset[str]) -> dict[str, frozenset[str]]:
    """The keys that lie in doomed snapshots' folders and that living ones name, by folder."""
    kept: dict[str, set[str]] = {}
    for key in stores.snapshots.keys_in_use(living, tuple(f"snapshots/{owner}/" for owner in sorted(doomed))):
        kept.setdefault(key.split("/", 2)[1], set()).add(key)
    return {owner: frozenset(keys) for owner, keys in kept.items()}
