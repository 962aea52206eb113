"""Lookup in a file of breached passwords, as the downloader of Pwned Passwords writes it.

Each line is the SHA-1 of a password in upper-case hex, a colon and a count. Lines are sorted, so a lookup reads about
forty lines of a file of 40 GB. SHA-1 is the key of that file and protects nothing.
"""

from __future__ import annotations

import hashlib
import os
from io import BufferedReader
from pathlib import Path

from daybreak.domain.errors import Unavailable

_DIGEST_LENGTH = 40


def contains(file: Path, password: str) -> bool:
    """Return whether the file lists the password. Raises Unavailable."""
    text = password.encode("utf-8", "surrogatepass")
    digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().upper().encode()
    try:
        with file.open("rb") as lines:
            return _search(lines, digest)
    except OSError as fault:
        raise Unavailable("The list of breached passwords cannot be read. Ask your operator.") from fault


def _search(lines: BufferedReader, digest: bytes) -> bool:
    low, high = 0, lines.seek(0, os.SEEK_END)
    while low < high:
        middle = (low + high) // 2
        found = _digest_after(lines, middle)
        if found == digest:
            return True
        if found and found < digest:
            low = middle + 1
        else:
            high = middle
    return False


def _digest_after(lines: BufferedReader, position: int) -> bytes:
    """Return the digest in the first line that begins at or after a position, b"" without one."""
    if position > 0:
        lines.seek(position - 1)
        lines.readline()
    else:
        lines.seek(0)
    return lines.readline()[:_DIGEST_LENGTH].upper()
