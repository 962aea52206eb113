"""Complete runs with DuckDB: equal rows produce equal bytes, whether files are reused or written."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import cast

import duckdb

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.proof.report import accounting_of
from daybreak.snapshots.report import figure, resources_of
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.verify import verify_snapshot
from daybreak.sources.duckdb import DuckdbSource
from tests.configured import configured
from tests.parts.row_faults import add_faults, excluded

AS_OF = datetime(2026, 11, 20, 3, tzinfo=UTC)


def digests(context: RunContext, snapshot: Snapshot) -> dict[tuple[str, str, str], str]:
    entries = context.state.read(lambda stores: list(stores.snapshots.entries(snapshot.snapshot_id)))
    return {(e.client_id, e.resource, name): stored.sha256 for e in entries for name, stored in e.formats.items()}


def test_full_and_reusing_runs_produce_the_same_bytes(run_context: RunContext, tmp_path: Path) -> None:
    platform = tmp_path / "platform"
    make_platform(platform, PlatformSizes(leaders=6, members=150, messages=500), seed=11, as_of=AS_OF)
    source = DuckdbSource(platform, load_models(), memory_bytes=256 << 20, threads=2, temp_dir=tmp_path / "spill")
    context = replace(run_context, source=source)
    first = run_manually(context, as_of=AS_OF)
    reusing = run_manually(context, as_of=AS_OF)
    alone = replace(
        context,
        source=DuckdbSource(platform, load_models(), memory_bytes=256 << 20, threads=1, temp_dir=tmp_path / "spill"),
        settings=configured(context.settings, snapshot={"threads": 1}),
    )
    again = run_manually(alone, as_of=AS_OF, full=True)
    assert {run.state for run in (first, reusing, again)} == {SnapshotState.PUBLISHED}
    assert reusing.report["files_carried"] == reusing.report["files"] - 2 * 9  # type: ignore[operator]
    assert again.report["files_carried"] == 0
    assert digests(context, first) == digests(context, reusing) == digests(context, again)
    assert verify_snapshot(context.state, context.store, again.snapshot_id).damaged == ()

    # Each resource's time is between its start and the start of the next phase. Figures are rounded to milliseconds.
    phases = cast("dict[str, float]", first.report["phases"])
    took = resources_of(first.report)
    assert [name for name in phases if name in took] == list(RESOURCE_NAMES)
    for (name, begins), (_, ends) in pairwise(phases.items()):
        assert begins + figure(took.get(name, {}), "seconds") <= ends + 0.003

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
    assert resources_of(again.report)["members"]["rows"] == len(known)


def test_faulty_rows_hold_a_run_that_is_not_the_first(run_context: RunContext, tmp_path: Path) -> None:
    platform = tmp_path / "platform"
    make_platform(platform, PlatformSizes(leaders=8, members=600, messages=3000), seed=11, as_of=AS_OF)
    source = DuckdbSource(platform, load_models(), memory_bytes=256 << 20, threads=2, temp_dir=tmp_path / "spill")
    context = replace(run_context, source=source)
    unchecked = configured(context.settings, guard={"referential_checks": False})
    first = run_manually(replace(context, settings=unchecked), as_of=AS_OF)
    added = add_faults(platform, AS_OF, 7)
    held = run_manually(replace(context, settings=unchecked), as_of=AS_OF)
    assert (first.state, held.state) == (SnapshotState.PUBLISHED, SnapshotState.HELD)
    before, after = accounting_of(first.report), accounting_of(held.report)
    assert before is not None
    assert after is not None
    assert excluded(after) - excluded(before) == added
    findings = cast("list[dict[str, object]]", held.report["findings"])
    assert {finding["kind"] for finding in findings} == {"rule"}
    assert {"unknown_leader", "no_leader", "no_instant", "unknown_campaign", "unknown_link"} <= {
        finding["column"] for finding in findings
    }
    tolerant = configured(unchecked, guard={"unknown_share": 1})
    assert run_manually(replace(context, settings=tolerant), as_of=AS_OF).state is SnapshotState.PUBLISHED
