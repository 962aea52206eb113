"""Sample snapshots: a series of published ones, and runs that failed, are held or are under way."""

import gzip
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta

import msgspec

from daybreak.catalogue.formats import delta_format
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.domain.delta import LeaderDelta, ResourceDelta
from daybreak.domain.run_report import (
    Accounting,
    DeltaFigures,
    Finding,
    ReferentialFault,
    ResourceFigures,
    RunDeltaFigures,
    RunProgress,
    RunReport,
    TableAccount,
)
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.export.delta.delta_lines import delta_header
from daybreak.filestore.file_store import FileSink, FileStore
from daybreak.state.stores import State, Stores
from tests.acceptance.dashboard.sample.directory import AGENCY_IDS, KITA, LONG, NORTHLIGHT, ODD, VAULT, VIEWER, id_of
from tests.acceptance.dashboard.sample.rows import Row, Rows, encode_json, sample_rows
from tests.parts.csv_content import csv_bytes

_EMPTY_LEADERS = (*AGENCY_IDS, VIEWER, LONG)
_LEASE_SECONDS = 86400
Contents = dict[tuple[str, str, int], dict[str, bytes]]
"""Encoded files by account, resource, number of rows and format."""


def write_snapshots(state: State, store: FileStore, due: datetime, *, members: int, days: int) -> None:
    """Write one published snapshot per day, the last one published at `due`, and a failed run.

    `members` is the number of Members of the largest account.
    """
    sizes = {NORTHLIGHT: members, KITA: 60, ODD: 12, VAULT: 40, **dict.fromkeys(AGENCY_IDS[:5], 3)}
    rows = {client_id: sample_rows(client_id, size, due) for client_id, size in sizes.items()}
    contents: Contents = {}
    before: dict[str, Rows] | None = None
    for days_ago in range(days - 1, -1, -1):
        published_at = due - timedelta(days=days_ago)
        if days_ago == 1:
            _write_failed_run(state, published_at - timedelta(hours=5))
        share = 1 - 0.022 * days_ago - (0.05 if days_ago == 3 else 0)
        of_day = {key: _first_rows(value, share) for key, value in rows.items()}
        _write_snapshot(state, store, published_at, of_day, before if days_ago == 0 else None, contents)
        before = of_day


def add_held(state: State, now: datetime) -> str:
    """Add a manual run that the guard holds; return its id."""
    snapshot_id = str(uuid.uuid4())
    report = _held_report(state)
    begun = _building(snapshot_id, now, started_at=now - timedelta(minutes=31), builder="north-1")

    def write(stores: Stores) -> None:
        run = stores.snapshots.begin_manual(begun, now, _LEASE_SECONDS)
        _copy_manifest(stores, run)
        stores.snapshots.finish(snapshot_id, run.fence, SnapshotState.HELD, now, report=report)

    state.write(write)
    return snapshot_id


