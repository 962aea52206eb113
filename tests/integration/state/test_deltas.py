"""Chains of deltas in the state database."""

from collections.abc import Callable, Sequence

import pytest

from daybreak.domain.delta import Chain, LeaderDelta, ResourceDelta
from daybreak.domain.errors import Conflict, RunFenced
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import SnapshotState, StoredFormat
from daybreak.state.database import Database
from daybreak.state.paging import in_pages
from daybreak.state.stores import Stores
from tests.integration.state.values import LEASE_SECONDS, MINUTE, NOW, run, uuid

NORTH, SOUTH, OWN_CHAIN = uuid(1), uuid(2), uuid(0xC4A1)


def delta(client_id: str, number: int, resource: str = "members") -> LeaderDelta:
    stored = StoredFormat(10, "a" * 64, 20, "b" * 64, f"deltas/{uuid(number)}/{client_id}.{resource}")
    change = ResourceDelta(5, 6, 2, 1, 3, "c" * 64, "d" * 64, {"X": None}, {"csv": stored})
    return LeaderDelta(client_id, resource, change)


def publish(
    state: Database,
    number: int,
    base: int | None,
    *deltas: LeaderDelta,
    reason: str | None = None,
    minutes: int = 0,
    new_leaders: Sequence[str] = (),
    before: Callable[[Stores], None] = lambda _stores: None,
) -> None:
    """Publish run `number`, whose deltas begin from the snapshot `base`. Call `before` with the complete run."""

    def work(stores: Stores) -> None:
        begun = stores.snapshots.begin_manual(run(number, day=None), NOW, LEASE_SECONDS)
        key = (begun.snapshot_id, begun.fence)
        stores.snapshots.add_leaders(*key, [NORTH, SOUTH])
        stores.deltas.begin(*key, None if base is None else uuid(base), reason)
        stores.deltas.add(*key, deltas)
        stores.deltas.add_new_leaders(*key, new_leaders)
        stores.snapshots.finish(*key, SnapshotState.COMPLETE, NOW, report=RunReport())
        before(stores)
        stores.snapshots.publish(begun.snapshot_id, None, NOW + minutes * MINUTE)

    state.write(work)


def chain_of(state: Database, client_id: str = NORTH) -> Chain:
    found = state.read(lambda stores: stores.deltas.chain(client_id))
    assert found is not None
    return found


def summary(chain: Chain) -> tuple[str, int, int, list[tuple[int, list[str]]]]:
    entries = [(entry.publication.version, sorted(entry.resources)) for entry in chain.entries]
    return chain.chain_id, chain.oldest_version, chain.current.version, entries


def test_publications_with_deltas_form_a_chain(state: Database) -> None:
    assert state.read(lambda stores: stores.deltas.chain(NORTH)) is None
    publish(state, 1, None, reason="first_publication")
    publish(state, 2, 1, delta(NORTH, 2), delta(NORTH, 2, "campaigns"), delta(SOUTH, 2))
    publish(state, 3, 2)
    assert summary(chain_of(state)) == (uuid(1), 1, 3, [(2, ["campaigns", "members"]), (3, [])])
    assert summary(chain_of(state, SOUTH)) == (uuid(1), 1, 3, [(2, ["members"]), (3, [])])
    assert chain_of(state).started_by == "first_publication"
    assert chain_of(state).entries[0].resources["members"] == delta(NORTH, 2).delta
    assert state.read(lambda stores: stores.deltas.chain(uuid(3))) is None
    for publication in (2, uuid(2)):
        found = state.read(lambda stores, key=publication: stores.deltas.file(key, NORTH, "members", "csv"))  # type: ignore[misc]
        assert found is not None
        assert (found.snapshot_id, found.version, found.rows, found.format) == (uuid(2), 2, 3, "csv")
    for publication, resource, format in ((3, "members", "csv"), (2, "members", "json"), (2, "terms", "csv")):
        args = (publication, NORTH, resource, format)
        assert state.read(lambda stores, args=args: stores.deltas.file(*args)) is None  # type: ignore[misc]


