"""Minimal source that writes files without an export engine, for tests of runs.

The platform is a JSON file, `{"leaders": {client_id: {resource: [line, ...]}}}`, in which a line is a row. Each run
reads it again, so a test changes the platform by writing the file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daybreak.catalogue.models import Model
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.domain.run_report import ReferentialFault, RunReport
from daybreak.domain.snapshot import ManifestEntry, Snapshot, SnapshotState, StoredFormat
from daybreak.export.job import ExportJob, ExportObserver, ResourceReport, RowCounts
from daybreak.filestore.file_store import FileSink, FileStore
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import Packing
from daybreak.settings import Settings
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import RunTimings
from daybreak.sources.malformed import MalformedRows
from daybreak.sources.reading import RowSource
from daybreak.state.database import open_state
from daybreak.state.stores import State, Stores
from tests.configured import DEFAULTS
from tests.parts.migrated import create_migrated

Platform = dict[str, dict[str, list[str]]]

QUICK = RunTimings(lease_seconds=60, heartbeat_seconds=1.0, retry_seconds=0.01, day_retry_seconds=0.01)


def leader_ids(count: int) -> list[str]:
    return sorted(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(count))


def platform_of(leaders: int = 3, rows: int = 4, mark: str = "a") -> Platform:
    """Return a platform with rows in every resource but the last. The last Leader has no rows."""
    ids = leader_ids(leaders)
    return {
        leader: {
            resource: [f"{mark} {resource} {leader} {row}" for row in range(rows if leader != ids[-1] else 0)]
            for resource in RESOURCE_NAMES[:-1]
        }
        for leader in ids
    }


@dataclass
class SmallReading:
    """`Reading` that writes files without the embedded engine."""

    as_of: datetime
    platform: Platform
    source: SmallSource

    def check(self) -> None:
        for act in self.source.on_check:
            act()

    def leaders(self) -> list[str]:
        return sorted(self.platform)

    def input_bytes(self) -> int:
        return self.source.reported_input_bytes

    lag = None

    def confirm_unchanged(self) -> None:
        for act in self.source.on_confirm:
            act()

    malformed: Sequence[MalformedRows] = ()
    models: Mapping[str, Model] = field(default_factory=dict)

    def source_rows(self, subject: str, sql: str) -> list[Sequence[object]]:
        return []

    def cancel(self) -> None:
        """Every query has ended."""

    def referential_faults(self, resources: Collection[str], skipped: Collection[str] = ()) -> list[ReferentialFault]:
        return list(self.source.faults)

    def export(self, job: ExportJob, sink: FileSink, observer: ExportObserver) -> ResourceReport:
        resource, formats = job.resource, job.formats
        for act in self.source.on_resource:
            act(resource)
        observer.entries_written([ManifestEntry("", resource, 0, "", _write(sink, "", resource, formats, []))])
        reused, done, leaders = 0, 0, 0
        for leader, resources in sorted(self.platform.items()):
            rows = resources.get(resource, [])
            if not rows:
                continue
            fingerprint = hashlib.sha256(json.dumps([rows, job.compression, list(formats)]).encode()).hexdigest()
            leaders += 1
            if job.previous.get(leader) == fingerprint:
                reused += 1
                observer.leaders_reused([leader])
            else:
                files = _write(sink, leader, resource, formats, rows)
                observer.entries_written([ManifestEntry(leader, resource, len(rows), fingerprint, files)])
            done += len(rows)
            observer.rows_done(done)
            if self.source.pause_seconds:
                time.sleep(self.source.pause_seconds)
        all_rows = [row for resources in self.platform.values() for row in resources.get(resource, [])]
        nulls = {"LEADER_ID": sum(row.startswith("null") for row in all_rows)}
        exported_rows = done + self.source.extra_reported_rows
        return ResourceReport(resource, exported_rows, leaders, reused, RowCounts(nulls))


def _write(
    sink: FileSink, leader: str, resource: str, formats: Sequence[str], rows: list[str]
) -> dict[str, StoredFormat]:
    stored = {}
    for name in formats:
        content = "".join(f"{name} {row}\n" for row in ["header", *rows]).encode()
        member = gzip.compress(content, 6, mtime=0)
        written = sink.write(leader, resource, name, [member[:10], memoryview(member)[10:]])
        stored[name] = StoredFormat(
            written.bytes, written.sha256, len(content), hashlib.sha256(content).hexdigest(), written.key
        )
    return stored


@dataclass
class SmallSource:
    """Source that reads a JSON file. Tests inject faults and callbacks through its fields."""

    path: Path
    pause_seconds: float = 0.0
    extra_reported_rows: int = 0
    reported_input_bytes: int = 0
    faults: list[ReferentialFault] = field(default_factory=list)
    on_check: list[Callable[[], None]] = field(default_factory=list)
    on_resource: list[Callable[[str], None]] = field(default_factory=list)
    on_confirm: list[Callable[[], None]] = field(default_factory=list)
    engine: str = "duckdb"

    @contextmanager
    def open(self, as_of: datetime) -> Iterator[SmallReading]:
        yield SmallReading(as_of, json.loads(self.path.read_text("utf-8"))["leaders"], self)


def write_platform(path: Path, platform: Platform) -> None:
    path.write_text(json.dumps({"leaders": platform}), "utf-8")


def now() -> datetime:
    return datetime.now(UTC)


def state_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'state.db'}"


def create_state(folder: Path) -> None:
    """Create the state database of `context_in`."""
    create_migrated(state_url(folder))


def context_in(
    folder: Path,
    *,
    state: State | None = None,
    source: RowSource | None = None,
    store: FileStore | None = None,
    settings: Settings = DEFAULTS,
    timings: RunTimings = QUICK,
    clock: Callable[[], datetime] = now,
    builder: str = "test",
) -> RunContext:
    """Return a RunContext with `state.db` (already migrated), `files` and `platform.json` of a folder."""
    return RunContext(
        state=open_state(state_url(folder)) if state is None else state,
        store=LocalDisk(folder / "files", Packing(settings.snapshot.pack_below)) if store is None else store,
        source=SmallSource(folder / "platform.json") if source is None else source,
        settings=settings,
        timings=timings,
        builder=builder,
        clock=clock,
        ticks=time.monotonic,
        new_id=lambda: str(uuid.uuid4()),
        stop=threading.Event(),
    )


@contextmanager
def open_context(folder: Path, **options: Any) -> Iterator[RunContext]:
    """Return the RunContext of `context_in`, and close its state database at the end of the block."""
    context = context_in(folder, **options)
    with closing(context.state):
        yield context


def source_of(context: RunContext) -> SmallSource:
    assert isinstance(context.source, SmallSource)
    return context.source


def fail_runs(context: RunContext, number: int) -> None:
    """Record failed runs, more recent than all others, without running them."""

    def write(stores: Stores) -> None:
        for _ in range(number):
            snapshot = Snapshot(context.new_id(), SnapshotState.BUILDING, as_of=now(), started_at=now())
            begun = stores.snapshots.begin_manual(snapshot, now(), context.timings.lease_seconds)
            stores.snapshots.finish(begun.snapshot_id, begun.fence, SnapshotState.FAILED, now(), report=RunReport())

    context.state.write(write)
