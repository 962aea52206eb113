"""Operator pages: runs and their progress, held publications and the decision, freshness across Leaders, accounts
and seats with their permissions, nodes.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from starlette.responses import Response

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.errors import NotFound, OperatorError
from daybreak.domain.identity import Account
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.ports.access_stores import Directory
from daybreak.ports.state import Stores
from daybreak.snapshots.freshness import freshness
from daybreak.snapshots.publish import accept, discard
from daybreak.snapshots.report import count, figure, oddities_of, resources_of
from daybreak.web.dashboard import run_words
from daybreak.web.dashboard.desk import Desk, go_to, render
from daybreak.web.dashboard.doorway import operator_page
from daybreak.web.dashboard.freshness_view import freshness_view
from daybreak.web.dashboard.presentation import number
from daybreak.web.dashboard.visit import Visit, read_post, show
from daybreak.web.routing import Route, methods

_RUNS = 40
_SHOWN = 100
_NODE_ALIVE = timedelta(minutes=2)


def operator_pages(desk: Desk) -> list[Route]:
    """The routes below /dashboard/operator."""
    base = "/dashboard/operator"
    return [
        methods(base, GET=operator_page(desk, _home)),
        methods(f"{base}/runs", GET=operator_page(desk, _runs)),
        methods(f"{base}/runs-progress", GET=operator_page(desk, _progress)),
        methods(f"{base}/runs/{{snapshot_id}}", GET=operator_page(desk, _run)),
        methods(f"{base}/runs/{{snapshot_id}}/decide", POST=operator_page(desk, _decide)),
        methods(f"{base}/freshness", GET=operator_page(desk, _freshness)),
        methods(f"{base}/people", GET=operator_page(desk, _people)),
        methods(f"{base}/nodes", GET=operator_page(desk, _nodes)),
    ]


async def _home(visit: Visit) -> Response:
    return go_to(visit.desk, _path(visit, "runs"))


async def _runs(visit: Visit) -> Response:
    publish_at = visit.desk.services.downloads.settings.publish_at

    def read(stores: Stores) -> tuple[Freshness, list[Snapshot]]:
        return freshness(stores.snapshots, visit.now, publish_at), stores.snapshots.recent(_RUNS)

    fresh, runs = await visit.desk.services.state.aread(read)
    served = fresh.snapshot.snapshot_id if fresh.snapshot is not None else None
    context: dict[str, object] = {
        "fresh": freshness_view(fresh, visit.now),
        "publish_clock": visit.desk.publish_clock,
        "held": [
            {"as_of": run.as_of, "snapshot_id": run.snapshot_id, "summary": run_words.summary_of(run)}
            for run in runs
            if run.state is SnapshotState.HELD
        ],
        "building": [run_words.building_view(run, visit.now) for run in runs if run.under_way(visit.now)],
        "runs": [
            {
                "snapshot_id": run.snapshot_id,
                "as_of": run.as_of,
                "day": run.day,
                "state": run_words.state_of(run, visit.now),
                "current": run.snapshot_id == served,
                "took": run_words.took(run),
                "rows": run_words.rows_of(run),
                "published_at": run.published_at,
                "builder": run.builder or "\N{EN DASH}",
            }
            for run in runs
        ],
    }
    return show(visit, "operator/runs.html", "runs", context)


async def _progress(visit: Visit) -> Response:
    """The part of the page that htmx asks for again and again while a run is under way."""
    runs = await visit.desk.services.state.aread(lambda stores: stores.snapshots.recent(_RUNS))
    building = [run_words.building_view(run, visit.now) for run in runs if run.under_way(visit.now)]
    if not building:
        # Nothing builds any more: the whole page has news.
        return Response(status_code=200, headers={"HX-Refresh": "true", "Cache-Control": "no-store"})
    return render(visit.desk, visit.request, "operator/progress.html", {"building": building})


async def _run(visit: Visit) -> Response:
    return await _run_page(visit)


async def _run_page(visit: Visit, *, error: str = "", reason: str = "", status: int = 200) -> Response:
    snapshot_id = visit.request.path_params["snapshot_id"]
    run = await visit.desk.services.state.aread(lambda stores: stores.snapshots.get(snapshot_id))
    if run is None:
        raise NotFound("There is no such run.")
    figures = resources_of(run.report)
    resources = [
        {
            "title": resource.title,
            "rows": count(figures[resource.name], "rows"),
            "seconds": figure(figures[resource.name], "seconds"),
        }
        for resource in RESOURCES
        if resource.name in figures
    ]
    context: dict[str, object] = {
        "run": {
            "snapshot_id": run.snapshot_id,
            "as_of": run.as_of,
            "state": run_words.state_of(run, visit.now),
            "failure": run_words.failure_of(run, visit.now),
        },
        "building": [run_words.building_view(run, visit.now)] if run.under_way(visit.now) else [],
        "findings": run_words.findings_of(run),
        "oddities": list(oddities_of(run.report)),
        "facts": run_words.facts_of(run),
        "resources": resources,
        "longest": max((figure(entry, "seconds") for entry in figures.values()), default=0),
        "error": error,
        "reason": reason,
        "leave": f"{visit.desk.root}{_path(visit, f'runs/{snapshot_id}')}" if visit.request.method == "POST" else "",
    }
    return show(visit, "operator/run.html", "runs", context, status=status)


async def _decide(visit: Visit) -> Response:
    """Publishes or discards a held snapshot, with the reason on the trail."""
    form = await read_post(visit)
    snapshot_id, reason = visit.request.path_params["snapshot_id"], form.get("reason", "").strip()[:500]
    if not reason:
        return await _run_page(visit, error="Say why, in a few words: it is kept with the decision.", status=400)
    state, actor = visit.desk.services.state, visit.seat.email
    run = await state.aread(lambda stores: stores.snapshots.get(snapshot_id))
    if run is None:
        raise NotFound("There is no such run.")
    if run.state is not SnapshotState.HELD:
        return go_to(visit.desk, _path(visit, f"runs/{snapshot_id}", done="decided"))
    try:
        if form.get("decision") == "accept":
            await asyncio.to_thread(accept, state, snapshot_id, reason, visit.now, actor=actor)
            return go_to(visit.desk, _path(visit, f"runs/{snapshot_id}", done="accepted"))
        if form.get("decision") == "discard":
            await asyncio.to_thread(discard, state, snapshot_id, reason, visit.now, actor=actor)
            return go_to(visit.desk, _path(visit, f"runs/{snapshot_id}", done="discarded"))
    except OperatorError as fault:
        return await _run_page(visit, error=fault.message, reason=reason, status=409)
    return await _run_page(visit, error="Accept or discard?", reason=reason, status=400)


async def _freshness(visit: Visit) -> Response:
    publish_at = visit.desk.services.downloads.settings.publish_at

    def read(stores: Stores) -> tuple[Freshness, Directory, set[str], list[tuple[Snapshot, int]]]:
        fresh = freshness(stores.snapshots, visit.now, publish_at)
        known = set(stores.snapshots.leaders(fresh.snapshot.snapshot_id)) if fresh.snapshot is not None else set()
        history = [
            (snapshot, sum(1 for _ in stores.snapshots.leaders(snapshot.snapshot_id)))
            for snapshot in stores.snapshots.served()
        ]
        return fresh, stores.directory.load(), known, history

    fresh, directory, known, history = await asyncio.to_thread(visit.desk.services.state.read, read)
    active = [account for account in directory.accounts if account.active]
    missing = sorted((account for account in active if account.client_id not in known), key=lambda found: found.name)
    strangers = len(known - {account.client_id for account in directory.accounts})
    context: dict[str, object] = {
        "fresh": freshness_view(fresh, visit.now),
        "figures": [
            {"label": "Leaders with files", "value": number(len(known))},
            {"label": "active accounts", "value": number(len(active))},
            {"label": "active, without files", "value": number(len(missing))},
            {"label": "Leaders without an account", "value": number(strangers)},
        ],
        "missing": missing[:_SHOWN],
        "missing_left": max(0, len(missing) - _SHOWN),
        "history": [
            {
                "as_of": snapshot.as_of,
                "published_at": snapshot.published_at,
                "leaders": leaders,
                "late": run_words.lateness(snapshot, publish_at),
            }
            for snapshot, leaders in history
        ],
    }
    return show(visit, "operator/freshness.html", "freshness", context)


async def _people(visit: Visit) -> Response:
    query = visit.request.query_params.get("q", "").strip()[:100]
    directory = await asyncio.to_thread(visit.desk.services.state.read, lambda stores: stores.directory.load())
    context = await asyncio.to_thread(_people_context, directory, query.casefold())
    return show(visit, "operator/people.html", "people", {"query": query, **context})


def _people_context(directory: Directory, wanted: str) -> dict[str, object]:
    emails = {seat.seat_id: seat.email for seat in directory.seats}
    by_account: dict[str, list[dict[str, object]]] = {}
    reach: dict[str, int] = {}
    for grant in directory.grants:
        email = emails.get(grant.seat_id, "")
        reach[grant.seat_id] = reach.get(grant.seat_id, 0) + 1
        by_account.setdefault(grant.client_id, []).append(
            {
                "email": email,
                "roles": grant.roles,
                "data_export": grant.data_export,
                "async_rest_api": grant.async_rest_api,
            }
        )

    def fits(account: Account) -> bool:
        texts = [
            account.name,
            account.client_id,
            *(str(grant["email"]) for grant in by_account.get(account.client_id, [])),
        ]
        return any(wanted in text.casefold() for text in texts)

    accounts = sorted(
        (account for account in directory.accounts if fits(account)), key=lambda found: found.name.casefold()
    )
    seats = [seat for seat in directory.seats if wanted in seat.email.casefold() or wanted in seat.seat_id]
    return {
        "total_accounts": len(directory.accounts),
        "total_seats": len(directory.seats),
        "accounts": [
            {"account": account, "grants": by_account.get(account.client_id, [])} for account in accounts[:_SHOWN]
        ],
        "seats": [{"seat": seat, "accounts": reach.get(seat.seat_id, 0)} for seat in seats[:_SHOWN]],
        "shown_accounts": min(len(accounts), _SHOWN),
        "shown_seats": min(len(seats), _SHOWN),
    }


async def _nodes(visit: Visit) -> Response:
    since = visit.now - timedelta(days=1)
    nodes = await visit.desk.services.state.aread(lambda stores: stores.nodes.list_seen(since))
    context: dict[str, object] = {
        "nodes": [{"node": node, "alive": visit.now - node.seen_at < _NODE_ALIVE} for node in nodes]
    }
    return show(visit, "operator/nodes.html", "nodes", context)


def _path(visit: Visit, path: str, **query: str) -> str:
    account = visit.request.query_params.get("account", "")
    if any(entry.account.client_id == account for entry in visit.reach):
        query["account"] = account
    suffix = "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""
    return f"/dashboard/operator/{path}{suffix}"
