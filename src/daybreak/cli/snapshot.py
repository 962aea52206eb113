"""`daybreakd snapshot`: runs and what came of them."""

import signal
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from daybreak.cli.examples import examples_of
from daybreak.cli.options import AsJson, Config, Limit, instant, settings_of
from daybreak.cli.output import note, say, say_json, say_table, shown_bytes, shown_instant, shown_seconds
from daybreak.domain.errors import OperatorError
from daybreak.snapshots.report import count, figure, oddities_of, resources_of

if TYPE_CHECKING:
    from datetime import datetime

    from daybreak.domain.snapshot import Snapshot
    from daybreak.ports.state import State
    from daybreak.settings import Settings

app = App(name="snapshot", help="Runs and what came of them.", help_epilogue=examples_of("snapshot"))
SnapshotId = Annotated[str, Parameter(help="The snapshot's id, or enough of its beginning.")]
_RUNS_TO_FIND = 1000
_LOOK_SECONDS = 1.0


@app.command
def run(
    *,
    as_of: Annotated[
        str | None,
        Parameter(
            help="The instant the files show, such as 2026-11-20T04:00:00Z; not ahead, nor before the one that is "
            "served. Else now."
        ),
    ] = None,
    full: Annotated[
        bool, Parameter(help="Write every file anew, also of Leaders that did not change.", negative="")
    ] = False,
    force: Annotated[
        str | None,
        Parameter(help="Publish even if the guard holds the snapshot back; the text says why that is right."),
    ] = None,
    config: Config = None,
) -> int:
    """Make a snapshot now and publish it as soon as it is complete, at low priority: requests go first. Exit code 1
    when it is not published, as when the guard holds it back.
    """
    from daybreak.cli.logs import configure_logging
    from daybreak.snapshots.builder import take_low_priority

    settings = settings_of(config)
    at = instant(as_of, "--as-of") if as_of is not None else None
    configure_logging(settings)
    take_low_priority()
    snapshot = run_once(settings, as_of=at, full=full, logged=True)
    if snapshot.state == "held" and force is not None:
        snapshot = _accept(settings, snapshot.snapshot_id, force)
    _say_result(snapshot)
    return 0 if snapshot.state == "published" else 1


def run_once(
    settings: "Settings", *, as_of: "datetime | None" = None, full: bool = False, logged: bool = False
) -> "Snapshot":
    """One run with its progress on standard error, or `logged` there as `watching_run` says; gives the snapshot as it
    then stands. Logging is set up before.
    """
    from daybreak.bootstrap import open_state, workshop
    from daybreak.cli.progress import watching_run
    from daybreak.snapshots.builder import stop_on_signals
    from daybreak.snapshots.run import run_by_hand

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with closing(open_state(settings)) as state, watching_run(logged=logged) as watch:
            shop = workshop(settings, state, watch)
            # Ctrl-C ends a run at its next file and leaves nothing behind; a second one ends the process.
            stop_on_signals(shop.stop)
            return run_by_hand(shop, as_of=as_of, full=full)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@app.command(name="list")
def list_(
    *,
    limit: Limit = 20,
    config: Config = None,
    json: AsJson = False,
) -> None:
    """List runs, newest first, and say how fresh the files are."""
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.snapshots.freshness import freshness

    settings = settings_of(config)
    now = now_utc()
    with closing(open_state(settings)) as state:
        runs, fresh = state.read(
            lambda stores: (
                stores.snapshots.recent(limit),
                freshness(stores.snapshots, now, settings.snapshot.publish_at),
            )
        )
    if json:
        say_json([_as_json(each) for each in runs])
        return
    say_table(
        ("SNAPSHOT", "STATE", "AS OF (UTC)", "PUBLISHED (UTC)", "TOOK", "ROWS", "FILES", "SIZE"),
        (_row(each, now) for each in runs),
        numbers=frozenset({"TOOK", "ROWS", "FILES", "SIZE"}),
    )
    _note_ended_badly(runs, now)
    standing = f"Late: {fresh.reason}" if fresh.late else "Fresh."
    note(f"{standing} Next files expected {shown_instant(fresh.next_expected_at)} UTC.")


