"""Erasure of a Member from the files of all kept snapshots."""

import gzip
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import obstore
import psycopg
import pytest
from psycopg import sql

from daybreak.domain.audit import AuditQuery
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.erasure import Erasure, member_digest
from daybreak.domain.errors import OperatorError
from daybreak.domain.events import Delivery, EventType, new_event
from daybreak.domain.run_report import Finding, RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import FileStore
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.objects import PART_BYTES
from daybreak.filestore.packs import NO_PACKS, Packing
from daybreak.snapshots import erase as erase_module
from daybreak.snapshots.copy_files import copy_files
from daybreak.snapshots.disk_space import SpillFolder
from daybreak.snapshots.erase import FoundMember, erase_member, find_member
from daybreak.snapshots.lost_files import find_lost_files
from daybreak.snapshots.member_files import MemberInSource, member_in_source
from daybreak.snapshots.retention import forget
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import verify_snapshot
from daybreak.sources.duckdb import DuckdbSource
from daybreak.state.database import open_state
from daybreak.state.migrate import migrate
from daybreak.state.stores import State, Stores
from tests.configured import configured
from tests.parts.buckets import open_bucket
from tests.parts.erasure import AS_OF, TRACES, Person, delete_person, make_person, traces_in
from tests.parts.s3 import S3Bucket
from tests.parts.sources import duckdb_source
from tests.parts.stored_files import is_stored, lose_stored, overwrite_stored, parquet_file, read_stored
from tests.parts.variants import one_of
from tests.small_platform import context_in, create_state, fail_runs, now

FORMATS = ("csv", "json", "ndjson", "parquet")
PACKINGS = [NO_PACKS, Packing(file_bytes=65_536, pack_bytes=100_000)]
ROWS_OF_MEMBER = {"members", "member_state_changes", "member_term_accepts", "custom_member_data", "member_communities"}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Person]:
    """A folder with a platform and a published snapshot, to copy."""
    folder = tmp_path_factory.mktemp("published")
    create_state(folder)
    person = make_person(folder / "platform")
    context = platform_context(folder)
    run_manually(context, as_of=AS_OF)
    context.state.close()
    return folder, person


@pytest.fixture
def folder(published: tuple[Path, Person], tmp_path: Path) -> Path:
    return shutil.copytree(published[0], tmp_path / "copy")


@pytest.fixture
def person(published: tuple[Path, Person]) -> Person:
    return published[1]


@pytest.fixture
def context(folder: Path) -> Iterator[RunContext]:
    found = platform_context(folder)
    yield found
    found.state.close()


def platform_context(folder: Path, *, state: State | None = None, store: FileStore | None = None) -> RunContext:
    """Return a context that also makes the files with changes for Delta Sharing."""
    source = duckdb_source(folder / "platform", folder / "spill", threads=1)
    settings = configured(
        snapshot={"formats": FORMATS, "keep": 3, "temp_dir": folder / "spill"}, sharing={"enabled": True}
    )
    spill = SpillFolder(folder / "spill", folder / "files")
    return replace(context_in(folder, state=state, store=store, settings=settings), source=source, spill=spill)


def erase(context: RunContext, person: Person) -> None:
    erasure = erase_member(context, person.member_id, "ana@host", lambda run: pytest.fail(f"waits for {run}"))
    assert erasure.finished_at is not None


def entries_of(context: RunContext, snapshot: Snapshot) -> dict[tuple[str, str], ManifestEntry]:
    found = context.state.read(lambda stores: list(stores.snapshots.entries(snapshot.snapshot_id)))
    return {(entry.client_id, entry.resource): entry for entry in found}


def content_of(entry: ManifestEntry) -> dict[str, tuple[str, int]]:
    return {name: (stored.content_sha256, entry.rows) for name, stored in entry.formats.items() if name != "parquet"}


def kept(context: RunContext) -> list[Snapshot]:
    return context.state.read(lambda stores: stores.snapshots.served())


def parquet_rows(folder: Path, stored: StoredFormat) -> list[tuple[object, ...]]:
    """Return the columns with their field ids, and the rows."""
    file = f"'{parquet_file(folder / 'files', stored.key, folder)}'"
    with duckdb.connect() as engine:
        columns = engine.execute(f"SELECT name, field_id FROM parquet_schema({file}) WHERE type IS NOT NULL").fetchall()
        return columns + engine.execute(f"SELECT * FROM {file} ORDER BY ALL").fetchall()


