"""Manifests of snapshots."""

from random import Random

import pytest
import sqlalchemy as sa

from daybreak.domain.errors import Conflict
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import FileStatistics, SnapshotState, TableVersion
from daybreak.settings import GuardSettings
from daybreak.snapshots.guard import leader_drops
from daybreak.state.database import Database
from daybreak.state.sqlite_state import SqliteState
from tests.integration.state.values import LEASE_SECONDS, MINUTE, NOW, complete_run, entry, run, uuid

ONE, TWO, UNKNOWN = uuid(1), uuid(2), uuid(3)
# More than one page of results, and more than the maximum of one statement.
LEADERS = 10_500


def published(state: Database, number: int) -> str:
    state.write(lambda stores: complete_run(stores, number))
    state.write(lambda stores: stores.snapshots.publish(uuid(number), None, NOW + number * MINUTE))
    return uuid(number)


def test_file_is_found_by_leader_resource_and_format(state: Database) -> None:
    snapshot_id = published(state, 9)
    own = entry(snapshot_id, ONE, "members")
    for wanted in (None, snapshot_id):
        found = state.read(lambda stores, it=wanted: stores.snapshots.file(it, ONE, "members", "json"))  # type: ignore[misc]
        assert found is not None
        assert (found.snapshot_id, found.rows, found.resource, found.format) == (snapshot_id, 5, "members", "json")
        assert found.stored == own.formats["json"]
        assert (found.as_of, found.published_at) == (NOW, NOW + 9 * MINUTE)


def test_only_known_leaders_get_the_shared_file(state: Database) -> None:
    snapshot_id = published(state, 9)
    shared = state.read(lambda stores: stores.snapshots.file(None, TWO, "members", "csv"))
    assert shared is not None
    assert (shared.rows, shared.stored) == (0, entry(snapshot_id, "", "members", rows=0).formats["csv"])
    missing = [
        (UNKNOWN, "members", "csv"),
        ("", "members", "csv"),
        (ONE, "unknown", "csv"),
        (ONE, "members", "parquet"),
    ]
    for wanted in missing:
        assert state.read(lambda stores, wanted=wanted: stores.snapshots.file(None, *wanted)) is None  # type: ignore[misc]
    assert state.read(lambda stores: stores.snapshots.leader_known(snapshot_id, TWO))
    assert not state.read(lambda stores: stores.snapshots.leader_known(snapshot_id, UNKNOWN))


def test_only_published_snapshots_with_files_are_found(state: Database) -> None:
    def found(snapshot_id: str | None) -> bool:
        return state.read(lambda stores: stores.snapshots.file(snapshot_id, ONE, "members", "csv")) is not None

    assert not found(None)
    state.write(lambda stores: complete_run(stores, 8))
    assert not found(uuid(8)), "a complete snapshot is not served"
    first, second = published(state, 9), published(state, 10)
    assert found(first), "issued links still work"
    assert found(second)
    assert state.write(lambda stores: stores.snapshots.forget(first, at_most=10_000)) == 5
    assert not found(first)
    assert found(None)
    kept = state.read(lambda stores: stores.snapshots.get(first))
    assert kept is not None
    assert kept.state is SnapshotState.RETIRED
    assert [one.snapshot_id for one in state.read(lambda stores: stores.snapshots.served())] == [second]


def test_served_and_publishable_snapshots_are_not_deleted(state: Database) -> None:
    served = published(state, 9)
    state.write(lambda stores: complete_run(stores, 10))
    for snapshot_id in (served, uuid(10)):
        with pytest.raises(Conflict):
            state.write(lambda stores, it=snapshot_id: stores.snapshots.forget(it, at_most=10_000))  # type: ignore[misc]
    assert state.write(lambda stores: stores.snapshots.forget(uuid(99), at_most=10_000)) == 0


