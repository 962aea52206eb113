"""Making written files survive a power cut, once for a whole run.

One `syncfs` flushes everything a run wrote (data, names, links) for the price of one call, where a sync for each file
would cost more than writing it. Since Linux 5.8 it reports an error of any write that failed behind our back.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock

_EARLY_BYTES = 128 << 20


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Makes every file and name below a folder durable. Raises OSError."""
    syncfs = _syncfs()
    if syncfs is not None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            syncfs(handle)
        finally:
            os.close(handle)
        return
    for path, _folders, names in os.walk(folder):
        for name in names:
            handle = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(path))


class EarlySync:
    """Has the disk begin with what a run has written while the run goes on, so that its end waits for the rest alone.

    An error that is told early is told to nobody again: `finish` raises it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._running: Future[None] | None = None

    def wrote(self, length: int) -> None:
        """Notes bytes that were written; for any thread. Raises the OSError of what was synced before."""
        with self._lock:
            self._bytes += length
            if self._bytes < _EARLY_BYTES or _syncfs() is None:
                return
            if self._running is not None:
                if not self._running.done():
                    return
                self._running.result()
            self._bytes = 0
            self._running = self._thread.submit(sync_tree, self._folder)

    def finish(self) -> None:
        """Waits for what has begun. Raises its OSError."""
        self._thread.shutdown()
        if self._running is not None:
            self._running.result()


@cache
def _syncfs() -> Callable[[int], None] | None:
    """The system's `syncfs`, None where there is none (it is Linux's own)."""
    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None

    def call(handle: int) -> None:
        if function(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return call
