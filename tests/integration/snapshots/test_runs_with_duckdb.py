"""Whole runs with the embedded engine: the same rows give the same bytes, carried or written."""

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
from daybreak.demo.platform import make_platform
from daybreak.domain.snapshot import Snapshot, SnapshotState
from daybreak.snapshots.report import figure, resources_of
from daybreak.snapshots.run import run_by_hand
from daybreak.snapshots.verify import verify_snapshot
from daybreak.snapshots.workshop import Workshop
from daybreak.sources.duckdb import DuckdbSource

AS_OF = datetime(2026, 11, 20, 3, tzinfo=UTC)


def digests(shop: Workshop, snapshot: Snapshot) -> dict[tuple[str, str, str], str]:
    entries = shop.state.read(lambda stores: list(stores.snapshots.entries(snapshot.snapshot_id)))
    return {(e.client_id, e.resource, name): stored.sha256 for e in entries for name, stored in e.formats.items()}


def test_two_full_runs_and_a_carrying_one_give_the_same_bytes(workshop: Workshop, tmp_path: Path) -> None:
    platform = tmp_path / "platform"
    make_platform(platform, leaders=6, members=150, messages=500, seed=11, as_of=AS_OF)
    source = DuckdbSource(platform, load_models(), memory_bytes=256 << 20, threads=2, temp_dir=tmp_path / "spill")
    shop = replace(workshop, source=source)
    first = run_by_hand(shop, as_of=AS_OF)
    carrying = run_by_hand(shop, as_of=AS_OF)
    alone = replace(
        shop,
        source=DuckdbSource(platform, load_models(), memory_bytes=256 << 20, threads=1, temp_dir=tmp_path / "spill"),
        plan=replace(shop.plan, threads=1),
    )
    again = run_by_hand(alone, as_of=AS_OF, full=True)
    assert {run.state for run in (first, carrying, again)} == {SnapshotState.PUBLISHED}
    assert carrying.report["files_carried"] == carrying.report["files"] - 2 * 9  # type: ignore[operator]
    assert again.report["files_carried"] == 0
    assert digests(shop, first) == digests(shop, carrying) == digests(shop, again)
    assert verify_snapshot(shop.state, shop.store, again.snapshot_id).damaged == ()

    # Each resource's time lies between its own beginning and the next phase's; figures are rounded to milliseconds.
    phases = cast("dict[str, float]", first.report["phases"])
    took = resources_of(first.report)
    assert [name for name in phases if name in took] == list(RESOURCE_NAMES)
    for (name, begins), (_, ends) in pairwise(phases.items()):
        assert begins + figure(took.get(name, {}), "seconds") <= ends + 0.003

    # The files of members, put together, are the members of the platform.
    query = f"SELECT CAST(member_id AS VARCHAR) FROM '{platform}/members.parquet' ORDER BY 1"
    with duckdb.connect() as connection:
        known = connection.execute(query).fetchall()
    found = []
    for entry in shop.state.read(lambda stores: list(stores.snapshots.entries(again.snapshot_id, "members"))):
        rows = json.loads(gzip.decompress(b"".join(shop.store.read(entry.formats["json"].key))))
        assert len(rows) == entry.rows
        found += [row["MEMBER_ID"] for row in rows]
    assert sorted(found) == [member_id for (member_id,) in known]
    assert resources_of(again.report)["members"]["rows"] == len(known)
