"""Handlers of the Files pages: overview, download, preview, spreadsheet-safe copy."""

from __future__ import annotations

import csv
from itertools import chain

from starlette.responses import Response

from daybreak import downloads
from daybreak.access.authorization import require
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import FileStoreError, Forbidden, NotFound
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.files.queries import (
    files_unavailable,
    load_published_files,
    load_requested_delta,
    load_requested_entry,
    unknown_file,
)
from daybreak.web.dashboard.files.readers import first_changes, first_rows, spreadsheet_safe_csv
from daybreak.web.dashboard.files.view import preview_context, resource_rows, snapshot_options
from daybreak.web.dashboard.freshness.queries import load_freshness
from daybreak.web.dashboard.freshness.view import freshness_view
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import is_partial, render_template
from daybreak.web.http.curl import HEADER_FILE, save_token_command
from daybreak.web.http.streaming import streamed

_NOT_PUBLISHED = EmptyState("No files yet", "The first files appear after the next publication.")
_UNKNOWN_ACCOUNT = EmptyState("No files", "The source has no data for this account. Ask your operator.")


async def show_files(page: PageRequest) -> Response:
    """Show the freshness and the files of the account, from an earlier snapshot if the query specifies one."""
    try:
        require(page.principal, "see_files", page.client_id)
    except Forbidden as error:
        fresh = await load_freshness(page)
        context: dict[str, object] = {"fresh": freshness_view(fresh, page.now), "snapshots": [], "resources": []}
        return render_page(page, "files/page.html", "files", {**context, "empty_state": error_state(error)})
    published = await load_published_files(page)
    snapshot = published.find_snapshot(page.request.query_params.get("snapshot", ""))
    empty_state = None
    if not published.entries_of(snapshot):
        empty_state = _NOT_PUBLISHED if snapshot is None else _UNKNOWN_ACCOUNT
    context = {
        "fresh": freshness_view(published.freshness, page.now, selected=snapshot),
        "snapshots": snapshot_options(published, snapshot),
        "resources": resource_rows(page, published, snapshot) if snapshot is not None else [],
        "accepted_reason": snapshot.accepted_reason if snapshot is not None else None,
        "header_file": HEADER_FILE,
        "save_token": save_token_command('"$DAYBREAK_TOKEN"'),
        "empty_state": empty_state,
    }
    return render_page(page, "files/page.html", "files", context)


async def download_file(page: PageRequest) -> Response:
    """Redirect to a signed link to the file."""
    parameters, services = page.request.path_params, page.dashboard.services
    try:
        file_name = resource_named(parameters["resource"]).file_name(format_named(parameters["format"]))
    except KeyError:
        raise unknown_file() from None
    issued = await downloads.issue_link(
        services.downloads,
        page.principal,
        page.client_id,
        downloads.file_named(file_name, services.settings.snapshot.formats),
        page.caller,
        snapshot_id=page.request.query_params.get("snapshot") or None,
    )
    return Response(status_code=302, headers={"Location": issued.url, "Cache-Control": "no-store"})


async def preview_file(page: PageRequest) -> Response:
    """Show the first 50 rows, as a page or as a partial, and record it in the audit trail."""
    resource, snapshot, entry = await load_requested_entry(page)
    files = page.dashboard.services.files
    try:
        rows = await page.dashboard.run_file_task(lambda: first_rows(files, resource, entry))
    except FileStoreError:
        raise files_unavailable() from None
    if page.request.method == "GET":
        details = {"file": resource.name, "snapshot_id": snapshot.snapshot_id, "rows": len(rows)}
        await page.record("file.previewed", details)
    context = preview_context(resource, snapshot, entry.rows, rows)
    if is_partial(page.request):
        return render_template(page.dashboard, page.request, "files/preview_table.html", context)
    return render_page(page, "files/preview.html", "files", context)


async def preview_changes(page: PageRequest) -> Response:
    """Show the first 50 rows of a delta, and record it in the audit trail."""
    resource, snapshot, delta = await load_requested_delta(page)
    files = page.dashboard.services.files
    try:
        rows = await page.dashboard.run_file_task(lambda: first_changes(files, resource, delta))
    except FileStoreError:
        raise files_unavailable() from None
    if page.request.method == "GET":
        details = {"file": f"{resource.name}.delta", "snapshot_id": snapshot.snapshot_id, "rows": len(rows)}
        await page.record("file.previewed", details)
    context = preview_context(resource, snapshot, delta.lines, rows, is_delta=True)
    return render_page(page, "files/preview.html", "files", context)


async def download_spreadsheet_safe(page: PageRequest) -> Response:
    """Stream the spreadsheet-safe copy of a CSV file and record the download in the audit trail."""
    resource, snapshot, entry = await load_requested_entry(page)
    if "csv" not in entry.formats:
        raise NotFound("This service does not write CSV files.", code="unknown_file")
    services = page.dashboard.services
    pieces = spreadsheet_safe_csv(services.files, resource, entry.formats["csv"].key)
    try:
        # Read the first piece before the response starts, while an error page is still possible.
        first = await page.dashboard.run_file_task(lambda: next(pieces, b""))
    except (FileStoreError, csv.Error):
        raise files_unavailable() from None
    name = f"{resource.name}-spreadsheet-safe.csv"
    if page.request.method == "GET":
        await page.record("file.fetched", {"file": name, "snapshot_id": snapshot.snapshot_id})
    return streamed(
        page.request,
        chain((first,), pieces),
        media_type="text/csv; charset=utf-8; header=present",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
    )
