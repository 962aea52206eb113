"""Complete runs with DuckDB: equal rows produce equal bytes, whether files are reused or written."""

import gzip
import json
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.run_report import ReferentialFault
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.downloads import Manifest
from daybreak.proof.model_rules import rules_of
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.publish import accept
from daybreak.snapshots.report import source_warnings
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import verify_snapshot
from daybreak.sources.duckdb import DuckdbReading, DuckdbSource
from daybreak.web.api.files import manifest_view
from tests.configured import configured
from tests.parts.row_faults import add_faults, excluded
from tests.parts.sources import duckdb_source

AS_OF = datetime(2026, 11, 20, 3, tzinfo=UTC)


def digests(context: RunContext, snapshot: Snapshot) -> dict[tuple[str, str, str], str]:
    entries = context.state.read(lambda stores: list(stores.snapshots.entries(snapshot.snapshot_id)))
    return {(e.client_id, e.resource, name): stored.sha256 for e in entries for name, stored in e.formats.items()}


@pytest.mark.release
def test_full_and_reusing_runs_produce_the_same_bytes(run_context: RunContext, tmp_path: Path) -> None:
    platform = tmp_path / "platform"
    make_platform(platform, PlatformSizes(leaders=6, members=150, messages=500), seed=11, as_of=AS_OF)
    source = duckdb_source(platform, tmp_path / "spill")
    context = replace(run_context, source=source)
    first = run_manually(context, as_of=AS_OF)
    reusing = run_manually(context, as_of=AS_OF)
    alone = replace(
        context,
        source=duckdb_source(platform, tmp_path / "spill", threads=1),
        settings=configured(context.settings, snapshot={"threads": 1}),
    )
    again = run_manually(alone, as_of=AS_OF, full=True)
    assert {run.state for run in (first, reusing, again)} == {SnapshotState.PUBLISHED}
    assert reusing.report.files_carried == (reusing.report.files or 0) - 2 * 9
    assert again.report.files_carried == 0
    assert digests(context, first) == digests(context, reusing) == digests(context, again)
    assert verify_snapshot(context.state, context.store, again.snapshot_id).damaged == ()

    # Each resource's time is between its start and the start of the next phase. Figures are rounded to milliseconds.
    phases, took = first.report.phases or {}, first.report.by_resource
    assert [name for name in phases if name in took] == list(RESOURCE_NAMES)
    for (name, begins), (_, ends) in pairwise(phases.items()):
        assert begins + (took[name].seconds if name in took else 0) <= ends + 0.003

    # The files of members together have all members of the platform.
    query = f"SELECT CAST(member_id AS VARCHAR) FROM '{platform}/members.parquet' ORDER BY 1"
    with duckdb.connect() as connection:
        known = connection.execute(query).fetchall()
    found = []
    for entry in context.state.read(lambda stores: list(stores.snapshots.entries(again.snapshot_id, "members"))):
        rows = json.loads(gzip.decompress(b"".join(context.store.read(entry.formats["json"].key))))
        assert len(rows) == entry.rows
        found += [row["MEMBER_ID"] for row in rows]
    assert sorted(found) == [member_id for (member_id,) in known]
    assert again.report.by_resource["members"].rows == len(known)


def test_faulty_rows_hold_a_run_that_is_not_the_first(run_context: RunContext, tmp_path: Path) -> None:
    platform = tmp_path / "platform"
    make_platform(platform, PlatformSizes(leaders=8, members=600, messages=3000), seed=11, as_of=AS_OF)
    source = duckdb_source(platform, tmp_path / "spill")
    context = replace(run_context, source=source)
    unchecked = configured(context.settings, guard={"referential_checks": False})
    first = run_manually(replace(context, settings=unchecked), as_of=AS_OF)
    added = add_faults(platform, AS_OF, 7)
    held = run_manually(replace(context, settings=unchecked), as_of=AS_OF)
    assert (first.state, held.state) == (SnapshotState.PUBLISHED, SnapshotState.HELD)
    before, after = first.report.accounting, held.report.accounting
    assert before is not None
    assert after is not None
    assert excluded(after) - excluded(before) == added
    findings = held.report.findings or ()
    assert {finding.kind for finding in findings} == {"rule"}
    assert {"unknown_leader", "no_leader", "no_instant", "unknown_campaign", "unknown_link"} <= {
        finding.column for finding in findings
    }
    assert all(" Example: " in finding.detail for finding in findings if finding.resource != "leaders")
    tolerant = configured(unchecked, guard={"unknown_share": 1})
    assert run_manually(replace(context, settings=tolerant), as_of=AS_OF).state is SnapshotState.PUBLISHED


