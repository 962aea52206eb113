"""Files that operators name: reads that end, and private files that are complete."""

import errno
import os
import stat
from pathlib import Path

from daybreak.domain.errors import OperatorError

OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO
"""Bits of a mode that give other users access."""
MAX_DOCUMENT_BYTES = 256 << 20
"""Maximum size of a document that a command reads."""


def read_bounded(path: Path, max_bytes: int) -> tuple[bytes, int]:
    """Return the content and the mode of a file. A pipe without a writer is empty.

    Raises OSError, also for a file of more than `max_bytes`: a device may never end.
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        content, mode = file.read(max_bytes + 1), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return content, mode


def read_private(path: Path, max_bytes: int = 1 << 16, *, setting: str = "") -> bytes:
    """Return the content of a file that only its owner can read. Raises OperatorError, which names the setting."""
    name = f"{setting}: {path}" if setting else str(path)
    try:
        content, mode = read_bounded(path, max_bytes)
    except OSError as error:
        raise OperatorError(f"{name} cannot be read: {error.strerror}.") from None
    if mode & OTHER_USERS:
        raise OperatorError(f"{name} is readable by other users (mode {mode:04o}). Run `chmod 600 {path}`.")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file. Otherwise, opening a pipe waits for its writer."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def write_private(path: Path, content: bytes) -> None:
    """Create a file with mode 0600, durably. Raises OSError, which names the file: it exists, or is not created."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
