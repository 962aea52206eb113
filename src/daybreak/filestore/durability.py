"""Flushing written files to disk, once for a whole run.

One `syncfs` flushes all data, names and links of a run for the cost of one call; one `fsync` for each file would take
longer than writing it. Since Linux 5.8, `syncfs` reports write errors that occurred since the previous call.
"""

import ctypes
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

_SYNC_BYTES = 128 << 20
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def opened(path: str | Path, flags: int) -> Iterator[int]:
    """Open a file or a folder, and close its handle at the end. Raises OSError."""
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder. Raises OSError."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as handle:
        os.fsync(handle)


def sync_tree(folder: Path) -> None:
    """Flush all files and names below a folder, with `syncfs(2)`, which `os` lacks. Raises OSError."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as handle:
        if _libc.syncfs(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


class BackgroundSync:
    """Flushes written files during a run, which shortens the flush at its end.

    The kernel reports a write error only once, so `add` and `finish` raise the errors of earlier flushes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._bytes = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._running: Future[None] | None = None

    def add(self, length: int) -> None:
        """Count written bytes, and start a flush after every 128 MiB. Thread-safe. Raises OSError."""
        with self._lock:
            self._bytes += length
            if self._bytes < _SYNC_BYTES:
                return
            if self._running is not None:
                if not self._running.done():
                    return
                self._running.result()
            self._bytes = 0
            self._running = self._executor.submit(sync_tree, self._folder)

    def finish(self) -> None:
        """Wait for a running flush. Raises OSError."""
        self._executor.shutdown()
        if self._running is not None:
            self._running.result()