@app.command
def show(snapshot_id: SnapshotId, *, config: Config = None, json: AsJson = False) -> None:
    """Show one run: its report by resource, what was odd in the source, and what the guard found."""
    from daybreak.bootstrap import open_state

    with closing(open_state(settings_of(config))) as state:
        snapshot = _found(state, snapshot_id)
    if json:
        say_json(_as_json(snapshot))
        return
    for name, value in (
        ("snapshot", snapshot.snapshot_id),
        ("state", str(snapshot.state)),
        ("day", snapshot.day or "by hand"),
        ("as of", shown_instant(snapshot.as_of)),
        ("started", shown_instant(snapshot.started_at)),
        ("finished", shown_instant(snapshot.finished_at)),
        ("published", shown_instant(snapshot.published_at)),
        ("builder", snapshot.builder),
        ("accepted because", snapshot.accepted_reason),
        ("failure", snapshot.failure),
    ):
        if value:
            say(f"{name + ':':18}{value}")
    resources = resources_of(snapshot.report)
    if resources:
        say()
        say_table(
            ("RESOURCE", "ROWS", "LEADERS", "CARRIED", "SIZE", "TOOK"),
            [
                (name, f"{count(figures, 'rows'):,}", figures.get("leaders"), figures.get("carried"),
                 shown_bytes(count(figures, "bytes")), shown_seconds(figure(figures, "seconds")))
                for name, figures in resources.items()
            ],
            numbers=frozenset({"ROWS", "LEADERS", "CARRIED", "SIZE", "TOOK"}),
        )  # fmt: skip
    for oddity in oddities_of(snapshot.report):
        say(f"odd: {oddity}")
    findings = snapshot.report.get("findings")
    if isinstance(findings, list):
        for finding in findings:
            say(f"suspicious: {finding.get('detail')}")


@app.command
def verify(
    snapshot_id: Annotated[str | None, Parameter(help="Else the one that is served.")] = None, *, config: Config = None
) -> int:
    """Read every file of a snapshot back and compare it with the manifest. Exit code 1 when one is damaged."""
    from daybreak.bootstrap import open_files, open_state, thread_count
    from daybreak.snapshots.verify import verify_snapshot

    settings = settings_of(config)
    with closing(open_state(settings)) as state:
        if snapshot_id is None:
            served = state.read(lambda stores: stores.snapshots.current())
            if served is None:
                raise OperatorError("No snapshot is served yet: make one with `daybreakd snapshot run`.")
            found = served
        else:
            found = _found(state, snapshot_id)
        result = verify_snapshot(state, open_files(settings), found.snapshot_id, threads=thread_count(settings))
    for damage in result.damaged:
        say(f"damaged: {damage.resource}.{damage.format} of {damage.client_id or 'all without rows'}: {damage.reason}")
    say(
        f"{result.files:,} files, {shown_bytes(result.bytes)} read, {len(result.damaged)} damaged ({found.snapshot_id})"
    )
    if not result.damaged:
        return 0
    note(
        "Made anew by `daybreakd snapshot run --full`: without --full files of Leaders that did not change are carried "
        "over as they are."
    )
    return 1


@app.command
def watch(*, config: Config = None) -> int:
    """Watch the run that is under way, in whatever process, until it ends."""
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.cli.progress import watching_run

    with closing(open_state(settings_of(config))) as state:
        runs = state.read(lambda stores: stores.snapshots.recent(50))
        current = next((each for each in runs if each.under_way(now_utc())), None)
        if current is None:
            _note_ended_badly(runs, now_utc())
            note("No run is under way.")
            return 0
        with watching_run() as show_progress:
            while current.under_way(now_utc()):
                show_progress(current.progress)
                time.sleep(_LOOK_SECONDS)
                current = _again(state, current)
    if current.state == "building":
        _note_ended_badly([current], now_utc())
        return 1
    _say_result(current)
    return 1 if current.state == "failed" else 0