def test_manifest_of_a_leader_includes_header_only_files(state: Database) -> None:
    snapshot_id = published(state, 9)
    manifest = state.read(lambda stores: stores.snapshots.manifest(snapshot_id, ONE))
    assert [(one.client_id, one.resource, one.rows) for one in manifest] == [
        (ONE, "campaigns", 0),
        (ONE, "members", 5),
    ]
    assert manifest[1] == entry(snapshot_id, ONE, "members")
    assert manifest[0].formats == entry(snapshot_id, "", "campaigns", rows=0).formats
    assert state.read(lambda stores: stores.snapshots.manifest(snapshot_id, UNKNOWN)) == []
    assert state.read(lambda stores: stores.snapshots.manifest(uuid(99), ONE)) == []


def test_no_part_of_a_manifest_is_read_while_it_is_deleted(state: Database) -> None:
    first, _ = published(state, 9), published(state, 10)
    assert state.write(lambda stores: stores.snapshots.forget(first, at_most=1)) == 1
    assert state.read(lambda stores: list(stores.snapshots.leaders(first))), "rows are left"
    assert state.read(lambda stores: stores.snapshots.manifest(first, ONE)) == []


def test_manifests_of_many_snapshots_are_read_with_one_statement(state: Database) -> None:
    ids = [published(state, number) for number in range(9, 20)]
    statements: list[str] = []

    def count(connection: object, cursor: object, statement: str, *others: object) -> None:
        statements.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    try:
        found = state.read(lambda stores: stores.snapshots.manifests(ids, ONE, ["campaigns", "members"]))
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", count)
    # Prepared reads go directly to the driver of SQLite, without such an event.
    expected = 0 if isinstance(state, SqliteState) else 1
    assert len([each for each in statements if "FROM snapshots" in each]) == expected
    for snapshot_id in ids:
        alone = state.read(lambda stores, it=snapshot_id: stores.snapshots.manifest(it, ONE))  # type: ignore[misc]
        assert list(found[snapshot_id].values()) == alone
    assert len(found) == len(ids)


def test_keys_in_folders_of_other_snapshots_are_found(state: Database) -> None:
    started = state.write(lambda stores: stores.snapshots.begin_manual(run(7, day=None), NOW, LEASE_SECONDS))
    carried = [entry(uuid(3), TWO, "members"), entry(uuid(4), TWO, "campaigns")]
    entries = [entry(uuid(7), ONE, "members"), *carried]
    state.write(lambda stores: stores.snapshots.add_entries(started.snapshot_id, started.fence, entries))
    folders = (f"snapshots/{uuid(3)}/", f"snapshots/{uuid(5)}/")
    keys = state.read(lambda stores: list(stores.snapshots.keys_in_use(uuid(7), folders)))
    assert keys == [stored.key for stored in carried[0].formats.values()]


