"""Template variables of the Files pages: files, and tables of rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from daybreak.catalogue.columns import Column
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.domain.delta import ResourceDelta
from daybreak.domain.display import format_count
from daybreak.domain.snapshot import ManifestEntry, Snapshot
from daybreak.web.api.examples import HEADER_FILE, file_command
from daybreak.web.dashboard.files.archive import EXCEL
from daybreak.web.dashboard.files.queries import PublishedFiles, RequestedEntry
from daybreak.web.dashboard.files.readers import ADDED, CHANGED, PREVIEW_ROWS, REMOVED, ChangedRow
from daybreak.web.dashboard.files.trend import row_change, sparkline
from daybreak.web.dashboard.files.workbooks import MAXIMUM_SHEET_ROWS, fits_in_a_sheet, fits_in_a_workbook
from daybreak.web.dashboard.formatting import format_datetime, format_number, make_visible
from daybreak.web.dashboard.page_request import PageRequest

_DELTA_DESCRIPTION = "Rows that changed since the snapshot before, with their values now. Removed rows have only a key."
FORMAT_LABELS = {"csv": "CSV", "json": "JSON", "ndjson": "NDJSON", "parquet": "Parquet"}
_MAXIMUM_CELL_LENGTH = 300
# Fewer rows have equal values by chance.
_MINIMUM_FOLDED_ROWS = 3
_HEADINGS = {ADDED: "Added", REMOVED: "Removed", CHANGED: "Changed"}
Row = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class ExcelDownload:
    """How a file opens in Excel: its URL and kind of file, or why it does not."""

    url: str = ""
    label: str = ""
    refusal: str = ""


def excel_download(page: PageRequest, resource: Resource, entry: ManifestEntry, query: str) -> ExcelDownload:
    """Return a workbook for a small file, else a spreadsheet-safe CSV. A sheet has no more than 1,048,576 rows."""
    if "csv" not in entry.formats:
        return ExcelDownload()
    if not fits_in_a_sheet(entry.rows):
        return ExcelDownload(refusal=f"Too long for Excel, which shows {format_number(MAXIMUM_SHEET_ROWS)} rows.")
    if fits_in_a_workbook(resource, entry.rows):
        return ExcelDownload(page.url(f"files/{resource.name}/workbook.xlsx") + query, "XLSX")
    return ExcelDownload(page.url(f"files/{resource.name}/spreadsheet-safe.csv") + query, "CSV")


def archive_options(page: PageRequest, published: PublishedFiles, snapshot: Snapshot) -> list[dict[str, object]]:
    """Return a download of all files for each configured format, and one for Excel."""
    entries = published.entries_of(snapshot).values()
    query = "" if published.is_published(snapshot) else f"&snapshot={snapshot.snapshot_id}"
    options: list[dict[str, object]] = [
        {
            "label": FORMAT_LABELS[name],
            "url": f"{page.url('files/all.zip')}?format={name}{query}",
            "bytes": sum(entry.formats[name].bytes for entry in entries if name in entry.formats),
        }
        for name in page.services.settings.snapshot.formats
        if any(name in entry.formats for entry in entries)
    ]
    if any("csv" in entry.formats for entry in entries):
        options.append({"label": "Excel", "url": f"{page.url('files/all.zip')}?format={EXCEL}{query}", "bytes": None})
    return options


def resource_rows(page: PageRequest, published: PublishedFiles, snapshot: Snapshot) -> list[dict[str, object]]:
    """Return one list item per resource of the snapshot, in catalogue order."""
    entries = published.entries_of(snapshot)
    previous = published.entries_of(published.previous(snapshot))
    query = snapshot_query(published, snapshot)
    incomplete = snapshot.report.incomplete_resources
    return [
        {
            "resource": resource,
            "entry": entries[resource.name],
            "excel": excel_download(page, resource, entries[resource.name], query),
            "change": row_change(
                entries[resource.name].rows, previous[resource.name].rows if resource.name in previous else None
            ),
            "delta": published.delta_of(snapshot, resource.name),
            "sparkline": sparkline(published.row_history(resource.name)),
            "incomplete": resource.name in incomplete,
        }
        for resource in RESOURCES
        if resource.name in entries
    ]


def preview_context(page: PageRequest, found: RequestedEntry, rows: list[list[str | None]]) -> dict[str, object]:
    """Return the variables of a preview: first rows, columns, downloads, digests and a curl command."""
    resource, entry = found.resource, found.entry
    query, formats = snapshot_query(found.published, found.snapshot), page.services.settings.snapshot.formats
    caption = f"First {len(rows)} of {format_number(entry.rows)} rows, as of {format_datetime(found.snapshot.as_of)}"
    label = f"First rows of {resource.title}"
    format_name = next((name for name in formats if name in entry.formats), "csv")
    preview = {
        "resource": resource,
        "entry": entry,
        "table": preview_table(resource.name, label, caption if rows else "No rows", resource.columns, rows),
        "title": resource.title,
        "description": resource.description,
        "excel": excel_download(page, resource, entry, query),
        "curl": file_command(page.services.settings.base_url, page.client_id, resource, format_named(format_name)),
        "is_published": found.published.is_published(found.snapshot),
        "header_file": HEADER_FILE,
        "back_url": page.url("files") + query,
    }
    return {"preview": preview, "query": query, "formats": formats, "format_labels": FORMAT_LABELS}


def changes_context(
    page: PageRequest, found: RequestedEntry, delta: ResourceDelta, rows: list[ChangedRow]
) -> dict[str, object]:
    """Return the variables of tables of changed rows."""
    query = snapshot_query(found.published, found.snapshot)
    preview = {
        "title": f"Changes of {found.resource.title}",
        "description": _DELTA_DESCRIPTION,
        "parts": changed_parts(found.resource, rows[:PREVIEW_ROWS]),
        "summary": changes_summary(delta, rows[:PREVIEW_ROWS], may_be_all=len(rows) <= PREVIEW_ROWS),
        "download_url": page.url(f"files/{found.resource.name}/changes.csv") + query,
        "back_url": page.url("files") + query,
    }
    return {"preview": preview}


def snapshot_query(published: PublishedFiles, snapshot: Snapshot | None) -> str:
    """Return the query of links to files of a snapshot, "" for the published one."""
    return "" if snapshot is None or published.is_published(snapshot) else f"?snapshot={snapshot.snapshot_id}"


@dataclass(frozen=True, slots=True)
class PreviewTable:
    """A table. `folded` are columns that have one value in all rows, which is shown once. `name` is part of ids."""

    name: str
    label: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    folded: Sequence[tuple[Column, str | None]] = ()


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """The rows of one kind of change."""

    kind: str
    heading: str
    table: PreviewTable


def preview_table(name: str, label: str, caption: str, columns: Sequence[Column], rows: Iterable[Row]) -> PreviewTable:
    """Return a table without the columns that have one value. The first column stays."""
    shown = [[_cell(cell) for cell in row] for row in rows]
    single = [
        index
        for index in range(1, len(columns))
        if len(shown) >= _MINIMUM_FOLDED_ROWS and all(row[index] == shown[0][index] for row in shown)
    ]
    kept = [index for index in range(len(columns)) if index not in single]
    return PreviewTable(
        name,
        label,
        caption,
        [columns[index] for index in kept],
        [[row[index] for index in kept] for row in shown],
        [(columns[index], shown[0][index]) for index in single],
    )


def changed_parts(resource: Resource, rows: Sequence[ChangedRow]) -> list[ChangedPart]:
    """Return the rows by kind of change. Of removed rows, only the key is known."""
    key = [index for index, column in enumerate(resource.columns) if column.name in resource.key]
    parts = []
    for kind, heading in _HEADINGS.items():
        found = [row.cells for row in rows if row.kind == kind]
        columns: Sequence[Column] = resource.columns
        if kind == REMOVED:
            columns, found = [columns[index] for index in key], [[cells[index] for index in key] for cells in found]
        if found:
            table = preview_table(f"{resource.name}-{kind}", f"{heading} rows of {resource.title}", "", columns, found)
            parts.append(ChangedPart(kind, f"{heading}: {format_count(len(found), 'row')}", table))
    return parts


def changes_summary(delta: ResourceDelta, rows: Sequence[ChangedRow], *, may_be_all: bool) -> str:
    """Return how many of the changes the tables show."""
    if may_be_all and delta.inserted == sum(1 for row in rows if row.kind != REMOVED):
        return f"All {format_count(len(rows), 'change')}." if len(rows) != 1 else "One change."
    written, deleted = format_number(delta.inserted), format_number(delta.deleted)
    shown = format_count(len(rows), "change") if len(rows) != 1 else "change"
    return f"The first {shown}. {written} rows are new or changed, and {deleted} earlier rows are removed or replaced."


def _cell(cell: str | None) -> str | None:
    if cell is None:
        return None
    text = make_visible(cell[: _MAXIMUM_CELL_LENGTH + 1])
    return text if len(cell) <= _MAXIMUM_CELL_LENGTH else text[:_MAXIMUM_CELL_LENGTH] + "\N{HORIZONTAL ELLIPSIS}"