@pytest.mark.release
def test_erased_files_equal_those_of_a_platform_without_the_member(
    context: RunContext, person: Person, folder: Path, tmp_path: Path
) -> None:
    """In every format; other Leaders keep their files."""
    (before,) = kept(context)
    untouched = entries_of(context, before)
    erase(context, person)

    other = tmp_path / "other"
    shutil.copytree(folder / "platform", other / "platform")
    create_state(other)
    delete_person(other / "platform", person)
    expected_context = platform_context(other)
    expected = entries_of(expected_context, run_manually(expected_context, as_of=AS_OF, full=True))
    expected_context.state.close()

    found = entries_of(context, before)
    assert found.keys() == untouched.keys()
    changed = {key for key in found if found[key] != untouched[key]}
    assert changed == {(person.client_id, name) for name in (*ROWS_OF_MEMBER, "communities")}
    for client_id, resource in changed:
        mine = found[client_id, resource]
        # A Leader without rows has a separate entry after an erasure.
        theirs = expected.get((client_id, resource)) or expected["", resource]
        assert content_of(mine) == content_of(theirs), resource
        assert {name: mine.formats[name].sha256 for name in ("csv", "json", "ndjson")} == {
            name: theirs.formats[name].sha256 for name in ("csv", "json", "ndjson")
        }
        assert parquet_rows(folder, mine.formats["parquet"]) == parquet_rows(other, theirs.formats["parquet"])
        assert mine.fingerprint != untouched[client_id, resource].fingerprint


@pytest.mark.parametrize("packing", one_of(*PACKINGS))
def test_no_trace_of_the_member_is_left(context: RunContext, person: Person, folder: Path, packing: Packing) -> None:
    """Published, retired and held snapshots, with reused files, and the leftovers of killed processes."""
    context = replace(context, store=LocalDisk(folder / "files", packing))
    run_manually(context, as_of=AS_OF, full=True)
    second = run_manually(context, as_of=AS_OF + timedelta(hours=1))
    assert second.report.files_carried
    run_day(context, now().date() + timedelta(days=2))
    leftover = folder / "spill" / "killed"
    leftover.parent.mkdir(exist_ok=True)
    leftover.write_bytes(b"+19995550123")
    delete_person(folder / "platform", person)
    found = [path for path in traces_in(folder) if "snapshots" in path]
    assert any(path.endswith(".pack") for path in found)
    assert any(not path.endswith(".pack") for path in found) == (packing == NO_PACKS)
    erase(context, person)
    assert traces_in(folder) == []
    runs = context.state.read(lambda stores: stores.snapshots.recent())
    assert [run.state for run in runs][:3] == [SnapshotState.COMPLETE, SnapshotState.PUBLISHED, SnapshotState.RETIRED]
    for run in runs:
        assert verify_snapshot(context.state, context.store, run.snapshot_id).damaged == ()
    assert find_member(context, person.member_id) == FoundMember([], {}, {})


@pytest.mark.release
@pytest.mark.parametrize("packing", one_of(*PACKINGS))
def test_copy_after_an_erasure_deletes_the_member_from_an_earlier_copy(
    context: RunContext, person: Person, folder: Path, tmp_path: Path, packing: Packing
) -> None:
    context = replace(context, store=LocalDisk(folder / "files", packing))
    run_manually(context, as_of=AS_OF, full=True)
    target = LocalDisk(tmp_path / "target")
    copy_files(context.state, context.store, target, 2, lambda _: None)
    assert traces_in(tmp_path / "target")
    delete_person(folder / "platform", person)
    erase(context, person)
    assert copy_files(context.state, context.store, target, 2, lambda _: None).faults == []
    assert traces_in(tmp_path / "target") == []
    for snapshot in kept(context):
        assert verify_snapshot(context.state, target, snapshot.snapshot_id).damaged == ()


@pytest.mark.release
def test_snapshot_before_many_failed_runs_is_searched(context: RunContext, person: Person) -> None:
    complete = run_day(context, (now() + timedelta(days=2)).date())
    assert complete is not None
    assert complete.state is SnapshotState.COMPLETE
    fail_runs(context, 250)
    found = {each.snapshot.snapshot_id for each in find_member(context, person.member_id).files}
    assert complete.snapshot_id in found