def test_files_are_listed_page_by_page(state: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot_id = published(state, 9)
    monkeypatch.setattr("daybreak.state.manifests._PAGE", 2)
    entries = state.read(lambda stores: list(stores.snapshots.entries(snapshot_id)))
    wanted, position = state.read(
        lambda stores: stores.snapshots.entries_after(snapshot_id, "members", None, lambda one: one == ONE)
    )
    assert wanted == [each for each in entries if each.client_id == ONE]
    assert position == ONE
    after, found, pages = ("", ""), [], []
    while page := state.read(lambda stores, after=after: stores.snapshots.places(snapshot_id, after)):  # type: ignore[misc]
        pages.append(len(page))
        found += [(*one[:2], file.key, file.bytes) for one in page for file in one[2]]
        after = page[-1][:2]
    assert (len(wanted), pages) == (1, [2, 1])
    assert found == [
        (one.resource, one.client_id, stored.key, stored.bytes) for one in entries for stored in one.formats.values()
    ]


def test_entries_of_some_leaders_are_found(state: Database) -> None:
    snapshot_id = published(state, 9)
    entries = state.read(lambda stores: list(stores.snapshots.entries(snapshot_id, "members")))
    found = state.read(lambda stores: stores.snapshots.entries_of(snapshot_id, "members", ["", ONE, UNKNOWN]))
    assert sorted(found, key=lambda one: one.client_id) == [each for each in entries if each.client_id in {"", ONE}]
    fingerprints = state.read(lambda stores: stores.snapshots.fingerprints(snapshot_id, "members"))
    assert list(fingerprints.items()) == [(one.client_id, one.fingerprint) for one in entries]


@pytest.mark.release
def test_ten_thousand_leaders_are_stored_and_read_in_order(state: Database) -> None:
    started = state.write(lambda stores: stores.snapshots.begin_manual(run(7, day=None), NOW, LEASE_SECONDS))
    run_key = (started.snapshot_id, started.fence)
    leaders = [uuid(number * 7919 % 1_000_003) for number in range(LEADERS)]
    entries = [entry(uuid(7), leader, "members", rows) for rows, leader in enumerate(leaders)]
    more = [entry(uuid(7), leader, "campaigns") for leader in leaders[:3]]
    state.write(lambda stores: stores.snapshots.add_leaders(*run_key, leaders))
    state.write(lambda stores: stores.snapshots.add_entries(*run_key, entries))
    state.write(lambda stores: stores.snapshots.add_entries(*run_key, [*more, entry(uuid(7), "", "members", 0)]))

    read = state.read(lambda stores: list(stores.snapshots.entries(uuid(7))))
    assert read == sorted(
        [*entries, *more, entry(uuid(7), "", "members", 0)], key=lambda one: (one.resource, one.client_id)
    )
    assert state.read(lambda stores: list(stores.snapshots.entries(uuid(7), "campaigns"))) == read[:3]
    assert state.read(lambda stores: list(stores.snapshots.leaders(uuid(7)))) == sorted(leaders)
    keys = state.read(lambda stores: list(stores.snapshots.keys_in_use(uuid(7), ("snapshots/",))))
    assert keys == [stored.key for one in read for stored in one.formats.values()]

    state.write(
        lambda stores: stores.snapshots.finish(*run_key, SnapshotState.FAILED, NOW, report=RunReport(), failure="x")
    )
    rows = len(read) + len(leaders)
    assert state.read(lambda stores: [one.snapshot_id for one in stores.snapshots.abandoned()]) == [uuid(7)]
    deleted = [state.write(lambda stores: stores.snapshots.forget(uuid(7), at_most=9_000)) for _ in range(2)]
    assert state.read(lambda stores: [one.snapshot_id for one in stores.snapshots.abandoned()]) == [uuid(7)], (
        "rows remain"
    )
    deleted += [state.write(lambda stores: stores.snapshots.forget(uuid(7), at_most=9_000)) for _ in range(2)]
    assert deleted == [9_000, 9_000, rows - 18_000, 0]
    assert state.read(lambda stores: list(stores.snapshots.entries(uuid(7)))) == []
    assert state.read(lambda stores: stores.snapshots.abandoned()) == []


def test_only_large_leaders_that_lost_many_rows_are_found(state: Database) -> None:
    def made(number: int, rows: dict[str, int]) -> str:
        started = state.write(lambda stores: stores.snapshots.begin_manual(run(number, day=None), NOW, LEASE_SECONDS))
        entries = [entry(uuid(number), client_id, "members", count) for client_id, count in rows.items()]
        entries += [entry(uuid(number), client_id, "campaigns", 5000) for client_id in {**before, **now}]
        state.write(lambda stores: stores.snapshots.add_entries(uuid(number), started.fence, entries))
        return uuid(number)

    draw = Random(1)
    before = {uuid(number): draw.choice((99, 100, 101, 1000)) for number in range(3_000)}
    now = {uuid(number): draw.choice((0, 49, 50, 51, 499, 500, 2000)) for number in range(1_000, 4_000)}
    expected = [
        (client_id, rows, now.get(client_id, 0))
        for client_id, rows in sorted(before.items())
        if rows >= 100 and rows - now.get(client_id, 0) > 0.5 * rows
    ]
    rules = GuardSettings(max_leader_drop_share=0.5, leader_min_rows=100)
    shared = {"": 5000}
    served, new = made(7, before | shared), made(8, now)
    findings = state.read(lambda stores: list(leader_drops(stores.snapshots, served, new, "members", rules)))
    assert [(one.client_id, one.before, one.now) for one in findings] == expected
    assert {1000, 100} <= {one.before for one in findings}
    first = findings[0]
    assert first.detail == (
        f"members of Leader {first.client_id}: 0 rows, down from {first.before:,} (-100 %, limit 50 %)."
    )
    assert state.read(lambda stores: list(leader_drops(stores.snapshots, served, new, "campaigns", rules))) == []
    assert state.read(lambda stores: list(leader_drops(stores.snapshots, uuid(99), new, "members", rules))) == []


def test_batch_with_an_existing_entry_is_refused(state: Database) -> None:
    started = state.write(lambda stores: stores.snapshots.begin_manual(run(7, day=None), NOW, LEASE_SECONDS))
    run_key = (started.snapshot_id, started.fence)
    state.write(lambda stores: stores.snapshots.add_entries(*run_key, [entry(uuid(7), ONE, "members")]))
    with pytest.raises(Conflict):
        state.write(
            lambda stores: stores.snapshots.add_entries(
                *run_key, [entry(uuid(7), TWO, "members"), entry(uuid(7), ONE, "members")]
            )
        )
    assert len(state.read(lambda stores: list(stores.snapshots.entries(uuid(7))))) == 1


def test_tables_are_found_by_version_and_time(state: Database) -> None:
    def found(client_id: str = ONE, **selected: object) -> int | None:
        at = TableVersion(**selected)  # type: ignore[arg-type]
        table = state.read(lambda stores: stores.snapshots.table(client_id, "members", at))
        return None if table is None else table.version

    for number in (9, 10, 11):
        state.write(lambda stores, it=number: complete_run(stores, it, parquet=True))  # type: ignore[misc]
        state.write(lambda stores, it=number: stores.snapshots.publish(uuid(it), None, NOW + it * MINUTE))  # type: ignore[misc]
    assert found() == 3
    assert [found(number=number) for number in (0, 1, 2, 3, 4)] == [None, 1, 2, 3, None]
    instants = [NOW + minutes * MINUTE for minutes in (8, 9, 9.5, 10, 20)]
    assert [found(not_after=instant) for instant in instants] == [None, 1, 1, 2, 3]
    assert [found(not_before=instant) for instant in instants] == [1, 1, 2, 2, None]
    assert (found(TWO), found(UNKNOWN), found("")) == (3, None, None)
    assert state.write(lambda stores: stores.snapshots.forget(uuid(9), at_most=10_000)) == 5
    for client_id, versions in ((ONE, [2, 3]), (TWO, [2, 3]), (UNKNOWN, [])):
        kept = state.read(lambda stores, it=client_id: stores.snapshots.tables(it, "members"))  # type: ignore[misc]
        assert [table.version for table in kept] == versions
    assert [found(number=1), found(not_after=instants[1]), found(not_before=instants[1])] == [None, None, 2]


def test_tables_have_files_with_statistics(state: Database) -> None:
    state.write(lambda stores: complete_run(stores, 9, parquet=True))
    state.write(lambda stores: stores.snapshots.publish(uuid(9), None, NOW))
    own, shared = (
        state.read(lambda stores, it=client_id: stores.snapshots.table(it, "members", TableVersion()))  # type: ignore[misc]
        for client_id in (ONE, TWO)
    )
    assert own is not None
    assert shared is not None
    assert own.stored == entry(uuid(9), ONE, "members", parquet=True).formats["parquet"]
    assert own.stored.statistics == FileStatistics(5, (0, 1))
    assert shared.stored == entry(uuid(9), "", "members", rows=0, parquet=True).formats["parquet"]
    assert (own.snapshot_id, own.published_at) == (uuid(9), NOW)
    published(state, 10)
    assert state.read(lambda stores: stores.snapshots.table(ONE, "members", TableVersion())) is None, "no Parquet"
    state.write(lambda stores: complete_run(stores, 11, parquet=True))
    state.write(lambda stores: stores.snapshots.publish(uuid(11), None, NOW + 11 * MINUTE))
    after = TableVersion(not_before=NOW + MINUTE)
    found = state.read(lambda stores: stores.snapshots.table(ONE, "members", after))
    assert found is not None
    assert found.version == 3, "the first one with Parquet"
