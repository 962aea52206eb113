"""Handlers of the Files pages: overview, downloads, previews, copies for spreadsheets."""

from collections.abc import Iterator
from functools import partial
from itertools import islice

from starlette.responses import Response

from daybreak import downloads
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import resource_named
from daybreak.domain.errors import InvalidRequest, NotFound
from daybreak.domain.snapshot import StoredFormat
from daybreak.proof.rules import RULES
from daybreak.proof.statement import ERASED
from daybreak.web.dashboard.error_pages import EmptyState, error_state
from daybreak.web.dashboard.file_names import download_headers, download_name, named_link, stream_file
from daybreak.web.dashboard.files.archive import EXCEL, ArchivedFile, archive_pieces, excel_files, stored_files
from daybreak.web.dashboard.files.queries import (
    RequestedEntry,
    load_predicate,
    load_published_files,
    load_requested_delta,
    load_requested_entry,
    load_requested_snapshot,
    unknown_file,
)
from daybreak.web.dashboard.files.readers import (
    PREVIEW_BYTES,
    PREVIEW_ROWS,
    ChangedRow,
    changed_rows,
    changes_csv,
    first_rows,
    spreadsheet_safe_csv,
)
from daybreak.web.dashboard.files.view import (
    FORMAT_LABELS,
    archive_options,
    changes_context,
    preview_context,
    resource_rows,
    snapshot_query,
)
from daybreak.web.dashboard.files.workbooks import XLSX_MEDIA_TYPE, fits_in_a_workbook, workbook
from daybreak.web.dashboard.freshness.view import freshness_view, load_status
from daybreak.web.dashboard.page_layout import render_page
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.dashboard.rendering import is_partial, render_template
from daybreak.web.dashboard.spreadsheets import CSV_MEDIA_TYPE
from daybreak.web.streams import thread_pieces

_NOT_PUBLISHED = EmptyState(
    "While you wait",
    "Choose your notifications, and create an API token for your scripts.",
    (("settings/notifications", "Notifications"), ("settings/tokens/new", "Create token")),
)
_REASONS = {**RULES, ERASED: "of an erased Member"}
_UNKNOWN_ACCOUNT = EmptyState("No files", "The source has no data for this account. Ask your operator.")


async def show_files(page: PageRequest) -> Response:
    """Show the freshness and the files of the account, from an earlier snapshot if the query specifies one."""
    if page.refusal is not None:
        refused = {"fresh": await load_status(page), "empty_state": error_state(page.refusal)}
        return render_page(page, "files/page.html", {**refused, "published": None, "resources": (), "brief": ()})
    published = await load_published_files(page)
    snapshot = published.find_snapshot(page.request.query_params.get("snapshot", ""))
    empty_state = None
    if not published.entries_of(snapshot):
        empty_state = _NOT_PUBLISHED if snapshot is None else _UNKNOWN_ACCOUNT
    context: dict[str, object] = {
        "fresh": freshness_view(published.freshness, page.now, selected=snapshot),
        "brief": published.brief(snapshot),
        "published": published,
        "selected": snapshot,
        "query": snapshot_query(published, snapshot),
        "formats": page.services.settings.snapshot.formats,
        "format_labels": FORMAT_LABELS,
        "resources": resource_rows(page, published, snapshot) if snapshot is not None else [],
        "archives": archive_options(page, published, snapshot) if snapshot is not None else [],
        "empty_state": empty_state,
    }
    return render_page(page, "files/page.html", context)


async def download_file(page: PageRequest) -> Response:
    """Redirect to a signed link to the file."""
    parameters, services = page.request.path_params, page.services
    try:
        file_name = resource_named(parameters["resource"]).file_name(format_named(parameters["format"]))
    except KeyError:
        raise unknown_file() from None
    issued = await downloads.issue_link(
        services,
        page.principal,
        page.client_id,
        downloads.file_named(file_name, services.settings.snapshot.formats),
        page.caller,
        snapshot_id=page.request.query_params.get("snapshot") or None,
    )
    return Response(status_code=302, headers={"Location": named_link(page, issued), "Cache-Control": "no-store"})


async def download_all(page: PageRequest) -> Response:
    """Stream all files of the account in one format, or for Excel, as a zip archive.

    Each file is recorded in the audit trail. The bytes of all count before the first one is sent: a refusal later would
    cut the archive off.
    """
    services = page.services
    kind = page.request.query_params.get("format", services.settings.snapshot.formats[0])
    if kind not in (*services.settings.snapshot.formats, EXCEL):
        raise unknown_file()
    published, snapshot = await load_requested_snapshot(page)
    if kind == EXCEL:
        archived = await excel_files(page, published, snapshot)
    else:
        archived = stored_files(page, published, snapshot, kind)

    format_name = "csv" if kind == EXCEL else kind
    stored = (entry.formats.get(format_name) for entry in published.entries_of(snapshot).values())
    archive_bytes = sum(each.bytes for each in stored if each is not None)

    async def record(file: ArchivedFile) -> None:
        details = {"file": file.name, "snapshot_id": snapshot.snapshot_id, "bytes": file.size_bytes}
        known = {name: value for name, value in details.items() if value is not None}
        sent_bytes = archive_bytes if file is archived[0] else 0
        await page.record("file.fetched", {**known, "archive": True}, sent_bytes=sent_bytes)

    name = download_name(page, kind, snapshot.as_of, ".zip")
    return await stream_file(page, archive_pieces(archived, snapshot.as_of, record), name, "application/zip")