@pytest.mark.release
@pytest.mark.parametrize("packing", one_of(PACKINGS[1], PACKINGS[0]))
def test_no_trace_is_left_in_a_bucket_and_in_postgresql(
    s3_bucket: S3Bucket, postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str], packing: Packing,
) -> None:  # fmt: skip
    """The deltas of a new Member contain all its values, also those for Delta Sharing."""
    migrate(postgresql_url)
    store = open_bucket(s3_bucket, monkeypatch, packing=packing)
    person = make_person(tmp_path / "later", leaders=2, members=30)
    shutil.copytree(tmp_path / "later", tmp_path / "platform")
    delete_person(tmp_path / "platform", person)
    context = platform_context(tmp_path, state=open_state(postgresql_url), store=store)
    try:
        run_manually(context, as_of=AS_OF)
        shutil.rmtree(tmp_path / "platform")
        (tmp_path / "later").rename(tmp_path / "platform")
        run_manually(context, as_of=AS_OF + timedelta(hours=1))
        download_all(s3_bucket, postgresql_url, tmp_path / "before")
        found = traces_in(tmp_path / "before" / "deltas")
        names = [f"members.delta.{end}" for end in ("csv.gz", "json.gz", "parquet")]
        if packing.file_bytes:
            names = [".pack"]
        assert [name for name in names if any(path.endswith(name) for path in found)] == names
        shutil.rmtree(tmp_path / "before")

        delete_person(tmp_path / "platform", person)
        erase(context, person)
        download_all(s3_bucket, postgresql_url, tmp_path / "after")
        assert traces_in(tmp_path) == []
        for snapshot in kept(context):
            assert verify_snapshot(context.state, store, snapshot.snapshot_id).damaged == ()
        output = capfd.readouterr()
        assert not [trace for trace in TRACES if trace.decode() in output.out + output.err]
    finally:
        context.state.close()


def add_large_values(platform: Path, person: Person, seed: int) -> None:
    """Give another Member of the Leader values that compress to more than two parts of an upload."""
    values = "array_to_string([md5($2 || '/' || i || '/' || j) FOR j IN range(600)], '')"
    with duckdb.connect() as engine:
        path = platform / "custom_field_values.parquet"
        engine.execute(
            f"CREATE TABLE changed AS SELECT * FROM '{path}' WHERE custom_field_name NOT LIKE 'large%' "
            "UNION ALL BY NAME "
            "SELECT member_id, leader_id, 'large ' || i AS custom_field_name, "
            f"{values} AS custom_field_value FROM range(2000) r (i), (SELECT member_id, leader_id FROM "
            f"'{platform}/members.parquet' WHERE leader_id = $1 AND member_id <> $3 ORDER BY member_id LIMIT 1)",
            [person.client_id, str(seed), person.member_id],
        )
        engine.execute(f"COPY changed TO '{path}' (FORMAT parquet)")


def hand_over_memberships(platform: Path, person: Person) -> None:
    """Let another Member take the place of the person in its communities, whose numbers of members stay."""
    path = platform / "community_memberships.parquet"
    with duckdb.connect() as engine:
        engine.execute(
            f"CREATE TABLE changed AS SELECT * REPLACE (CASE WHEN member_id = $1 THEN (SELECT member_id FROM "
            f"'{platform}/members.parquet' WHERE leader_id = $2 AND subscription_state = (SELECT subscription_state "
            f"FROM '{platform}/members.parquet' WHERE member_id = $1) AND member_id NOT IN (SELECT member_id FROM "
            f"'{path}') ORDER BY member_id LIMIT 1) ELSE member_id END AS member_id) FROM '{path}'",
            [person.member_id, person.client_id],
        )
        engine.execute(f"COPY changed TO '{path}' (FORMAT parquet)")


