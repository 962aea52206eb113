"""Making written files survive a power cut, once for a whole run.

One `syncfs` flushes everything a run wrote (data, names, links) for the price of one call, where a sync for each file
would cost more than writing it. Since Linux 5.8 it reports an error of any write that failed behind our back.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path


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
