"""Reads of files that operators name."""

import errno
import os
import stat
from pathlib import Path


def read_bounded(path: Path, max_bytes: int) -> tuple[bytes, int]:
    """Return the content and the mode of a file. A pipe without a writer is empty.

    Raises OSError, also for a file of more than `max_bytes`: a device may never end.
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        content, mode = file.read(max_bytes + 1), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content, mode


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file. Otherwise, opening a pipe waits for its writer."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle
