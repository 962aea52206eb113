"""`daybreakd snapshot`: runs and snapshots."""

import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Annotated

from cyclopts import App, Parameter

from daybreak.bootstrap import open_files, open_tracing, run_context
from daybreak.cli.logs import configure_logging
from daybreak.cli.options import AsJson, Config, Flag, Limit, parse_instant, read_state, settings_of, state_of
from daybreak.cli.output import format_instant, print_json, print_note, print_table, print_text
from daybreak.cli.progress import print_report, run_progress
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count, format_duration, format_size
from daybreak.domain.errors import OperatorError, WrongUse
from daybreak.domain.snapshot import Snapshot
from daybreak.settings import Settings
from daybreak.snapshots import builder, retention
from daybreak.snapshots import publish as publication
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.report import source_warnings
from daybreak.snapshots.run import run_manually
from daybreak.snapshots.verify import ManifestFile, verify_snapshot
from daybreak.snapshots.verify_deltas import verify_deltas
from daybreak.state.stores import State, Stores

app = App(name="snapshot", help="Manage runs and snapshots.")
_ID = "Id of the snapshot, or at least its first four characters."
SnapshotId = Annotated[str, Parameter(help=_ID)]
LatestRun = Annotated[str | None, Parameter(help=f"{_ID} Default: the latest run.")]
CurrentSnapshot = Annotated[str | None, Parameter(help=f"{_ID} Default: the current one.")]
_MAX_RUNS_SEARCHED = 1000
_MIN_PREFIX_LENGTH = 4
_POLL_SECONDS = 1.0


@app.command
def run(
    *,
    as_of: Annotated[
        str | None,
        Parameter(
            help="Instant of the data, such as 2026-11-20T04:00:00Z. Not in the future, and not before the current "
            "snapshot. Default: now."
        ),
    ] = None,
    full: Annotated[Flag, Parameter(help="Write all files, including those of unchanged Leaders.")] = False,
    force: Annotated[
        str | None, Parameter(help="Publish even if the guard blocks the snapshot. The text is the reason.")
    ] = None,
    config: Config = None,
) -> int:
    """Build a snapshot now, at low priority, and publish it when it is complete. Exit code 1 if it is not published,
    for example because the guard blocks it.
    """
    settings = settings_of(config)
    at = parse_instant(as_of, "--as-of") if as_of is not None else None
    configure_logging(settings)
    builder.take_low_priority()
    snapshot = run_once(settings, as_of=at, full=full, logged=True)
    if snapshot.state == "held" and force is not None:
        snapshot = _accept(settings, snapshot.snapshot_id, force)
    _print_result(snapshot)
    return 0 if snapshot.state == "published" else 1


