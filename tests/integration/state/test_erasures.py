"""Erasures, and the replacement of files in manifests."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from daybreak.domain.erasure import Erasure, ReplacedFiles, member_digest
from daybreak.domain.errors import Conflict
from daybreak.domain.run_report import Finding, RunReport
from daybreak.domain.snapshot import ManifestEntry, Since, Snapshot, SnapshotState, StoredFormat
from daybreak.state.database import Database
from tests.integration.state.values import NOW

LEADER, MEMBER = "0b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11", "1b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11"
FIRST, SECOND = (
    Erasure(name, member_digest(MEMBER), "ana@host", NOW + timedelta(seconds=at)) for at, name in enumerate("ab")
)
FILES = ReplacedFiles("snapshot", LEADER, "members", 1)
OLD = ManifestEntry(LEADER, "members", 2, "f1", {"csv": StoredFormat(1, "aa", 2, "bb", "old")})
NEW = ManifestEntry(LEADER, "members", 1, "f2", {"csv": StoredFormat(3, "cc", 4, "dd", "new")})


def test_unfinished_erasure_of_the_member_is_continued(state: Database) -> None:
    assert state.write(lambda stores: stores.erasures.begin(FIRST)) == FIRST
    assert state.write(lambda stores: stores.erasures.begin(SECOND)) == FIRST
    state.write(lambda stores: stores.erasures.finish("a", NOW))
    assert state.write(lambda stores: stores.erasures.begin(SECOND)) == SECOND
    listed = state.read(lambda stores: stores.erasures.list_all())
    assert [(each.erasure_id, each.finished_at) for each in listed] == [("a", NOW), ("b", None)]


def test_obsolete_keys_are_those_without_a_manifest(state: Database) -> None:
    state.write(lambda stores: stores.erasures.begin(FIRST))
    state.write(lambda stores: stores.erasures.reserve("a", ["new", "unused"]))
    state.write(lambda stores: stores.erasures.replace("a", [FILES], ["new"], ["old"]))
    found = state.read(lambda stores: stores.erasures.get("a"))
    assert found is not None
    assert (found.replaced, sorted(found.obsolete_keys)) == ((FILES,), ["old", "unused"])


def test_taken_keys_cannot_be_used(state: Database) -> None:
    """Another erasure deletes the files of an interrupted one, which may have the other Member's rows."""
    other = Erasure("b", member_digest(LEADER), "ana@host", NOW)
    state.write(lambda stores: stores.erasures.begin(FIRST))
    state.write(lambda stores: stores.erasures.begin(other))
    state.write(lambda stores: stores.erasures.reserve("a", ["new"]))
    assert state.write(lambda stores: stores.erasures.take_obsolete("b")) == ["new"]
    with pytest.raises(Conflict):
        state.write(lambda stores: stores.erasures.replace("a", [FILES], ["new"], ["old"]))
    state.write(lambda stores: stores.erasures.finish("b", NOW))
    assert [each.obsolete_keys for each in state.read(lambda stores: stores.erasures.list_all())] == [(), ()]


def publish(state: Database) -> None:
    snapshot = Snapshot("snapshot", SnapshotState.BUILDING, NOW, NOW)
    begun = state.write(lambda stores: stores.snapshots.begin_manual(snapshot, NOW, 600))
    state.write(lambda stores: stores.snapshots.add_leaders("snapshot", begun.fence, [LEADER]))
    state.write(lambda stores: stores.snapshots.add_entries("snapshot", begun.fence, [OLD]))
    state.write(
        lambda stores: stores.snapshots.finish("snapshot", begun.fence, SnapshotState.COMPLETE, NOW, report=RunReport())
    )
    state.write(lambda stores: stores.snapshots.publish("snapshot", begun.fence, NOW))


def test_replaced_files_are_served(state: Database) -> None:
    publish(state)
    later = NOW + timedelta(hours=1)
    state.write(lambda stores: stores.snapshots.replace_entries("snapshot", [OLD], [NEW], later))
    found = state.read(lambda stores: stores.snapshots.file(None, LEADER, "members", "csv"))
    assert found is not None
    stored = replace(NEW.formats["csv"], since=Since(1, later, 1))
    assert (found.rows, found.stored, found.modified_at) == (1, stored, later)
    assert stored.since_in(1, NOW).published_at == later
    assert state.read(lambda stores: list(stores.snapshots.entries("snapshot"))) == [
        replace(NEW, formats={"csv": stored})
    ]


def test_changed_manifest_is_not_replaced(state: Database) -> None:
    publish(state)
    with pytest.raises(Conflict):
        replace_entry(state, replace(OLD, formats=NEW.formats))
    with pytest.raises(Conflict):
        replace_entry(state, replace(OLD, client_id=MEMBER))
    assert state.read(lambda stores: list(stores.snapshots.entries("snapshot"))) == [OLD]


def replace_entry(state: Database, before: ManifestEntry) -> None:
    state.write(lambda stores: stores.snapshots.replace_entries("snapshot", [before], [NEW], NOW))


def add_failed_run(state: Database, snapshot_id: str, report: RunReport) -> None:
    snapshot = Snapshot(snapshot_id, SnapshotState.BUILDING, NOW, NOW)
    begun = state.write(lambda stores: stores.snapshots.begin_manual(snapshot, NOW, 600))
    state.write(
        lambda stores: stores.snapshots.finish(
            snapshot_id, begun.fence, SnapshotState.FAILED, NOW, report=report, failure=f"no {MEMBER}"
        )
    )


def test_text_in_reports_is_redacted(state: Database) -> None:
    finding = Finding("references", '"', f"such as {MEMBER}.")
    add_failed_run(state, "s0", RunReport(findings=(finding,)))
    add_failed_run(state, "s1", RunReport(rows=1))
    assert state.write(lambda stores: stores.snapshots.redact_reports(MEMBER)) == 3
    runs = {run.snapshot_id: run for run in state.read(lambda stores: stores.snapshots.recent())}
    assert runs["s0"].report == RunReport(findings=(Finding("references", '"', "such as [erased]."),))
    assert (runs["s1"].report, runs["s1"].failure) == (RunReport(rows=1), "no [erased]")
