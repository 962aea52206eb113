"""Handlers of the run pages: list, progress, one run, decision on a held snapshot."""

from __future__ import annotations

import asyncio
from datetime import date

from starlette.responses import Response

from daybreak.domain.errors import InvalidRequest, NotFound, OperatorError
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.publish import accept, discard
from daybreak.snapshots.run_requests import request_run, waiting_requests
from daybreak.state.run_requests import RunRequest
from daybreak.state.stores import Stores
from daybreak.web.dashboard.operator.comparison import confirmation, is_confirmed, leaders_with_findings
from daybreak.web.dashboard.operator.confirmation import prompt_if_needed
from daybreak.web.dashboard.operator.run_view import progress_views, run_context, runs_context, runs_version
from daybreak.web.dashboard.outcome import SUCCESS, Flash, PageOutcome, invalid_field
from daybreak.web.dashboard.page_layout import operator_path, render_page
from daybreak.web.dashboard.page_request import PageRequest, read_page_form
from daybreak.web.dashboard.rendering import redirect, render_template

_RUNS_SHOWN = 40
_RUNS_COMPARED = 200
_MAXIMUM_REASON_LENGTH = 500
_DECISIONS = {"accept": "accepted", "discard": "discarded"}


async def open_operator_start(page: PageRequest) -> Response:
    """Redirect to the Runs page."""
    return redirect(page.dashboard, operator_path(page, "runs"))


async def list_runs(page: PageRequest) -> Response:
    """List the 40 most recent runs, with the progress of those under way."""
    return render_page(page, "operator/runs.html", "runs", await _runs_context(page))


async def show_progress(page: PageRequest) -> Response:
    """Return the progress partial, which pages request every second while a run is under way, else every five.

    The parameter `seen` is the version of the runs on the Runs page. If a run began or ended since, return the whole
    content of that page. The page of a run has no version, and is loaded again when no run is under way.
    """
    runs = await page.dashboard.services.state.aread(lambda stores: stores.snapshots.recent(_RUNS_SHOWN))
    seen, building = page.request.query_params.get("seen"), progress_views(runs, page.now)
    if seen is not None and seen != runs_version(runs, page.now):
        outcome = PageOutcome(headers={"HX-Retarget": "#runs-live"})
        layout = {"operator_url": lambda path: page.dashboard.root + operator_path(page, path)}
        context = {**layout, **await _runs_context(page)}
        return render_template(page.dashboard, page.request, "operator/runs_live.html", context, outcome)
    if seen is None and not building:
        return Response(status_code=200, headers={"HX-Refresh": "true", "Cache-Control": "no-store"})
    return render_template(page.dashboard, page.request, "operator/progress.html", {"building": building})


async def show_run(page: PageRequest) -> Response:
    """Show one run."""
    return await _run_page(page, await _requested_run(page))


async def decide_on_run(page: PageRequest) -> Response:
    """Publish or discard a held snapshot. The reason is recorded in the audit trail."""
    form = await read_page_form(page)
    prompt = prompt_if_needed(page, f"runs/{page.request.path_params['snapshot_id']}")
    if prompt is not None:
        return prompt
    run, reason = await _requested_run(page), form.get("reason", "").strip()[:_MAXIMUM_REASON_LENGTH]
    if not reason:
        return await _run_page(page, run, invalid_field("reason", "Enter a reason."))
    if run.state not in {SnapshotState.HELD, SnapshotState.COMPLETE}:
        return _redirect(page, run, "decided")
    decision = form.get("decision", "")
    if decision not in _DECISIONS:
        return await _run_page(page, run, invalid_field("reason", "Choose Publish or Discard."), reason)
    if decision == "accept" and not is_confirmed(run, form.get("confirmation", "")):
        fault = invalid_field("confirmation", f"Type {confirmation(run)} to publish this snapshot.")
        return await _run_page(page, run, fault, reason)
    try:
        await asyncio.to_thread(_decide, page, run.snapshot_id, decision, reason)
    except OperatorError as error:
        return await _run_page(page, run, PageOutcome(409, errors={"reason": error.message}), reason)
    return _redirect(page, run, _DECISIONS[decision])