async def preview_file(page: PageRequest) -> Response:
    """Show the first 50 rows and the columns, as a page or in a drawer, and record it in the audit trail."""
    found, files = await load_requested_entry(page), page.services.files
    rows = await page.run_task(lambda: first_rows(files, found.resource, found.entry))
    await _record_preview(page, found, found.resource.name, len(rows))
    statement = {"statement": await load_predicate(page, found.snapshot), "reasons": _REASONS}
    return _page_or_drawer(page, "files/preview.html", {**preview_context(page, found, rows), **statement})


async def preview_changes(page: PageRequest) -> Response:
    """Show the first 50 changes of a delta, as a page or in a drawer, and record it in the audit trail."""
    (found, delta), files = await load_requested_delta(page), page.services.files

    def read() -> list[ChangedRow]:
        changes = changed_rows(files, found.resource, delta, maximum_bytes=PREVIEW_BYTES)
        return list(islice(changes, PREVIEW_ROWS + 1))

    rows = await page.run_task(read)
    await _record_preview(page, found, f"{found.resource.name}.delta", min(len(rows), PREVIEW_ROWS))
    return _page_or_drawer(page, "files/changes.html", changes_context(page, found, delta, rows))


async def _record_preview(page: PageRequest, found: RequestedEntry, file: str, rows: int) -> None:
    await page.record("file.previewed", {"file": file, "snapshot_id": found.snapshot.snapshot_id, "rows": rows})


async def download_changes(page: PageRequest) -> Response:
    """Stream all changes of a delta as a CSV file for spreadsheets, and record it in the audit trail."""
    found, delta = await load_requested_delta(page)
    pieces, size = changes_csv(page.services.files, found.resource, delta), delta.formats["json"].content_bytes
    return await _send_csv(
        page, found, pieces, (f"{found.resource.name}-changes", f"{found.resource.name}.delta"), size
    )


async def download_spreadsheet_safe(page: PageRequest) -> Response:
    """Stream the spreadsheet-safe copy of a CSV file and record the download in the audit trail."""
    found, stored = await _requested_csv(page)
    pieces, name = spreadsheet_safe_csv(page.services.files, found.resource, stored.key), found.resource.name
    return await _send_csv(page, found, pieces, (name, f"{name}.csv"), stored.content_bytes)


async def _send_csv(
    page: PageRequest, found: RequestedEntry, pieces: Iterator[bytes], names: tuple[str, str], sent_bytes: int
) -> Response:
    """Return a response with a CSV file. `names` are the start of its name, and the name in the audit trail."""
    details = {"file": names[1], "snapshot_id": found.snapshot.snapshot_id}
    record = partial(page.record, "file.fetched", details, sent_bytes=sent_bytes)
    name = download_name(page, names[0], found.snapshot.as_of, ".csv")
    return await stream_file(page, thread_pieces(pieces), name, CSV_MEDIA_TYPE, record)


async def download_workbook(page: PageRequest) -> Response:
    """Return a small file as an Excel workbook, and record the download in the audit trail."""
    found, stored = await _requested_csv(page)
    if not fits_in_a_workbook(found.resource, found.entry.rows):
        raise InvalidRequest("This file is too large for a workbook. Download the spreadsheet-safe CSV.")
    pieces = thread_pieces(workbook(page.services.files, found.resource, stored.key))
    content = await page.dashboard.streams.collect(page.client_id, pieces)
    name = download_name(page, found.resource.name, found.snapshot.as_of, ".xlsx")
    details = {"file": f"{found.resource.name}.xlsx", "snapshot_id": found.snapshot.snapshot_id}
    await page.record("file.fetched", {**details, "bytes": len(content)}, sent_bytes=len(content))
    return Response(content, headers=download_headers(name), media_type=XLSX_MEDIA_TYPE)


def _page_or_drawer(page: PageRequest, template: str, context: dict[str, object]) -> Response:
    if is_partial(page):
        variables = {**context, "layout": "layout/partial.html", "level": 3, "account_url": page.url}
        return render_template(page, template, variables)
    return render_page(page, template, {**context, "layout": "layout/base.html", "level": 2})


async def _requested_csv(page: PageRequest) -> tuple[RequestedEntry, StoredFormat]:
    """Return the entry that a request names, and its CSV file. Raises NotFound."""
    found = await load_requested_entry(page)
    if "csv" not in found.entry.formats:
        raise NotFound("This service does not write CSV files.", code="unknown_file")
    return found, found.entry.formats["csv"]