@app.command
def publish(
    snapshot_id: SnapshotId,
    *,
    accept: Annotated[str | None, Parameter(help="Why a snapshot that is held back is right after all.")] = None,
    config: Config = None,
) -> None:
    """Publish a complete snapshot now, or one that the guard holds back."""
    _say_result(_accept(settings_of(config), snapshot_id, accept or ""))


@app.command
def discard(
    snapshot_id: SnapshotId,
    *,
    reason: Annotated[str, Parameter(help="Why, for the audit trail.")] = "discarded by the operator",
    config: Config = None,
) -> None:
    """Give a complete or held snapshot up; what is served stays served."""
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.snapshots.publish import discard as given_up

    with closing(open_state(settings_of(config))) as state:
        found = _found(state, snapshot_id)
        given_up(state, found.snapshot_id, reason, now_utc())
    say(f"{found.snapshot_id} is discarded.")


def _again(state: "State", snapshot: "Snapshot") -> "Snapshot":
    return state.read(lambda stores: stores.snapshots.get(snapshot.snapshot_id)) or snapshot


def _accept(settings: "Settings", snapshot_id: str, reason: str) -> "Snapshot":
    from daybreak.bootstrap import now_utc, open_state
    from daybreak.snapshots.publish import accept

    with closing(open_state(settings)) as state:
        found = _found(state, snapshot_id)
        return accept(state, found.snapshot_id, reason, now_utc())


def _found(state: "State", beginning: str) -> "Snapshot":
    """The one of the last runs whose id begins so. Raises OperatorError."""
    runs = state.read(lambda stores: stores.snapshots.recent(_RUNS_TO_FIND))
    matching = [each for each in runs if each.snapshot_id.startswith(beginning.lower())]
    if len(matching) != 1 or len(beginning) < 4:
        what = "more than one snapshot begins" if len(matching) > 1 else "no snapshot begins"
        raise OperatorError(f"{what} with {beginning!r}: see `daybreakd snapshot list`.")
    return matching[0]


def _say_result(snapshot: "Snapshot") -> None:
    report = snapshot.report
    say(
        f"{snapshot.snapshot_id} {snapshot.state}: {count(report, 'rows'):,} rows, "
        f"{count(report, 'files'):,} files, {shown_bytes(count(report, 'bytes'))}, "
        f"{shown_seconds(figure(report, 'seconds'))}"
    )
    if snapshot.failure:
        note(f"daybreakd: {snapshot.failure}")
    if any(oddities_of(report)):
        note(f"Not all of the source is as its schema says: see `daybreakd snapshot show {snapshot.snapshot_id}`.")
    if snapshot.state == "held":
        note(
            f"The guard holds it back: see `daybreakd snapshot show {snapshot.snapshot_id}`; then "
            f"`daybreakd snapshot publish {snapshot.snapshot_id} --accept WHY` or `... discard`."
        )


def _note_ended_badly(runs: "Sequence[Snapshot]", now: "datetime") -> None:
    """What became of the newest of the runs, when that is no snapshot."""
    for run in runs[:1]:
        if run.failure:
            note(f"{run.snapshot_id} failed: {run.failure}")
        elif run.lapsed(now):
            since = shown_instant(run.heartbeat_at)
            note(f"{run.snapshot_id} lapsed: {run.builder} was last heard of at {since} UTC. The next run begins anew.")


def _row(each: "Snapshot", now: "datetime") -> tuple[object, ...]:
    took = (each.finished_at - each.started_at).total_seconds() if each.finished_at else None
    report = each.report
    figures: tuple[object, ...] = ("", "", "")
    if report.get("rows") is not None:
        size = shown_bytes(count(report, "bytes"))
        figures = (f"{count(report, 'rows'):,}", f"{count(report, 'files'):,}", size)
    shown = "" if took is None else shown_seconds(took)
    state = "lapsed" if each.lapsed(now) else each.state
    return each.snapshot_id, state, shown_instant(each.as_of), shown_instant(each.published_at), shown, *figures


def _as_json(each: "Snapshot") -> dict[str, object]:
    from dataclasses import asdict

    return asdict(each)
