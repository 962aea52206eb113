"""CSV files of the service as they are downloaded."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from daybreak_client.errors import Damaged

_CHUNK_BYTES = 1 << 20


def csv_header(columns: Sequence[str]) -> bytes:
    """Return the first line of a file with these columns."""
    return (",".join(f'"{name}"' for name in columns) + "\n").encode()


def check_header(file: Path, columns: Sequence[str]) -> None:
    """Check that a gzip CSV file begins with these columns. Raises Damaged."""
    expected = csv_header(columns)
    with gzip.open(file) as content:
        header = _read(content, file, len(expected))
    if header != expected:
        raise Damaged(f"{file.name} does not begin with the columns {', '.join(columns)}.")


def chunks(file: Path) -> Iterator[bytes]:
    """Yield the content of a gzip file. Raises Damaged."""
    with gzip.open(file) as content:
        while chunk := _read(content, file, _CHUNK_BYTES):
            yield chunk


def _read(content: gzip.GzipFile, file: Path, size: int) -> bytes:
    try:
        return content.read(size)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise Damaged(f"{file.name} is not a gzip file.") from None