def test_publication_in_between_starts_another_chain(state: Database) -> None:
    publish(state, 1, None)
    publish(state, 2, 1)
    publish(state, 3, 1, delta(NORTH, 3))
    assert summary(chain_of(state)) == (uuid(3), 3, 3, [])
    assert chain_of(state).started_by == "other_publication"
    assert state.read(lambda stores: stores.deltas.file(3, NORTH, "members", "csv")) is None
    assert state.read(lambda stores: stores.deltas.abandoned()) == [uuid(2), uuid(3)]
    publish(state, 4, 3, delta(NORTH, 4))
    assert summary(chain_of(state)) == (uuid(3), 3, 4, [(4, ["members"])])


def test_publication_without_deltas_starts_another_chain(state: Database) -> None:
    publish(state, 1, None)
    publish(state, 2, 1, delta(NORTH, 2))
    publish(state, 3, None, reason="deltas_disabled")
    assert summary(chain_of(state)) == (uuid(3), 3, 3, [])
    assert chain_of(state).started_by == "deltas_disabled"
    assert state.read(lambda stores: stores.deltas.file(2, NORTH, "members", "csv")) is None


def test_restarted_chain_has_greater_versions(state: Database) -> None:
    publish(state, 1, None)

    def restart(stores: Stores) -> None:
        for last_version in (40, 7):
            stores.deltas.restart_chain(uuid(2), "state_restored", last_version)
        assert stores.deltas.abandoned() == []

    publish(state, 2, 1, delta(NORTH, 2), before=restart)
    assert summary(chain_of(state)) == (uuid(2), 41, 41, [])
    assert chain_of(state).started_by == "state_restored"
    assert state.read(lambda stores: stores.deltas.abandoned()) == [uuid(2)]
    assert state.read(lambda stores: (stores.deltas.first_publication(), stores.deltas.last_version())) == (uuid(1), 41)


def test_chain_of_a_leader_begins_with_its_first_files(state: Database) -> None:
    publish(state, 1, None)
    publish(state, 2, 1, new_leaders=[SOUTH])
    publish(state, 3, 2, delta(SOUTH, 3))
    assert summary(chain_of(state, SOUTH)) == (uuid(1), 2, 3, [(3, ["members"])])
    assert chain_of(state, SOUTH).started_by == "account_added"
    assert chain_of(state).oldest_version == 1
    assert state.read(lambda stores: stores.deltas.new_leaders(uuid(2))) == {SOUTH}
    assert [each.client_id for each in state.read(lambda stores: list(stores.deltas.of_snapshot(uuid(2))))] == []


def test_closed_chain_of_an_account_begins_at_the_current_version(state: Database) -> None:
    publish(state, 1, None)
    publish(state, 2, 1, delta(NORTH, 2), delta(SOUTH, 2))
    closed = state.write(lambda stores: stores.deltas.close_account_chain(NORTH, OWN_CHAIN, "member_erased", NOW))
    assert closed == [delta(NORTH, 2).delta.formats["csv"].key]
    assert summary(chain_of(state)) == (OWN_CHAIN, 2, 2, [])
    assert chain_of(state).started_by == "member_erased"
    assert summary(chain_of(state, SOUTH)) == (uuid(1), 1, 2, [(2, ["members"])])
    # A run that started before compared with the old files.
    publish(state, 3, 2, delta(NORTH, 3), delta(SOUTH, 3))
    assert summary(chain_of(state)) == (OWN_CHAIN, 3, 3, [])
    assert state.read(lambda stores: stores.deltas.file(3, NORTH, "members", "csv")) is None
    assert summary(chain_of(state, SOUTH))[1:3] == (1, 3)


