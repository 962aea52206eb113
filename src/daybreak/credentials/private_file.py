"""Files with secrets, which only their owner may read."""

from __future__ import annotations

import stat
from pathlib import Path

from daybreak.domain.errors import OperatorError

_FORBIDDEN_BITS = stat.S_IRWXG | stat.S_IRWXO


def read_private(path: Path) -> bytes:
    """Return the content. Raises OperatorError if it cannot be read, or if others can."""
    try:
        if path.stat().st_mode & _FORBIDDEN_BITS:
            raise OperatorError(f"Other users can read {path}. Run `chmod 600 {path}`.")
        return path.read_bytes()
    except OSError as error:
        raise OperatorError(f"{path} cannot be read: {error.strerror}.") from None
