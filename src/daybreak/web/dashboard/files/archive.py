"""All files of an account as one zip archive, written while it is sent. Memory does not depend on their size."""

import io
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import IO

from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.stored_columns import resource_at
from daybreak.domain.snapshot import Snapshot, StoredFormat
from daybreak.filestore.file_store import checked_pieces
from daybreak.web.dashboard.file_names import download_name
from daybreak.web.dashboard.files.queries import PublishedFiles
from daybreak.web.dashboard.files.readers import spreadsheet_safe_csv
from daybreak.web.dashboard.files.workbooks import fits_in_a_workbook, workbook
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.file_sender import reported_faults
from daybreak.web.streams import thread_pieces

EXCEL = "excel"


class _Output(io.RawIOBase):
    """Collects what is written until `take`. It cannot seek, so that sizes follow each file."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]
        self._written += data
        return len(data)

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = bytes(self._written)
        self._written.clear()
        return taken


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file of the archive: its name in it, its content, and its size if it is stored as it is, else None.

    Published files are compressed already. Others are compressed in the archive.
    """

    name: str
    read: Callable[[], Iterator[bytes]]
    size_bytes: int | None = None


def stored_files(
    page: PageRequest, published: PublishedFiles, snapshot: Snapshot, format_name: str
) -> list[ArchivedFile]:
    """Return the files of a snapshot in one format."""
    entries = published.entries_of(snapshot)

    def content(file: StoredFormat) -> Iterator[bytes]:
        return checked_pieces(file.key, page.services.files.read(file.key), file.bytes, file.sha256)

    stored = [
        (resource.file_name(format_named(format_name)), entries[resource.name].formats[format_name])
        for resource in RESOURCES
        if resource.name in entries and format_name in entries[resource.name].formats
    ]
    return [
        ArchivedFile(name, partial(_reporting, page, file.key, partial(content, file)), size_bytes=file.bytes)
        for name, file in stored
    ]


def _reporting(page: PageRequest, key: str, read: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the content of an archived file. Its faults cut the archive off."""
    with reported_faults(page.request, key):
        yield from read()


async def excel_files(page: PageRequest, published: PublishedFiles, snapshot: Snapshot) -> list[ArchivedFile]:
    """Return the files of a snapshot as workbooks, the large ones as spreadsheet-safe CSV."""
    entries, files = published.entries_of(snapshot), page.services.files
    columns = await page.read(lambda stores: stores.snapshots.columns(snapshot.snapshot_id))
    archived = []
    for name in (each.name for each in RESOURCES if each.name in entries):
        entry, resource = entries[name], resource_at(name, columns)
        if "csv" not in entry.formats:
            continue
        is_small, key = fits_in_a_workbook(resource, entry.rows), entry.formats["csv"].key
        file_name = download_name(page, name, snapshot.as_of, ".xlsx" if is_small else ".csv")
        content = partial(workbook if is_small else spreadsheet_safe_csv, files, resource, key)
        archived.append(ArchivedFile(file_name, partial(_reporting, page, key, content)))
    return archived


async def archive_pieces(
    files: Sequence[ArchivedFile], modified_at: datetime, before_file: Callable[[ArchivedFile], Awaitable[None]]
) -> AsyncIterator[bytes]:
    """Yield the archive in pieces. `before_file` is called before the first byte of each file, and may raise.

    Raises FileStoreError if a file cannot be read or is damaged. The archive is then incomplete: it has no directory at
    its end.
    """
    output = _Output()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            await before_file(file)
            entry = zipfile.ZipInfo(file.name, modified_at.timetuple()[:6])
            # Files over 4 GiB need the larger fields of ZIP64.
            entry.file_size = file.size_bytes or 0
            entry.compress_type = zipfile.ZIP_DEFLATED if file.size_bytes is None else zipfile.ZIP_STORED
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w", force_zip64=file.size_bytes is None) as target:
                async for piece in thread_pieces(_archived(file, target, output)):
                    yield piece
    # The directory of the archive, which an error leaves out.
    yield output.take()


def _archived(file: ArchivedFile, target: IO[bytes], output: _Output) -> Iterator[bytes]:
    """Write a file to the archive. In the thread that reads, because it also compresses."""
    for piece in file.read():
        target.write(piece)
        yield output.take()
