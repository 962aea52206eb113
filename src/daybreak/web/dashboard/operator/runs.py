"""Handlers of the run pages: list, progress, one run, decision on a held snapshot. Also the list of nodes."""

from collections.abc import Callable
from datetime import date, timedelta
from functools import partial

from starlette.responses import Response

from daybreak.domain.errors import InvalidRequest, OperatorError
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.publish import accept, discard
from daybreak.snapshots.run_requests import request_run, waiting_requests
from daybreak.state.nodes import ALIVE_FOR
from daybreak.state.run_requests import RunRequest
from daybreak.state.stores import Stores
from daybreak.web.dashboard.freshness.view import freshness_view
from daybreak.web.dashboard.operator.comparison import confirmation, findings, findings_of, is_confirmed
from daybreak.web.dashboard.operator.run_view import failure_summary, progress_context, run_context, runs_version
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import SUCCESS, Flash, PageOutcome, invalid_field, reload_page, render_template

_RUNS_SHOWN = 40
_RUNS_COMPARED = 200
_MAXIMUM_REASON_LENGTH = 500
_UNDECIDED = {SnapshotState.HELD, SnapshotState.COMPLETE}

Decision = Callable[..., object]
_LISTED_FOR = timedelta(days=1)


async def open_operator_start(page: PageRequest) -> Response:
    return page.redirect("runs")


async def list_runs(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    """List the 40 most recent runs, with the progress of those under way."""
    return render_page(page, "operator/runs.html", await _runs_context(page), outcome)


async def show_progress(page: PageRequest) -> Response:
    """Return the progress partial, which pages request every second while a run is under way, else every five.

    The parameter `seen` is the version of the runs on the Runs page. If a run began or ended since, return the whole
    content of that page. The page of a run has no version, and is loaded again when no run is under way.
    """
    runs = await page.read(lambda stores: stores.snapshots.recent(_RUNS_SHOWN))
    seen, progress = page.request.query_params.get("seen"), progress_context(runs, page.now)
    if seen is not None and seen != runs_version(runs, page.now):
        outcome = PageOutcome(headers={"Daybreak-Target": "runs-live"})
        context = {"operator_url": page.operator_url, **await _runs_context(page)}
        return render_template(page, "operator/runs_live.html", context, outcome)
    if seen is None and not progress["building"]:
        return reload_page()
    return render_template(page, "operator/progress.html", progress)


async def show_run(page: PageRequest, outcome: PageOutcome = SUCCESS) -> Response:
    run, services = await requested_run(page), page.services
    previous, names = await _load_comparison(page, run)
    context = run_context(run, previous, names, services.settings, page.now)
    return render_page(page, "operator/run.html", context, outcome)


async def _load_comparison(page: PageRequest, run: Snapshot) -> tuple[Snapshot | None, dict[str, str]]:
    """Read the snapshot published before a run, and the names of Leaders that lost too many rows."""
    leaders = {finding.client_id for finding in findings_of(run, "leader_rows") if finding.client_id is not None}

    def read(stores: Stores) -> tuple[Snapshot | None, dict[str, str]]:
        return published_before(stores, run), stores.directory.names(leaders)

    # Run in a thread: 100,000 Leaders may have lost rows.
    return await page.read_long(read)


async def load_undecided(page: PageRequest) -> dict[str, object] | Response:
    """Return the variables of the pages that ask to confirm a decision. Redirect if there is nothing to decide."""
    run = await requested_run(page)
    if run.state not in _UNDECIDED:
        return page.redirect(f"runs/{run.snapshot_id}", done="decided")
    _, names = await _load_comparison(page, run)
    return {
        "run": run,
        "findings": findings(run, names),
        "confirmation": confirmation(run),
        "maximum_reason": _MAXIMUM_REASON_LENGTH,
    }


async def publish_run(page: PageRequest) -> Response | PageOutcome:
    """Publish a held snapshot. The reason is recorded in the audit trail."""
    run = await requested_run(page)
    if not is_confirmed(run, page.form.get("confirmation", "")):
        return invalid_field("confirmation", f"Type {confirmation(run)} to publish this snapshot.")
    services = page.services
    return await _decide(
        page, run, "accepted", partial(accept, services.state, services.files, services.settings, run.snapshot_id)
    )


async def discard_run(page: PageRequest) -> Response | PageOutcome:
    """Discard a held snapshot. The reason is recorded in the audit trail."""
    run = await requested_run(page)
    return await _decide(page, run, "discarded", partial(discard, page.services.state, run.snapshot_id))


async def request_new_run(page: PageRequest) -> Response | PageOutcome:
    """Ask a builder for a manual run, or for another attempt at a failed day."""
    form, services = page.form, page.services
    request_id, actor = services.new_id(), page.seat.email
    try:
        day = date.fromisoformat(form["day"]) if form.get("day") else None
    except ValueError:
        raise InvalidRequest("Invalid day in the form.") from None
    try:
        await page.run_task(lambda: request_run(services.state, page.now, request_id=request_id, actor=actor, day=day))
    except OperatorError as error:
        return PageOutcome(409, flash=Flash("warn", error.message))
    return page.redirect("runs", done="run-requested")


async def _decide(page: PageRequest, run: Snapshot, done: str, decide: Decision) -> Response | PageOutcome:
    reason = page.form.get("reason", "").strip()[:_MAXIMUM_REASON_LENGTH]
    if not reason:
        return invalid_field("reason", "Enter a reason.")
    if run.state not in _UNDECIDED:
        return page.redirect(f"runs/{run.snapshot_id}", done="decided")
    await page.run_task(lambda: decide(reason, page.now, actor=page.seat.email))
    return page.redirect(f"runs/{run.snapshot_id}", done=done)


async def _runs_context(page: PageRequest) -> dict[str, object]:
    publish_at = page.dashboard.publish_at

    def read(stores: Stores) -> tuple[Freshness, list[Snapshot], list[RunRequest]]:
        fresh = freshness(stores.snapshots, page.now, publish_at)
        return fresh, stores.snapshots.recent(_RUNS_SHOWN), waiting_requests(stores, page.now)

    fresh, runs, waiting = await page.read(read)
    return {
        "fresh": freshness_view(fresh, page.now),
        **progress_context(runs, page.now),
        "runs": runs,
        "published": fresh.snapshot,
        "reason_of": failure_summary,
        "waiting": waiting,
        "progress_url": page.url("runs-progress", seen=runs_version(runs, page.now)),
    }


async def requested_run(page: PageRequest) -> Snapshot:
    snapshot_id = page.request.path_params["snapshot_id"]
    return await page.find(lambda stores: stores.snapshots.get(snapshot_id), "No such run.")


def published_before(stores: Stores, run: Snapshot) -> Snapshot | None:
    """Return the snapshot that was published when the run ended, if its report is still known."""
    ended_at = run.finished_at or run.started_at
    published = [
        each
        for each in stores.snapshots.recent(_RUNS_COMPARED)
        if each.published_at is not None and each.published_at <= ended_at and each.snapshot_id != run.snapshot_id
    ]
    return max(published, key=lambda each: each.published_at or each.as_of, default=None)


async def list_nodes(page: PageRequest) -> Response:
    """List the processes that sent a heartbeat in the last day."""
    since = page.now - _LISTED_FOR
    nodes = await page.read(lambda stores: stores.nodes.list_seen(since))
    return render_page(page, "operator/nodes.html", {"nodes": nodes, "alive_for": ALIVE_FOR})
