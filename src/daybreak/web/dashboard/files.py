"""Files, the home page: how fresh they are, the nine resources, downloads, previews, earlier snapshots."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import chain, pairwise

from starlette.responses import Response

from daybreak import downloads
from daybreak.access.authorization import require
from daybreak.access.trail import event_of
from daybreak.catalogue.formats import Format, format_named
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named
from daybreak.domain.errors import FileStoreError, Forbidden, NotFound, Unavailable
from daybreak.domain.snapshot import Freshness, ManifestEntry, Snapshot
from daybreak.ports.state import Stores
from daybreak.snapshots.freshness import freshness
from daybreak.web.dashboard import presentation
from daybreak.web.dashboard.desk import Desk, is_part, render
from daybreak.web.dashboard.doorway import account_page
from daybreak.web.dashboard.file_reading import first_rows, spreadsheet_safe
from daybreak.web.dashboard.freshness_view import freshness_view
from daybreak.web.dashboard.visit import Visit, account_choices, fault_of, show
from daybreak.web.routing import Route, methods
from daybreak.web.streamed import streamed

_LONGEST_SHOWN = 300
_FORMAT_LABELS = {"csv": "CSV", "json": "JSON", "ndjson": "NDJSON", "parquet": "Parquet"}


def file_pages(desk: Desk) -> list[Route]:
    """The home page and what hangs on it."""
    base = "/dashboard/{client_id}"
    return [
        methods(f"{base}/accounts", GET=account_page(desk, _accounts)),
        methods(f"{base}/files", GET=account_page(desk, _files)),
        methods(f"{base}/files/{{resource}}/preview", GET=account_page(desk, _preview)),
        methods(f"{base}/files/{{resource}}/spreadsheet-safe.csv", GET=account_page(desk, _spreadsheet_safe)),
        methods(f"{base}/files/{{resource}}/{{format}}", GET=account_page(desk, _download)),
    ]


@dataclass(frozen=True, slots=True)
class Shelf:
    """What the state database says: freshness, kept snapshots (newest first), and the account's
    entries in each, by snapshot and resource.
    """

    fresh: Freshness
    kept: tuple[Snapshot, ...]
    entries: dict[str, dict[str, ManifestEntry]]

    def chosen(self, snapshot_id: str) -> Snapshot | None:
        """The kept snapshot of that id, the served one for "". Raises NotFound."""
        if not snapshot_id:
            return self.fresh.snapshot
        for snapshot in self.kept:
            if snapshot.snapshot_id == snapshot_id:
                return snapshot
        raise NotFound("This snapshot is no longer kept.", code="file_gone")


async def read_shelf(visit: Visit) -> Shelf:
    """Everything about the account's files in one read of the state database."""
    publish_at = visit.desk.services.downloads.settings.publish_at

    def read(stores: Stores) -> Shelf:
        fresh = freshness(stores.snapshots, visit.now, publish_at)
        kept = tuple(stores.snapshots.served())
        entries = {
            snapshot.snapshot_id: {
                entry.resource: entry for entry in stores.snapshots.manifest(snapshot.snapshot_id, visit.client_id)
            }
            for snapshot in kept
        }
        return Shelf(fresh, kept, entries)

    return await visit.desk.services.state.aread(read)


async def chosen_entry(visit: Visit, resource_name: str) -> tuple[Resource, Snapshot, ManifestEntry]:
    """The resource of the path in the snapshot of the query. Raises Forbidden, NotFound."""
    require(visit.principal, "download", visit.client_id)
    try:
        resource = resource_named(resource_name)
    except KeyError:
        raise NotFound("There is no such file.", code="unknown_file") from None
    shelf = await read_shelf(visit)
    snapshot = shelf.chosen(visit.request.query_params.get("snapshot", ""))
    entry = shelf.entries.get(snapshot.snapshot_id, {}).get(resource.name) if snapshot is not None else None
    if snapshot is None or entry is None:
        raise NotFound("There are no files of this account yet.", code="snapshot_not_ready")
    return resource, snapshot, entry