@pytest.mark.release
def test_files_of_several_parts_change_and_are_erased(
    s3_bucket: S3Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day with the seed of the day before reuses the file, the last one compares the new file with the old one.

    `communities` is one object for all days, though the person left before the second one.
    """
    store = open_bucket(s3_bucket, monkeypatch)
    create_state(tmp_path)
    person = make_person(tmp_path / "platform")
    context = platform_context(tmp_path, store=store)
    settings = configured(context.settings, snapshot={"formats": ("csv", "json")}, sharing={"enabled": False})
    context = replace(context, settings=settings)
    large = (person.client_id, "custom_member_data")
    try:
        for day, seed in enumerate((1, 1, 2)):
            add_large_values(tmp_path / "platform", person, seed)
            run = run_manually(context, as_of=AS_OF + timedelta(days=day))
            assert run.state is SnapshotState.PUBLISHED
            stored = entries_of(context, run)[large].formats
            assert min(stored[name].bytes for name in ("csv", "json")) > 2 * PART_BYTES
            if day == 0:
                hand_over_memberships(tmp_path / "platform", person)
        communities = [entries_of(context, each)[person.client_id, "communities"] for each in kept(context)]
        assert len({stored.key for entry in communities for stored in entry.formats.values()}) == 2
        delete_person(tmp_path / "platform", person)
        erase(context, person)
        for snapshot in kept(context):
            assert verify_snapshot(context.state, store, snapshot.snapshot_id).damaged == ()
        run = run_manually(context, as_of=AS_OF + timedelta(days=3))
        assert verify_snapshot(context.state, store, run.snapshot_id).damaged == ()
    finally:
        context.state.close()


def download_all(bucket: S3Bucket, database_url: str, folder: Path) -> None:
    """Write all objects of a bucket and all rows of a database to files."""
    objects = bucket.server.store(bucket.name)
    for meta in (meta for batch in obstore.list(objects) for meta in batch):
        path = folder / meta["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(obstore.get(objects, meta["path"]).bytes()))
    with psycopg.connect(database_url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = {
            name: connection.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(name))).fetchall()
            for (name,) in tables
        }
    (folder / "database.txt").write_text(repr(rows), "utf-8")


@pytest.mark.release
def test_next_run_writes_the_files_of_the_leader_again(context: RunContext, person: Person, folder: Path) -> None:
    erase(context, person)
    delete_person(folder / "platform", person)
    erased = entries_of(context, kept(context)[0])
    after = entries_of(context, run_manually(context, as_of=AS_OF))
    own = {key for key in after if key[0] == person.client_id and key[1] in ROWS_OF_MEMBER}
    assert {key: content_of(after[key]) for key in own} == {key: content_of(erased[key]) for key in own}
    assert all(after[key].fingerprint != erased[key].fingerprint for key in own)
    assert traces_in(folder / "files") == []


def test_members_of_communities_are_counted_again(context: RunContext, person: Person, folder: Path) -> None:
    erase(context, person)
    found = entries_of(context, kept(context)[0])
    paths = [
        parquet_file(folder / "files", found[person.client_id, name].formats["parquet"].key, folder)
        for name in ("communities", "member_communities")
    ]
    with duckdb.connect() as engine:
        wrong = engine.execute(
            f"SELECT * FROM '{paths[0]}' c WHERE member_count <> "
            f"(SELECT count(*) FROM '{paths[1]}' m WHERE m.community_id = c.community_id)"
        ).fetchall()
    assert wrong == []


def next_day_without(person: Person, context: RunContext, folder: Path) -> tuple[Snapshot, list[LeaderDelta]]:
    """Delete a person on the platform, and publish a snapshot. Return it with its deltas."""
    delete_person(folder / "platform", person)
    snapshot = run_manually(context, as_of=AS_OF + timedelta(hours=1))
    return snapshot, context.state.read(lambda stores: list(stores.deltas.of_snapshot(snapshot.snapshot_id)))


def test_chain_of_the_account_ends(context: RunContext, person: Person, folder: Path) -> None:
    """Deltas that name the Member are deleted, even if no kept full file does. Other accounts keep theirs."""
    second, deltas = next_day_without(person, context, folder)
    (first,) = (each for each in kept(context) if each.snapshot_id != second.snapshot_id)
    context.state.write(lambda stores: stores.snapshots.forget(first.snapshot_id, at_most=10_000))
    own = [each for each in deltas if each.client_id == person.client_id]
    assert own, "the run made deltas"
    before = context.state.read(lambda stores: stores.deltas.chain(person.client_id))
    erase(context, person)
    assert not [key for each in own for key in keys_of(each) if is_stored(folder / "files", key)]
    after = context.state.read(lambda stores: stores.deltas.chain(person.client_id))
    assert before is not None
    assert after is not None
    assert (len(before.entries), after.entries, after.started_by) == (1, (), "member_erased")
    assert after.chain_id != before.chain_id
    others = context.state.read(lambda stores: list(stores.deltas.of_snapshot(second.snapshot_id)))
    assert [each for each in deltas if each.client_id != person.client_id] == others
    assert all(is_stored(folder / "files", key) for each in others for key in keys_of(each))


def keys_of(delta: LeaderDelta) -> list[str]:
    return [stored.key for stored in delta.delta.formats.values()]


def test_search_changes_nothing(context: RunContext, person: Person, folder: Path) -> None:
    (snapshot,) = kept(context)
    before = entries_of(context, snapshot)
    (found,) = find_member(context, person.member_id).files
    assert (found.snapshot.snapshot_id, found.client_id) == (snapshot.snapshot_id, person.client_id)
    assert found.entries.keys() == {*ROWS_OF_MEMBER, "communities"}
    assert entries_of(context, snapshot) == before
    assert context.state.read(lambda stores: stores.erasures.list_all()) == []


def test_unreadable_file_does_not_stop_the_erasure_of_others(context: RunContext, person: Person, folder: Path) -> None:
    """The erasure is incomplete until the file is restored."""
    (snapshot,) = kept(context)
    entries = entries_of(context, snapshot)
    missing, damaged = [
        entry for (client_id, resource), entry in entries.items()
        if resource == "members" and entry.rows and client_id not in {"", person.client_id}
    ][:2]  # fmt: skip
    files = folder / "files"
    contents = {
        stored.key: read_stored(files, stored.key) for each in (missing, damaged) for stored in each.formats.values()
    }
    for stored in missing.formats.values():
        lose_stored(files, stored.key)
    for stored in damaged.formats.values():
        overwrite_stored(files, stored.key, contents[stored.key][:-20] + bytes(20))
    with pytest.raises(OperatorError, match="All other files are done") as caught:
        erase(context, person)
    for entry in (missing, damaged):
        assert next(iter(entry.formats.values())).key in caught.value.message
    found = find_member(context, person.member_id)
    assert (found.files, found.deltas, len(found.faults)) == ([], {}, 2)
    assert [receipt.finished_at for receipt in context.state.read(lambda stores: stores.erasures.list_all())] == [None]
    for key, content in contents.items():
        overwrite_stored(files, key, content)
    erase(context, person)
    (receipt,) = context.state.read(lambda stores: stores.erasures.list_all())
    assert receipt.finished_at is not None
    assert find_member(context, person.member_id) == FoundMember([], {}, {})


def test_damaged_file_is_not_copied(context: RunContext, person: Person, folder: Path) -> None:
    """DuckDB reads it, and the copy would have a valid digest."""
    (snapshot,) = kept(context)
    stored = entries_of(context, snapshot)[person.client_id, "members"].formats["parquet"]
    content = read_stored(folder / "files", stored.key)
    overwrite_stored(folder / "files", stored.key, content.replace(b"daybreak parquet", b"Daybreak parquet"))
    with pytest.raises(OperatorError, match="does not match"):
        erase(context, person)
    overwrite_stored(folder / "files", stored.key, content)
    erase(context, person)
    assert find_member(context, person.member_id) == FoundMember([], {}, {})


def test_damaged_format_is_searched_in_another_one(context: RunContext, person: Person, folder: Path) -> None:
    (snapshot,) = kept(context)
    for (client_id, resource), entry in entries_of(context, snapshot).items():
        if resource == "members" and client_id not in {"", person.client_id}:
            lose_stored(folder / "files", entry.formats["csv"].key)
    erase(context, person)
    assert find_member(context, person.member_id) == FoundMember([], {}, {})


def test_deltas_are_part_of_the_receipt(context: RunContext, person: Person, folder: Path) -> None:
    """The Member's rows are in deltas only."""
    second, deltas = next_day_without(person, context, folder)
    (first,) = (each for each in kept(context) if each.snapshot_id != second.snapshot_id)
    context.state.write(lambda stores: stores.snapshots.forget(first.snapshot_id, at_most=10_000))
    own = {each.resource for each in deltas if each.client_id == person.client_id and each.delta.has_rows}
    found = find_member(context, person.member_id)
    assert (found.files, found.faults) == ([], {})
    assert {(each.snapshot_id, each.resource) for each in found.deltas[person.client_id]} == {
        (second.snapshot_id, f"{resource}.delta") for resource in own & ROWS_OF_MEMBER
    }
    rows = {each.resource: each.rows for each in found.deltas[person.client_id]}
    assert rows["members.delta"] == 1
    erase(context, person)
    (receipt,) = context.state.read(lambda stores: stores.erasures.list_all())
    assert list(receipt.replaced) == found.deltas[person.client_id]
    events = context.state.read(lambda stores: stores.audit.read(AuditQuery(client_id=person.client_id)))
    erased = [event.details["rows"] for event in events if event.action == "files.erased"]
    assert erased == [rows]
    assert find_member(context, person.member_id) == FoundMember([], {}, {})


@pytest.mark.release
def test_lost_delta_ends_the_chain_of_its_account(context: RunContext, person: Person, folder: Path) -> None:
    """It may have rows of the Member, and consumers cannot use it."""
    _, deltas = next_day_without(person, context, folder)
    own = next(each for each in deltas if each.client_id == person.client_id and each.resource == "members")
    lose_stored(folder / "files", own.delta.formats["csv"].key)
    erase(context, person)
    chain = context.state.read(lambda stores: stores.deltas.chain(person.client_id))
    assert chain is not None
    assert chain.started_by == "member_erased"


@pytest.mark.parametrize("full_files", ["kept", "deleted"])
def test_next_run_withdraws_the_deltas_of_a_version_that_has_lost_one(
    context: RunContext, person: Person, folder: Path, full_files: str
) -> None:
    """Consumers that need it would wait for it, for as long as deltas are kept: longer than full files."""
    second, deltas = next_day_without(person, context, folder)
    if full_files == "deleted":
        run_manually(context, as_of=AS_OF + timedelta(hours=2))
        forget(context.state, context.store, second.snapshot_id, "tests", now())
    lost = next(each.delta for each in deltas if each.delta.state == "changed")
    (folder / "files" / slice_of(lost.formats["csv"].key).key).unlink()
    assert find_lost_files(context.state, context.store, now(), lambda: None) == {}
    chain = context.state.read(lambda stores: stores.deltas.chain(person.client_id))
    assert chain is not None
    assert (chain.oldest_version, chain.started_by) == (second.version, "version_too_old")
    assert context.state.read(lambda stores: stores.file_faults.list_all()) == []


def test_erasure_that_ends_meanwhile_leaves_no_unknown_files(
    context: RunContext, person: Person, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It also deletes new files of this erasure, which are not written yet."""
    other = Erasure(context.new_id(), "0" * 64, "ana@host", now())
    context.state.write(lambda stores: stores.erasures.begin(other))
    copies = erase_module._copies
    calls: list[object] = []

    def copies_after_the_other_ended(*arguments: Any) -> list[ManifestEntry]:
        if not calls:
            context.state.write(lambda stores: stores.erasures.take_obsolete(other.erasure_id))
            context.state.write(lambda stores: stores.erasures.finish(other.erasure_id, now()))
        calls.append(arguments)
        return copies(*arguments)

    monkeypatch.setattr(erase_module, "_copies", copies_after_the_other_ended)
    erase(context, person)
    assert len(calls) == 2
    (snapshot,) = kept(context)
    formats = (entry.formats for entry in entries_of(context, snapshot).values())
    listed = {slice_of(stored.key).key for each in formats for stored in each.values()}
    stored_files = {str(path.relative_to(folder / "files")) for path in (folder / "files" / "snapshots").rglob("*.*")}
    assert stored_files <= listed


def test_receipt_has_only_the_digest_of_the_member(context: RunContext, person: Person) -> None:
    (snapshot,) = kept(context)
    erase(context, person)
    (receipt,) = context.state.read(lambda stores: stores.erasures.list_all())
    assert (receipt.member_sha256, receipt.requested_by) == (member_digest(person.member_id), "ana@host")
    assert {(each.snapshot_id, each.client_id) for each in receipt.replaced} == {
        (snapshot.snapshot_id, person.client_id)
    }
    rows = {each.resource: each.rows for each in receipt.replaced}
    assert rows["members"] == 1
    assert rows["communities"] == 0
    assert person.member_id not in repr(receipt)
    assert receipt.obsolete_keys == ()


def test_member_without_rows_gets_a_receipt(context: RunContext, person: Person) -> None:
    unknown = Person("11111111-2222-4333-8444-555555555555", person.client_id)
    erase(context, unknown)
    (receipt,) = context.state.read(lambda stores: stores.erasures.list_all())
    assert receipt.replaced == ()


def test_reports_do_not_name_the_member(context: RunContext, person: Person) -> None:
    report = RunReport(findings=(Finding("references", "members", f"violated by 1 row, such as {person.member_id}."),))

    def add_run(stores: Stores) -> None:
        at = now()
        begun = stores.snapshots.begin_manual(Snapshot(context.new_id(), SnapshotState.BUILDING, at, at), at, 600)
        stores.snapshots.finish(
            begun.snapshot_id, begun.fence, SnapshotState.FAILED, at, report=report, failure=person.member_id
        )

    context.state.write(add_run)
    erase(context, person)
    runs = context.state.read(lambda stores: stores.snapshots.recent())
    assert person.member_id not in repr(runs)
    assert "such as [erased]." in repr(runs)


def test_no_byte_of_the_instance_contains_an_erased_member(context: RunContext, person: Person, folder: Path) -> None:
    """The finding of a run has reached an event, its mail and the write-ahead log."""
    delete_person(folder / "platform", person)
    report = RunReport(findings=(Finding("references", "members", f"orphans, such as {person.member_id}."),))
    finding: dict[str, object] = msgspec.to_builtins(report)
    at = now()

    def add_run(stores: Stores) -> None:
        begun = stores.snapshots.begin_manual(Snapshot(context.new_id(), SnapshotState.BUILDING, at, at), at, 600)
        stores.snapshots.finish(begun.snapshot_id, begun.fence, SnapshotState.FAILED, at, report=report)
        event = new_event(EventType.SNAPSHOT_HELD, begun.snapshot_id, at, finding)
        stores.outbox.add(event)
        body = msgspec.json.encode(finding).decode()
        mail = Delivery("d" * 32, event.event_id, "m" * 32, event.type, "mail", body, at, detail=person.member_id)
        stores.deliveries.add_all([mail])

    context.state.write(add_run)

    def traces() -> set[str]:
        own = (path for path in folder.rglob("*") if path.is_file() and "platform" not in path.parts)
        return {path.name for path in own if has_bytes(path, person.member_id)}

    assert traces() & {"state.db", "state.db-wal"}
    erase(context, person)
    assert traces() == set()


def delete_rows(platform: Path, table: str, person: Person) -> None:
    path = platform / f"{table}.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE kept AS SELECT * FROM '{path}' WHERE member_id <> '{person.member_id}'")
        engine.execute(f"COPY kept TO '{path}' (FORMAT parquet)")


def has_bytes(path: Path, member_id: str) -> bool:
    """Return whether a file contains an identifier as text or as bytes."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return any(form in content for form in (member_id.encode(), uuid.UUID(member_id).bytes))


def test_platform_is_checked_for_the_member(context: RunContext, person: Person, folder: Path) -> None:
    source = context.source
    assert isinstance(source, DuckdbSource)
    assert member_in_source(source, person.member_id).tables == (
        "members", "member_state_changes", "member_term_accepts", "custom_field_values", "community_memberships"
    )  # fmt: skip
    path = folder / "platform" / "members.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE m AS SELECT * REPLACE ('deleted' AS subscription_state) FROM '{path}'")
        engine.execute(f"COPY m TO '{path}' (FORMAT parquet)")
    assert member_in_source(source, person.member_id) == MemberInSource("deleted")
    for table in ("members", "member_state_changes", "member_term_accepts", "custom_field_values"):
        delete_rows(folder / "platform", table, person)
    assert member_in_source(source, person.member_id) == MemberInSource("present", ("community_memberships",))
    delete_person(folder / "platform", person)
    assert member_in_source(source, person.member_id) == MemberInSource("absent")