def run_once(
    settings: Settings, *, as_of: datetime | None = None, full: bool = False, logged: bool = False
) -> Snapshot:
    """Run once, show progress as `run_progress` does, and return the snapshot. Logging must be configured before."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    tracing = open_tracing(settings, "builder")
    try:
        with state_of(settings) as state, run_progress(logged=logged) as watch:
            context = run_context(settings, state, watch, tracing)
            # Ctrl-C stops the run after its current file and deletes its files. A second Ctrl-C ends the process.
            builder.stop_on_signals(context.stop)
            return run_manually(context, as_of=as_of, full=full)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if tracing is not None:
            tracing.close()


@app.command(name="list")
def list_(*, limit: Limit = 20, config: Config = None, json: AsJson = False) -> None:
    """List runs, newest first, and the freshness of the files."""
    settings = settings_of(config)
    now = now_utc()
    runs, fresh = read_state(
        settings,
        lambda stores: (stores.snapshots.recent(limit), freshness(stores.snapshots, now, settings.snapshot.publish_at)),
    )
    if json:
        print_json([asdict(each) for each in runs])
        return
    print_table(
        ("SNAPSHOT", "STATE", "VERSION", "AS OF (UTC)", "PUBLISHED (UTC)", "TOOK", "ROWS", "FILES", "SIZE"),
        (_row(each, now) for each in runs),
        numbers=frozenset({"VERSION", "TOOK", "ROWS", "FILES", "SIZE"}),
    )
    _print_failure(runs, now)
    status = f"Late: {fresh.reason}" if fresh.late else "Fresh."
    print_note(f"{status} Next files expected {format_instant(fresh.next_expected_at)} UTC.")


@app.command
def show(snapshot_id: LatestRun = None, *, config: Config = None, json: AsJson = False) -> None:
    """Show one run: its figures by resource, unexpected source data, and the findings of the guard."""
    with state_of(config) as state:
        snapshot = _find_snapshot(state, snapshot_id)
    if json:
        print_json(asdict(snapshot))
        return
    for name, value in (
        ("snapshot", snapshot.snapshot_id),
        ("state", str(snapshot.state)),
        ("day", snapshot.day or "manual"),
        ("as of", format_instant(snapshot.as_of)),
        ("started", format_instant(snapshot.started_at)),
        ("finished", format_instant(snapshot.finished_at)),
        ("published", format_instant(snapshot.published_at)),
        ("version", snapshot.version),
        ("builder", snapshot.builder),
        ("accepted because", snapshot.accepted_reason),
        ("failure", snapshot.failure),
    ):
        if value:
            print_text(f"{name + ':':18}{value}")
    print_report(snapshot)


@app.command
def verify(
    snapshot_id: CurrentSnapshot = None,
    *,
    deltas: Annotated[Flag, Parameter(help="Prove the chain of deltas of the current snapshot instead.")] = False,
    repair: Annotated[Flag, Parameter(help="Let the next run write the damaged files again.")] = False,
    config: Config = None,
) -> int:
    """Read every file of a snapshot and compare it with the manifest. Exit code 1 if a file is damaged or lost."""
    settings = settings_of(config)
    if deltas:
        if snapshot_id is not None:
            raise WrongUse("--deltas proves the chain of the current snapshot. Leave out the snapshot id.")
        return _verify_deltas(settings)
    with state_of(settings) as state:
        if snapshot_id is None:
            served = state.read(lambda stores: stores.snapshots.current())
            if served is None:
                raise OperatorError("There is no published snapshot yet. Build one with `daybreakd snapshot run`.")
            found = served
        else:
            found = _find_snapshot(state, snapshot_id)
        result = verify_snapshot(state, open_files(settings), found.snapshot_id, threads=settings.snapshot.thread_count)
        files = [each.file for each in result.damaged]
        state.write(partial(_record_damage, found.snapshot_id, files, now_utc(), repair))
    # A lost pack is the fault of each file in it.
    for fault, of_fault in groupby(sorted(result.damaged, key=attrgetter("fault")), attrgetter("fault")):
        first, *others = [each.file for each in of_fault]
        more = f" and {format_count(len(others), 'other file')}" if others else ""
        owner = first.client_id or "all Leaders without rows"
        print_text(f"damaged: {first.resource}.{first.format} of {owner}{more}: {fault}")
    print_text(
        f"{found.snapshot_id}: {format_count(result.files, 'file')}, {format_size(result.bytes)} read, "
        f"{len(result.damaged)} damaged"
    )
    if not result.damaged:
        return 0
    print_note(
        "The next run writes these files again. To run it now: `daybreakd snapshot run`."
        if repair
        else "To let the next run write these files again, add --repair."
    )
    return 1


def _record_damage(
    snapshot_id: str, files: Sequence[ManifestFile], now: datetime, repair: bool, stores: Stores
) -> None:
    stores.file_faults.record(snapshot_id, len(files), now, by_reading=True)
    for file in files if repair else ():
        stores.snapshots.forget_fingerprint(snapshot_id, file.client_id, file.resource)


def _verify_deltas(settings: Settings) -> int:
    with state_of(settings) as state:
        result = verify_deltas(state, open_files(settings))
    for line in result.faults:
        print_text(f"fault: {line}")
    print_text(
        f"{format_count(result.versions, 'version')}, {format_count(result.deltas, 'delta')} read, "
        f"{result.compared:,} compared byte for byte, {format_count(len(result.faults), 'fault')}"
    )
    if not result.faults:
        return 0
    print_note(
        "Consumers detect a damaged delta by its digest and load the full file. To begin another chain, publish once "
        "with `snapshot.deltas = false`."
    )
    return 1


@app.command
def watch(*, config: Config = None) -> int:
    """Show the progress of the current run until it ends. The run can be in any process."""
    with state_of(config) as state:
        runs = state.read(lambda stores: stores.snapshots.recent(50))
        current = next((each for each in runs if each.is_running(now_utc())), None)
        if current is None:
            _print_failure(runs, now_utc())
            print_note("No run is in progress.")
            return 0
        snapshot_id = current.snapshot_id
        with run_progress() as show_progress:
            while current.is_running(now_utc()):
                show_progress(current.progress)
                time.sleep(_POLL_SECONDS)
                current = state.read(lambda stores: stores.snapshots.get(snapshot_id)) or current
    if current.state == "building":
        _print_failure([current], now_utc())
        return 1
    _print_result(current)
    return 1 if current.state == "failed" else 0


@app.command
def publish(
    snapshot_id: SnapshotId,
    *,
    accept: Annotated[str | None, Parameter(help="Reason for publishing a snapshot that the guard blocks.")] = None,
    config: Config = None,
) -> None:
    """Publish a complete snapshot now, or one that the guard blocks."""
    _print_result(_accept(settings_of(config), snapshot_id, accept or ""))


@app.command
def discard(
    snapshot_id: SnapshotId,
    *,
    reason: Annotated[str, Parameter(help="Reason for the audit trail.")] = "discarded by the operator",
    config: Config = None,
) -> None:
    """Discard a complete or held snapshot. Published files stay unchanged."""
    with state_of(config) as state:
        found = _find_snapshot(state, snapshot_id)
        publication.discard(state, found.snapshot_id, reason, now_utc())
    print_text(f"{found.snapshot_id} is discarded.")


@app.command
def forget(
    snapshot_id: SnapshotId,
    *,
    reason: Annotated[str, Parameter(help="Reason for the audit trail.")] = "forgotten by the operator",
    config: Config = None,
) -> None:
    """Delete the files of a kept snapshot before its time, also if they are lost. Its deltas stay.

    Its downloads and links, and Delta Sharing queries of its version, end
    immediately. The published one is refused.
    """
    settings = settings_of(config)
    with state_of(settings) as state:
        found = _find_snapshot(state, snapshot_id)
        files = retention.forget(state, open_files(settings), found.snapshot_id, reason, now_utc())
    print_text(
        f"{found.snapshot_id} is forgotten: {format_count(files, 'file')} deleted. Version {found.version} can no "
        "longer be downloaded or queried."
    )


def _accept(settings: Settings, snapshot_id: str, reason: str) -> Snapshot:
    with state_of(settings) as state:
        found = _find_snapshot(state, snapshot_id)
        return publication.accept(state, open_files(settings), settings, found.snapshot_id, reason, now_utc())


def _find_snapshot(state: State, id_prefix: str | None) -> Snapshot:
    """Return the recent run whose id starts with the prefix; the latest one for None. Raises OperatorError."""
    runs = state.read(lambda stores: stores.snapshots.recent(_MAX_RUNS_SEARCHED))
    if id_prefix is None:
        if not runs:
            raise OperatorError("There is no run yet. Start one with `daybreakd snapshot run`.")
        return runs[0]
    if len(id_prefix) < _MIN_PREFIX_LENGTH:
        raise WrongUse(
            f"{id_prefix!r} is too short. Use at least the first {_MIN_PREFIX_LENGTH} characters of the snapshot id. "
            "See `daybreakd snapshot list`."
        )
    matching = [each for each in runs if each.snapshot_id.startswith(id_prefix.lower())]
    if len(matching) != 1:
        what = "More than one snapshot starts" if len(matching) > 1 else "No snapshot starts"
        raise OperatorError(f"{what} with {id_prefix!r}. See `daybreakd snapshot list`.")
    return matching[0]


def _print_result(snapshot: Snapshot) -> None:
    report = snapshot.report
    print_text(
        f"{snapshot.snapshot_id} {snapshot.state}: {format_count(report.rows or 0, 'row')}, "
        f"{format_count(report.files or 0, 'file')}, {format_size(report.bytes or 0)}, "
        f"{format_duration(report.seconds or 0)}"
    )
    if snapshot.failure:
        print_note(f"daybreakd: {snapshot.failure}")
    if any(source_warnings(report)):
        print_note(f"The source contains unexpected data. See `daybreakd snapshot show {snapshot.snapshot_id}`.")
    if snapshot.state == "held":
        print_note(
            f"The guard blocks it. See `daybreakd snapshot show {snapshot.snapshot_id}`, then run "
            f"`daybreakd snapshot publish {snapshot.snapshot_id} --accept REASON` or `... discard`."
        )


def _print_failure(runs: Sequence[Snapshot], now: datetime) -> None:
    """Report the newest run if it failed or lapsed."""
    for run in runs[:1]:
        if run.failure:
            print_note(f"{run.snapshot_id} failed: {run.failure}")
        elif run.lapsed(now):
            since = format_instant(run.heartbeat_at)
            print_note(
                f"{run.snapshot_id} lapsed: no heartbeat from {run.builder} since {since} UTC. "
                "The next run starts over."
            )


def _row(each: Snapshot, now: datetime) -> tuple[object, ...]:
    took = each.duration.total_seconds() if each.duration is not None else None
    report = each.report
    figures: tuple[object, ...] = ("", "", "")
    if report.rows is not None:
        figures = (f"{report.rows:,}", f"{report.files or 0:,}", format_size(report.bytes or 0))
    duration = "" if took is None else format_duration(took)
    state = each.state_at(now)
    version = "" if each.version is None else each.version
    times = format_instant(each.as_of), format_instant(each.published_at)
    return each.snapshot_id, state, version, *times, duration, *figures