async def _accounts(visit: Visit) -> Response:
    """The accounts that match; as a part of a page for the switcher."""
    query = visit.request.query_params.get("q", "")[:100]
    section = visit.request.query_params.get("section", "files")
    if is_part(visit.request):
        context = {"wide_list": False, **account_choices(visit, visit.client_id, query, section)}
        return render(visit.desk, visit.request, "account_list.html", context)
    context = {
        "query": query,
        "wide_list": True,
        **account_choices(visit, visit.client_id, query, section, most=500),
    }
    return show(visit, "accounts.html", section, context)


async def _files(visit: Visit) -> Response:
    try:
        require(visit.principal, "see_files", visit.client_id)
    except Forbidden as fault:
        return await _files_closed(visit, fault)
    shelf = await read_shelf(visit)
    snapshot = shelf.chosen(visit.request.query_params.get("snapshot", ""))
    served = shelf.fresh.snapshot
    entries = shelf.entries.get(snapshot.snapshot_id, {}) if snapshot is not None else {}
    blocked = None
    if not entries:
        blocked = {
            "heading": "No files yet",
            "text": "They appear here with the next publication."
            if snapshot is None
            else "The platform's data does not know this account, so there are no files of it.",
        }
    context: dict[str, object] = {
        "fresh": freshness_view(shelf.fresh, visit.now, chosen=snapshot),
        "snapshots": [
            {
                "snapshot_id": kept.snapshot_id,
                "as_of": kept.as_of,
                "newest": served is not None and kept.snapshot_id == served.snapshot_id,
                "chosen": snapshot is not None and kept.snapshot_id == snapshot.snapshot_id,
            }
            for kept in shelf.kept
        ],
        "resources": _resource_rows(visit, shelf, snapshot, entries) if snapshot is not None and entries else [],
        "blocked": blocked,
        "curl_note": "The curl lines read a token from the variable DAYBREAK_TOKEN.",
    }
    return show(visit, "files.html", "files", context)


async def _files_closed(visit: Visit, fault: Forbidden) -> Response:
    publish_at = visit.desk.services.downloads.settings.publish_at
    fresh = await visit.desk.services.state.aread(lambda stores: freshness(stores.snapshots, visit.now, publish_at))
    heading, text = fault_of(fault)
    context: dict[str, object] = {
        "fresh": freshness_view(fresh, visit.now),
        "snapshots": [],
        "resources": [],
        "blocked": {"heading": heading, "text": text},
        "curl_note": "",
    }
    return show(visit, "files.html", "files", context)


def _resource_rows(
    visit: Visit, shelf: Shelf, snapshot: Snapshot, entries: dict[str, ManifestEntry]
) -> list[dict[str, object]]:
    before = next((older for newer, older in pairwise(shelf.kept) if newer.snapshot_id == snapshot.snapshot_id), None)
    served = shelf.fresh.snapshot
    newest = served is not None and snapshot.snapshot_id == served.snapshot_id
    query = "" if newest else f"?snapshot={snapshot.snapshot_id}"
    rows = []
    for resource in RESOURCES:
        entry = entries.get(resource.name)
        if entry is None:
            continue
        earlier = shelf.entries.get(before.snapshot_id, {}).get(resource.name) if before is not None else None
        history = [
            known[resource.name].rows
            for kept in reversed(shelf.kept)
            if resource.name in (known := shelf.entries.get(kept.snapshot_id, {}))
        ]
        formats = [name for name in visit.desk.services.settings.formats if name in entry.formats]
        first = entry.formats[formats[0]] if formats else None
        rows.append(
            {
                "name": resource.name,
                "title": resource.title,
                "description": resource.description,
                "columns": resource.columns,
                "rows": entry.rows,
                "change": presentation.change(entry.rows, earlier.rows if earlier is not None else None),
                "sparkline": presentation.sparkline(history),
                "bytes": first.bytes if first is not None else None,
                "bytes_of": f"zipped {_FORMAT_LABELS[formats[0]]}" if formats else "",
                "downloads": [
                    {
                        "label": _FORMAT_LABELS[name],
                        "url": visit.here(f"files/{resource.name}/{name}") + query,
                        "bytes": entry.formats[name].bytes,
                        "sha256": entry.formats[name].sha256,
                    }
                    for name in formats
                ],
                "preview_url": visit.here(f"files/{resource.name}/preview") + query,
                "safe_url": visit.here(f"files/{resource.name}/spreadsheet-safe.csv") + query,
                "curl": curl_line(visit, resource, format_named(formats[0] if formats else "csv"), "$DAYBREAK_TOKEN"),
            }
        )
    return rows