def test_closed_chain_of_an_account_ends_with_that_of_the_service(state: Database) -> None:
    publish(state, 1, None)
    state.write(lambda stores: stores.deltas.close_account_chain(NORTH, OWN_CHAIN, "member_erased", NOW - MINUTE))
    publish(state, 2, 1, delta(NORTH, 2))
    assert summary(chain_of(state)) == (OWN_CHAIN, 1, 2, [(2, ["members"])])
    publish(state, 3, None)
    publish(state, 4, 3, delta(NORTH, 4))
    assert summary(chain_of(state)) == (uuid(3), 3, 4, [(4, ["members"])])


def test_forgotten_deltas_shorten_the_chain(state: Database) -> None:
    publish(state, 1, None)
    for number in (2, 3, 4):
        publish(state, number, number - 1, delta(NORTH, number), delta(SOUTH, number), minutes=number)
    kept = state.read(lambda stores: stores.deltas.published_with_deltas())
    assert [each.version for each in kept] == [4, 3, 2]
    assert state.write(lambda stores: stores.deltas.forget(uuid(2), at_most=1)) == 1
    assert summary(chain_of(state)) == (uuid(1), 2, 4, [(3, ["members"]), (4, ["members"])])
    assert chain_of(state).started_by == "version_too_old"
    assert state.read(lambda stores: stores.deltas.abandoned()) == [uuid(2)]
    assert state.write(lambda stores: stores.deltas.forget(uuid(2), at_most=10)) == 1
    assert state.read(lambda stores: stores.deltas.abandoned()) == []
    assert state.write(lambda stores: stores.deltas.forget(uuid(99), at_most=10)) == 0


def test_deltas_of_runs_that_may_be_published_are_kept(state: Database) -> None:
    publish(state, 1, None)

    def begin(stores: Stores) -> int:
        begun = stores.snapshots.begin_manual(run(2, day=None), NOW, LEASE_SECONDS)
        stores.deltas.begin(begun.snapshot_id, begun.fence, uuid(1))
        stores.deltas.add(begun.snapshot_id, begun.fence, [delta(NORTH, 2)])
        return begun.fence

    fence = state.write(begin)
    assert state.read(lambda stores: stores.deltas.file(uuid(2), NORTH, "members", "csv")) is None
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.deltas.forget(uuid(2), at_most=10))
    assert uuid(2) in state.read(lambda stores: stores.deltas.needed())
    state.write(lambda stores: stores.snapshots.finish(uuid(2), fence, SnapshotState.FAILED, NOW, report=RunReport()))
    assert state.read(lambda stores: stores.deltas.abandoned()) == [uuid(2)]
    with pytest.raises(RunFenced):
        state.write(lambda stores: stores.deltas.add(uuid(2), fence, [delta(SOUTH, 2)]))
    with pytest.raises(RunFenced):
        state.write(lambda stores: stores.deltas.add_new_leaders(uuid(2), fence, [SOUTH]))
    with pytest.raises(RunFenced):
        state.write(lambda stores: stores.deltas.begin(uuid(2), fence, uuid(1)))


def test_deltas_are_read_in_pages(state: Database) -> None:
    publish(state, 1, None)
    many = [delta(uuid(number), 2, resource) for number in range(10, 1210) for resource in ("a", "b")]
    publish(state, 2, 1, *many)
    assert state.read(lambda stores: list(stores.deltas.of_snapshot(uuid(2)))) == many
    only = state.read(lambda stores: list(in_pages(lambda after: stores.deltas.deltas_after(uuid(2), "b", after))))
    assert only == [each for each in many if each.resource == "b"]


def test_versions_are_found_by_the_time_of_publication(state: Database) -> None:
    for number in (1, 2, 3):
        publish(state, number, None, minutes=10 * number)
    before, after = (
        [state.read(lambda stores, at=NOW + minutes * MINUTE, name=name: getattr(stores.deltas, name)(at))  # type: ignore[misc]
         for minutes in (5, 10, 15, 30, 35)]
        for name in ("version_before", "version_after")
    )  # fmt: skip
    assert before == [None, 1, 1, 3, 3]
    assert after == [1, 1, 2, 3, None]