def test_relations_between_unchanged_rows_are_not_checked_again(
    run_context: RunContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = tmp_path / "platform"
    make_platform(platform, PlatformSizes(leaders=3, members=60, messages=100), seed=11, as_of=AS_OF)
    source = duckdb_source(platform, tmp_path / "spill")
    settings = configured(run_context.settings, guard={"referential_checks": False})
    context = replace(run_context, source=source, settings=settings)
    skipped: list[Collection[str]] = []
    check = DuckdbReading.referential_faults

    def watched(reading: DuckdbReading, resources: Collection[str], known: Collection[str]) -> list[ReferentialFault]:
        skipped.append(known)
        return check(reading, resources, known)

    def rewrite(table: str, rows: str) -> None:
        path, other = platform / f"{table}.parquet", tmp_path / "other.parquet"
        duckdb.execute(f"COPY ({rows.format(path=path)}) TO '{other}'")
        other.replace(path)

    monkeypatch.setattr(DuckdbReading, "referential_faults", watched)
    rewrite("members", "FROM '{path}' UNION ALL (FROM '{path}' ORDER BY member_id LIMIT 1)")
    first, again = run_manually(context, as_of=AS_OF), run_manually(context, as_of=AS_OF)
    rewrite("campaigns", "SELECT * REPLACE ('New name' AS campaign_name) FROM '{path}'")
    changed, full = run_manually(context, as_of=AS_OF), run_manually(context, as_of=AS_OF, full=True)
    relations = set(first.report.relations)
    assert len(relations) == 14
    of_times = {"unique:outbound_message_type_usage"}
    of_campaigns = {"unique:campaigns", "reference:campaign_links.CAMPAIGN_ID"}
    assert [relations.difference(known) for known in skipped] == [
        relations, of_times, of_times | of_campaigns, relations
    ]  # fmt: skip
    faults = {run.report.references for run in (first, again, changed, full)}
    assert [(fault.code, fault.rows) for each in faults for fault in each or ()] == [("unique:members", 1)]


@pytest.mark.release
def test_changed_own_model_is_held_until_its_rules_are_approved(run_context: RunContext, tmp_path: Path) -> None:
    platform, models = tmp_path / "platform", tmp_path / "models"
    make_platform(platform, PlatformSizes(leaders=4, members=200, messages=200), seed=11, as_of=AS_OF)
    models.mkdir()
    shipped = load_models()["members"].sql

    def run(sql: str, approved: list[str] | None = None) -> Snapshot:
        (models / "members.sql").write_text(sql)
        source = DuckdbSource(
            platform, load_models(models), memory_bytes=256 << 20, threads=2, temp_dir=tmp_path / "spill"
        )
        rules = (
            {} if approved is None else {"members": (*rules_of(source.models["members"], "duckdb").rules, *approved)}
        )
        settings = configured(run_context.settings, guard={"referential_checks": False, "approved_rules": rules})
        return run_manually(replace(run_context, source=source, settings=settings), as_of=AS_OF)

    assert run(shipped).state is SnapshotState.PUBLISHED, "the first publication is not held"
    changed = f"{shipped} WHERE email IS NOT NULL"
    held = run(changed)
    assert held.state is SnapshotState.HELD
    (finding,) = [each for each in held.report.findings or () if each.kind == "rule"]
    assert finding.column == "WHERE NOT email IS NULL"
    assert finding.client_id
    assert finding.now == 200 - held.report.by_resource["members"].rows
    assert any("not approved. `daybreakd rules`" in warning for warning in source_warnings(held.report))
    approved = run(changed, approved=[])
    assert approved.state is SnapshotState.PUBLISHED
    found = approved.report.accounting
    assert found is not None
    assert found.status["members"] == "derived"
    assert run(changed, approved=["WHERE x"]).state is SnapshotState.HELD, "a rule that the model no longer has"


def with_members(context: RunContext, folder: Path, change: str) -> RunContext:
    """Return a context with a small platform whose Members are `change`, a query over `members`."""
    platform = folder / "platform"
    make_platform(platform, PlatformSizes(leaders=3, members=60, messages=60), seed=5, as_of=AS_OF)
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE members AS FROM '{platform}/members.parquet'")
        engine.execute(f"COPY ({change}) TO '{platform}/members.parquet' (FORMAT parquet)")
    source = duckdb_source(platform, folder / "spill")
    return replace(context, source=source)


def test_same_member_in_two_leaders_is_held(run_context: RunContext, tmp_path: Path) -> None:
    first = "(FROM members ORDER BY member_id LIMIT 1)"
    other = f"(SELECT min(leader_id) FROM members WHERE leader_id <> (SELECT leader_id FROM {first}))"
    change = f"FROM members UNION ALL SELECT * REPLACE ({other} AS leader_id) FROM {first}"
    held = run_manually(with_members(run_context, tmp_path, change), as_of=AS_OF)
    assert held.state is SnapshotState.HELD
    details = [finding.detail for finding in held.report.findings or ()]
    assert any(detail.startswith("MEMBER_ID is unique in members: violated by 1 row") for detail in details), details


def test_history_of_removed_members_is_accepted_once(run_context: RunContext, tmp_path: Path) -> None:
    context = with_members(run_context, tmp_path, "FROM members ORDER BY member_id OFFSET 1")
    held = run_manually(context, as_of=AS_OF)
    assert {finding.kind for finding in held.report.findings or ()} == {"references"}
    accept(context.state, context.store, context.settings, held.snapshot_id, "removed", context.clock())
    assert run_manually(context, as_of=AS_OF).state is SnapshotState.PUBLISHED


def test_resource_with_malformed_rows_is_marked_incomplete(run_context: RunContext, tmp_path: Path) -> None:
    text = "CAST(member_id AS VARCHAR)"
    change = f"SELECT * REPLACE (CASE WHEN row_number() OVER () = 1 THEN 'x' ELSE {text} END AS member_id) FROM members"
    context = with_members(run_context, tmp_path, change)
    context = replace(context, settings=configured(context.settings, guard={"enabled": False}))
    published = run_manually(context, as_of=AS_OF)
    assert published.state is SnapshotState.PUBLISHED
    assert published.report.incomplete_resources == {"members"}
    client_id = context.state.read(lambda stores: next(stores.snapshots.leaders(published.snapshot_id)))
    entries = context.state.read(lambda stores: stores.snapshots.manifest(published.snapshot_id, client_id))
    fresh = context.state.read(lambda stores: freshness(stores.snapshots, AS_OF, time(4)))
    view = manifest_view(client_id, Manifest(published, fresh, tuple(entries)), ["csv"])
    assert [each.resource for each in view.data.resources if each.incomplete] == ["members"]