def curl_line(visit: Visit, resource: Resource, file_format: Format, token: str) -> str:
    """A line for a terminal that fetches the newest file of that kind."""
    url = (
        f"{visit.desk.services.settings.base_url}/download/v1/files/{visit.client_id}/{resource.path_for(file_format)}"
    )
    return f'curl -fL -H "Authorization: Bearer {token}" -o {resource.file_name(file_format)} {url}'


async def _download(visit: Visit) -> Response:
    """To a signed link, the same as the API gives."""
    parameters = visit.request.path_params
    services = visit.desk.services
    try:
        resource = resource_named(parameters["resource"])
        file_format = format_named(parameters["format"])
    except KeyError:
        raise NotFound("There is no such file.", code="unknown_file") from None
    issued = await downloads.issue_link(
        services.downloads,
        visit.principal,
        visit.client_id,
        downloads.file_named(resource.file_name(file_format), services.settings.formats),
        visit.caller,
        snapshot_id=visit.request.query_params.get("snapshot") or None,
    )
    return Response(status_code=302, headers={"Location": issued.url, "Cache-Control": "no-store"})


async def _preview(visit: Visit) -> Response:
    """The first 50 rows with types; as a part of the page when htmx asks."""
    resource, snapshot, entry = await chosen_entry(visit, visit.request.path_params["resource"])
    try:
        rows = await visit.desk.off_loop(lambda: first_rows(visit.desk.services.files, resource, entry))
    except FileStoreError:
        raise _out_of_reach() from None
    preview = {
        "name": resource.name,
        "title": resource.title,
        "description": resource.description,
        "columns": resource.columns,
        "rows": [[_shown(cell) for cell in row] for row in rows],
        "total": entry.rows,
        "as_of": snapshot.as_of,
    }
    if is_part(visit.request):
        return render(visit.desk, visit.request, "preview_table.html", {"preview": preview})
    return show(visit, "preview.html", "files", {"preview": preview, "back": visit.here("files")})


async def _spreadsheet_safe(visit: Visit) -> Response:
    """The CSV with formulas disarmed, made while it is sent."""
    resource, snapshot, entry = await chosen_entry(visit, visit.request.path_params["resource"])
    if "csv" not in entry.formats:
        raise NotFound("CSV files are not written by this service.", code="unknown_file")
    services = visit.desk.services
    stored = entry.formats["csv"]
    pieces = spreadsheet_safe(services.files, resource, stored.key)
    try:
        # The first piece shows whether the file can be read, while an error page is still possible.
        first = await visit.desk.off_loop(lambda: next(pieces, b""))
    except (FileStoreError, csv.Error):
        raise _out_of_reach() from None
    name = f"{resource.name}-spreadsheet-safe.csv"
    if visit.request.method == "GET":
        details = {"file": name, "snapshot_id": snapshot.snapshot_id}
        await services.downloads.trail.record(
            event_of(visit.principal, "file.fetched", "ok", at=visit.now, caller=visit.caller, details=details)
        )
    return streamed(
        visit.request,
        chain((first,), pieces),
        media_type="text/csv; charset=utf-8; header=present",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )


def _shown(cell: str | None) -> str | None:
    if cell is None:
        return None
    text = presentation.visible(cell[: _LONGEST_SHOWN + 1])
    return text if len(cell) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "\N{HORIZONTAL ELLIPSIS}"


def _out_of_reach() -> Unavailable:
    return Unavailable("The stored file cannot be read at the moment. Try again.", code="files_unavailable")