def _decide(page: PageRequest, snapshot_id: str, decision: str, reason: str) -> None:
    services, actor = page.dashboard.services, page.seat.email
    if decision == "accept":
        accept(services.state, services.files, services.settings, snapshot_id, reason, page.now, actor=actor)
    else:
        discard(services.state, snapshot_id, reason, page.now, actor=actor)


async def request_new_run(page: PageRequest) -> Response:
    """Ask a builder for a manual run, or for another attempt at a failed day."""
    form, services = await read_page_form(page), page.dashboard.services
    prompt = prompt_if_needed(page, "runs")
    if prompt is not None:
        return prompt
    request_id, actor = services.access.new_id(), page.seat.email
    try:
        day = date.fromisoformat(form["day"]) if form.get("day") else None
    except ValueError:
        raise InvalidRequest("Invalid day in the form.") from None
    try:
        await asyncio.to_thread(request_run, services.state, page.now, request_id=request_id, actor=actor, day=day)
    except OperatorError as error:
        outcome = PageOutcome(409, flash=Flash("warn", error.message))
        context = {**await _runs_context(page), "history_url": page.dashboard.root + operator_path(page, "runs")}
        return render_page(page, "operator/runs.html", "runs", context, outcome)
    return redirect(page.dashboard, operator_path(page, "runs", done="run-requested"))


async def _runs_context(page: PageRequest) -> dict[str, object]:
    publish_at = page.dashboard.publish_at

    def read(stores: Stores) -> tuple[Freshness, list[Snapshot], list[RunRequest]]:
        fresh = freshness(stores.snapshots, page.now, publish_at)
        return fresh, stores.snapshots.recent(_RUNS_SHOWN), waiting_requests(stores, page.now)

    fresh, runs, waiting = await page.dashboard.services.state.aread(read)
    progress_path = operator_path(page, "runs-progress", seen=runs_version(runs, page.now))
    return {
        **runs_context(fresh, runs, page.now),
        "waiting": waiting,
        "progress_url": page.dashboard.root + progress_path,
    }


async def _requested_run(page: PageRequest) -> Snapshot:
    snapshot_id = page.request.path_params["snapshot_id"]
    run = await page.dashboard.services.state.aread(lambda stores: stores.snapshots.get(snapshot_id))
    if run is None:
        raise NotFound("No such run.")
    return run


async def _run_page(page: PageRequest, run: Snapshot, outcome: PageOutcome = SUCCESS, reason: str = "") -> Response:
    services, leaders = page.dashboard.services, leaders_with_findings(run)

    def read(stores: Stores) -> tuple[Snapshot | None, dict[str, str]]:
        accounts = stores.directory.load().accounts if leaders else ()
        names = {account.client_id: account.name for account in accounts if account.client_id in leaders}
        return _published_before(stores, run), names

    # Run in a thread: there may be 100,000 accounts.
    previous, names = await asyncio.to_thread(services.state.read, read)
    context = {**run_context(run, previous, names, services.settings, page.now), "reason": reason}
    if page.request.method == "POST":
        context["history_url"] = page.dashboard.root + operator_path(page, f"runs/{run.snapshot_id}")
    return render_page(page, "operator/run.html", "runs", context, outcome)


def _published_before(stores: Stores, run: Snapshot) -> Snapshot | None:
    """Return the snapshot that was published when the run ended, if its report is still known."""
    ended_at = run.finished_at or run.started_at
    published = [
        each
        for each in stores.snapshots.recent(_RUNS_COMPARED)
        if each.published_at is not None and each.published_at <= ended_at and each.snapshot_id != run.snapshot_id
    ]
    return max(published, key=lambda each: each.published_at or each.as_of, default=None)


def _redirect(page: PageRequest, run: Snapshot, done: str) -> Response:
    return redirect(page.dashboard, operator_path(page, f"runs/{run.snapshot_id}", done=done))
