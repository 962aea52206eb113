"""Operator pages: runs and their progress, held publications and the decision, freshness across Leaders, accounts
and seats with their permissions, nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from starlette.responses import Response
from starlette.routing import Route

from daybreak import downloads
from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.errors import NotFound, OperatorError
from daybreak.domain.identity import Account
from daybreak.domain.snapshot import Freshness, Snapshot, SnapshotState
from daybreak.ports import Directory, Stores
from daybreak.snapshots.guard import resources_of
from daybreak.snapshots.publish import accept, discard
from daybreak.web.dashboard.desk import Desk, go_to, render
from daybreak.web.dashboard.doorway import operator_page
from daybreak.web.dashboard.freshness_view import freshness_view
from daybreak.web.dashboard.presentation import instant, number, size, span, width
from daybreak.web.dashboard.visit import Visit, read_post, show
from daybreak.web.routing import methods

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
        return downloads.freshness(stores, visit.now, publish_at), stores.snapshots.recent(_RUNS)

    fresh, runs = await visit.desk.services.state.aread(read)
    served = fresh.snapshot.snapshot_id if fresh.snapshot is not None else None
    context: dict[str, object] = {
        "fresh": freshness_view(fresh, visit.now),
        "publish_clock": visit.desk.publish_clock,
        "held": [
            {"as_of": run.as_of, "snapshot_id": run.snapshot_id, "summary": _summary(run)}
            for run in runs
            if run.state is SnapshotState.HELD
        ],
        "building": [_building(run, visit.now) for run in runs if run.state is SnapshotState.BUILDING],
        "runs": [
            {
                "snapshot_id": run.snapshot_id,
                "as_of": run.as_of,
                "day": run.day,
                "state": run.state.value,
                "current": run.snapshot_id == served,
                "took": _took(run),
                "rows": _rows(run),
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
    building = [_building(run, visit.now) for run in runs if run.state is SnapshotState.BUILDING]
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
            "rows": _whole(figures[resource.name].get("rows")),
            "seconds": _seconds(figures[resource.name].get("seconds")),
        }
        for resource in RESOURCES
        if resource.name in figures
    ]
    context: dict[str, object] = {
        "run": {
            "snapshot_id": run.snapshot_id,
            "as_of": run.as_of,
            "state": run.state.value,
            "failure": run.failure,
        },
        "building": [_building(run, visit.now)] if run.state is SnapshotState.BUILDING else [],
        "findings": _findings(run),
        "facts": _facts(run),
        "resources": resources,
        "longest": max((seconds for _, seconds in _durations(figures)), default=0),
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
        fresh = downloads.freshness(stores, visit.now, publish_at)
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
                "late": _lateness(snapshot, publish_at_hour=publish_at.hour, publish_at_minute=publish_at.minute),
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


# --- A run in words --------------------------------------------------------------------------------


def _building(run: Snapshot, now: datetime) -> dict[str, object]:
    told = run.progress
    done = told.get("share")
    done_share = float(done) if isinstance(done, int | float) else None
    resource, place, of = told.get("resource"), told.get("resource_number"), told.get("resources")
    words = [str(told.get("phase") or "starting")]
    if resource:
        words.append(f"{resource} ({place} of {of})")
    if isinstance(told.get("rows"), int):
        words.append(f"{number(_whole(told['rows']))} rows")
    if isinstance(told.get("bytes"), int):
        words.append(size(_whole(told["bytes"])))
    if done_share is not None:
        words.insert(0, f"{done_share:.0%}".replace("%", " %"))
    return {
        "as_of": run.as_of,
        "started_at": run.started_at,
        "expected_end": _instant_of(told.get("expected_end"), now),
        "done_width": width(done_share if done_share is not None else 0.0, 1),
        "done_text": ", ".join(words),
    }


def _instant_of(text: object, now: datetime) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None and found > now else None


def _facts(run: Snapshot) -> list[tuple[str, str]]:
    facts = [
        ("For", "by hand" if run.day is None else f"the publication of {run.day.isoformat()}"),
        ("Started", instant(run.started_at)),
        ("Finished", instant(run.finished_at)),
        ("Took", span(_took(run))),
        ("Published", instant(run.published_at)),
        ("Builder", run.builder or "\N{EN DASH}"),
    ]
    for name, label in (("files", "Files"), ("files_carried", "Unchanged, carried over"), ("leaders", "Leaders")):
        value = run.report.get(name)
        if isinstance(value, int):
            facts.append((label, number(value)))
    stored = run.report.get("bytes")
    if isinstance(stored, int):
        facts.append(("Stored", size(stored)))
    if run.accepted_reason:
        facts.append(("Accepted because", run.accepted_reason))
    return facts


def _findings(run: Snapshot) -> list[str]:
    found = run.report.get("findings")
    if not isinstance(found, Sequence) or isinstance(found, str):
        return []
    return [str(entry.get("detail", entry)) if isinstance(entry, Mapping) else str(entry) for entry in found]


def _summary(run: Snapshot) -> str:
    findings = _findings(run)
    if not findings:
        return ""
    more = f" And {len(findings) - 1} more." if len(findings) > 1 else ""
    return findings[0] + more


def _took(run: Snapshot) -> timedelta | None:
    return run.finished_at - run.started_at if run.finished_at is not None else None


def _rows(run: Snapshot) -> int | None:
    figures = resources_of(run.report)
    return sum(_whole(entry.get("rows")) for entry in figures.values()) if figures else None


def _durations(figures: Mapping[str, Mapping[str, object]]) -> list[tuple[str, float]]:
    return [(name, _seconds(entry.get("seconds"))) for name, entry in figures.items()]


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _lateness(snapshot: Snapshot, *, publish_at_hour: int, publish_at_minute: int) -> str:
    if snapshot.day is None or snapshot.published_at is None:
        return "by hand"
    due = snapshot.published_at.replace(
        year=snapshot.day.year, month=snapshot.day.month, day=snapshot.day.day,
        hour=publish_at_hour, minute=publish_at_minute, second=0, microsecond=0,
    )  # fmt: skip
    late = snapshot.published_at - due
    return "on time" if late < timedelta(minutes=1) else f"{span(late)} late"


def _path(visit: Visit, path: str, **query: str) -> str:
    account = visit.request.query_params.get("account", "")
    if any(entry.account.client_id == account for entry in visit.reach):
        query["account"] = account
    suffix = "?" + "&".join(f"{name}={value}" for name, value in query.items()) if query else ""
    return f"/dashboard/operator/{path}{suffix}"
