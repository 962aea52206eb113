"""All files of an account as one zip archive, written while it is sent.

The files are compressed already, so they are stored as they are. Memory does not depend on their size.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.concurrency import iterate_in_threadpool

from daybreak.filestore.file_store import FileStore


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file of the archive: its name in it, its key in the file store, and its size."""

    name: str
    key: str
    size_bytes: int


async def archive_pieces(
    store: FileStore,
    files: Sequence[ArchivedFile],
    modified_at: datetime,
    before_file: Callable[[ArchivedFile], Awaitable[None]],
) -> AsyncIterator[bytes]:
    """Yield the archive in pieces. `before_file` is called before the first byte of each file, and may raise.

    Raises FileStoreError if a file cannot be read. The archive is then incomplete: it has no directory at its end.
    """
    output = _Output()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as archive:
        for file in files:
            await before_file(file)
            entry = zipfile.ZipInfo(file.name, modified_at.timetuple()[:6])
            # Files over 4 GiB need the larger fields of ZIP64.
            entry.file_size = file.size_bytes
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w") as target:
                async for piece in iterate_in_threadpool(store.read(file.key)):
                    target.write(piece)
                    yield output.take()
    # The directory of the archive, which an error leaves out.
    yield output.take()


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