def _copy_manifest(stores: Stores, run: Snapshot) -> None:
    """Give the run the published files, with the Members of the oldest snapshot and half of them in the manifest."""
    published, oldest = stores.snapshots.current(), stores.snapshots.served()[-1]
    assert published is not None
    older = {entry.client_id: entry for entry in stores.snapshots.entries(oldest.snapshot_id, "members")}
    entries = [
        msgspec.structs.replace(older.get(entry.client_id, entry), rows=entry.rows // 2)
        if entry.resource == "members"
        else entry
        for entry in stores.snapshots.entries(published.snapshot_id)
    ]
    stores.snapshots.add_leaders(run.snapshot_id, run.fence, list(stores.snapshots.leaders(published.snapshot_id)))
    stores.snapshots.add_entries(run.snapshot_id, run.fence, entries)


def _held_report(state: State) -> RunReport:
    """Return the report of a run that lost half of the Members, compared with the published snapshot."""
    published = state.read(lambda stores: stores.snapshots.current())
    assert published is not None
    before = published.report.by_resource
    shares = {"members": 0.48, "member_subscription_status": 0.99, "communities": 1.0}
    resources = {
        name: ResourceFigures(rows=round(figures.rows * shares.get(name, 1.004)), seconds=figures.seconds)
        for name, figures in before.items()
    }
    members = resources["members"].rows
    violated = {"member_state_changes": 220_961, "custom_member_data": 1}
    checks = {name: f"MEMBER_ID of {name} exists in members" for name in violated}
    table = TableAccount(
        "members", "members", members + 37, members,
        excluded={"unknown_leader": 37}, of_no_account={"unknown_leader": 37},
    )  # fmt: skip
    return RunReport(
        seconds=1803.0,
        leaders=127,
        resources=resources,
        references=tuple(
            ReferentialFault(checks[name], count, id_of(checks[name]), f"reference:{name}.MEMBER_ID")
            for name, count in violated.items()
        ),
        accounting=Accounting((table,)),
        findings=(
            Finding("rows", "members", "members: rows lost.", before=before["members"].rows, now=members),
            *(
                Finding("leader_rows", "members", "rows lost.", client_id, before=212_400, now=41_017)
                for client_id in (NORTHLIGHT, ODD)
            ),
            Finding("nulls", "members", "more NULLs.", column="EMAIL", before=0.04, now=0.61),
            *(Finding("references", check, "violated.") for check in checks.values()),
        ),
        findings_in_all=6,
    )


def add_building(state: State, now: datetime) -> tuple[str, int]:
    """Add a run that is under way; return its id and fence."""
    snapshot_id = str(uuid.uuid4())
    begun = _building(snapshot_id, now, started_at=now - timedelta(minutes=12), builder="north-2")
    run = state.write(lambda stores: stores.snapshots.begin_manual(begun, now, _LEASE_SECONDS))
    report_progress(state, snapshot_id, run.fence, now, share=0.4)
    return snapshot_id, run.fence


def begin_day(state: State, day: date, now: datetime) -> tuple[str, int]:
    """Add the run of a day that is under way, or the next attempt after a failed one; return its id and fence."""
    snapshot_id = str(uuid.uuid4())
    begun = replace(_building(snapshot_id, now, started_at=now - timedelta(minutes=12), builder="north-2"), day=day)
    run = state.write(lambda stores: stores.snapshots.claim_day(begun, now, _LEASE_SECONDS))
    assert run is not None
    report_progress(state, snapshot_id, run.fence, now, share=0.4)
    return snapshot_id, run.fence


def report_progress(state: State, snapshot_id: str, fence: int, now: datetime, *, share: float) -> None:
    """Record progress as a builder does."""
    progress = RunProgress(
        phase="writing", resource="members", resource_number=4, resources=9, rows=int(8_400_000 * share),
        bytes=int(1.3e9 * share), files=2100, seconds=720.0, rows_per_second=11_600, share=share,
        expected_end=now + timedelta(minutes=18),
    )  # fmt: skip
    state.write(lambda stores: stores.snapshots.renew(snapshot_id, fence, now, _LEASE_SECONDS, progress))


def _building(snapshot_id: str, as_of: datetime, *, started_at: datetime, builder: str) -> Snapshot:
    return Snapshot(snapshot_id, SnapshotState.BUILDING, as_of, started_at=started_at, builder=builder)


def _first_rows(rows: Rows, share: float) -> Rows:
    """Return a share of the rows, as for a smaller account. Resources with sums keep all rows."""
    summed = ("communities", "outbound_message_type_usage")
    return {name: part if name in summed else part[: max(1, round(len(part) * share))] for name, part in rows.items()}


def _write_snapshot(
    state: State,
    store: FileStore,
    published_at: datetime,
    rows: Mapping[str, Rows],
    before: Mapping[str, Rows] | None,
    contents: Contents,
) -> None:
    """Write and publish a snapshot. `before` are the rows of the snapshot before, for the deltas of one account."""
    as_of, snapshot_id = published_at - timedelta(minutes=48), str(uuid.uuid4())
    sink = store.stage(snapshot_id)
    entries = []
    resources: dict[str, ResourceFigures] = {}
    for number, resource in enumerate(RESOURCES):
        parts = {client_id: by_resource[resource.name] for client_id, by_resource in rows.items()}
        entries += [
            _write_files(sink, client_id, resource, part, contents) for client_id, part in {**parts, "": []}.items()
        ]
        total = sum(map(len, parts.values()))
        seconds = round(40 + 1200 * total / 30000 + 31 * number, 1)
        resources[resource.name] = ResourceFigures(rows=total * 1000, seconds=seconds)
    deltas = [
        _write_delta(sink, resource, before[NORTHLIGHT][resource.name], rows[NORTHLIGHT][resource.name])
        for resource in RESOURCES
        if before is not None and before[NORTHLIGHT][resource.name] != rows[NORTHLIGHT][resource.name]
    ]
    for each in deltas:
        change = each.delta
        figures = DeltaFigures(changed=1, inserted=change.inserted, deleted=change.deleted)
        resources[each.resource] = msgspec.structs.replace(resources[each.resource], deltas=figures)
    sink.commit()
    begun = Snapshot(
        snapshot_id, SnapshotState.BUILDING, as_of, started_at=as_of, day=published_at.date(), builder="north-1"
    )
    inserted = sum(each.delta.inserted for each in deltas)
    report = RunReport(
        seconds=1874.2,
        leaders=128,
        resources=resources,
        deltas=RunDeltaFigures("before", None, len(deltas), 0, inserted, 0, 81_300) if deltas else None,
    )

    def write(stores: Stores) -> None:
        run = stores.snapshots.claim_day(begun, as_of, _LEASE_SECONDS)
        assert run is not None
        stores.snapshots.add_leaders(snapshot_id, run.fence, sorted({*rows, *_EMPTY_LEADERS}))
        stores.snapshots.add_entries(snapshot_id, run.fence, entries)
        current = stores.snapshots.current()
        base_id = current.snapshot_id if current is not None and before is not None else None
        stores.deltas.begin(snapshot_id, run.fence, base_id)
        stores.deltas.add(snapshot_id, run.fence, deltas)
        finished_at = as_of + timedelta(minutes=31, seconds=14)
        stores.snapshots.finish(snapshot_id, run.fence, SnapshotState.COMPLETE, finished_at, report=report)
        stores.snapshots.publish(snapshot_id, run.fence, published_at)

    state.write(write)


def _write_files(
    sink: FileSink, client_id: str, resource: Resource, rows: list[Row], contents: Contents
) -> ManifestEntry:
    formats = {}
    # Every day has the first rows of the same list.
    key = (client_id, resource.name, len(rows))
    if key not in contents:
        contents[key] = {"csv": csv_bytes(resource, rows), "json": encode_json(resource, rows)}
    for name, content in contents[key].items():
        written = sink.write(client_id, resource.name, name, [gzip.compress(content, 2, mtime=0)])
        formats[name] = StoredFormat(written.bytes, written.sha256, len(content), _sha256(content), written.key)
    return ManifestEntry(client_id, resource.name, len(rows), "0" * 32, formats)


def _write_delta(sink: FileSink, resource: Resource, before: list[Row], now: list[Row]) -> LeaderDelta:
    """Write a delta of the rows that were added at the end."""
    added = now[len(before) :]
    lines = [b'"I",' + csv_bytes(resource, [row]).partition(b"\n")[2] for row in added]
    records = [{"_OP": "I", **record} for record in json.loads(encode_json(resource, added))]
    contents = {"csv": delta_header(resource) + b"".join(lines), "json": encode_lines(records)}
    formats = {}
    for name, content in contents.items():
        member = gzip.compress(content, 2, mtime=0)
        written = sink.write(NORTHLIGHT, resource.name, delta_format(name).name, [member])
        formats[name] = StoredFormat(written.bytes, written.sha256, len(content), _sha256(content), written.key)
    change = ResourceDelta(
        rows_before=len(before),
        rows_after=len(now),
        inserted=len(added),
        lines=len(added),
        added=len(added) if resource.name == "members" else 0,
        content_sha256_before=_sha256(csv_bytes(resource, before)),
        content_sha256_after=_sha256(csv_bytes(resource, now)),
        formats=formats,
    )
    return LeaderDelta(NORTHLIGHT, resource.name, change)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def encode_lines(records: list[dict[str, object]]) -> bytes:
    """Return a JSON file with one record per line."""
    return ("[" + ",\n".join(json.dumps(record, ensure_ascii=False) for record in records) + "]").encode()


def _write_failed_run(state: State, started_at: datetime) -> None:
    begun = _building(str(uuid.uuid4()), started_at, started_at=started_at, builder="north-2")
    failure = "The source closed the connection."

    def write(stores: Stores) -> None:
        run = stores.snapshots.begin_manual(begun, started_at, _LEASE_SECONDS)
        finished_at = started_at + timedelta(minutes=3)
        stores.snapshots.finish(
            run.snapshot_id, run.fence, SnapshotState.FAILED, finished_at, report=RunReport(), failure=failure
        )

    state.write(write)
