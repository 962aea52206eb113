"""CSV files of the service as they are downloaded."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from daybreak_client.errors import Damaged

_CHUNK_BYTES = 1 << 20
_MAX_HEADER_BYTES = 1 << 16


def csv_header(columns: Sequence[str]) -> bytes:
    """Return the first line of a file with these columns."""
    return (",".join(f'"{name}"' for name in columns) + "\n").encode()


def columns_of(file: Path) -> tuple[str, ...]:
    """Return the columns in the first line of a gzip CSV file. Raises Damaged."""
    with gzip.open(file) as content:
        line, end, _ = _read(content, file, _MAX_HEADER_BYTES).partition(b"\n")
    names = tuple(line.decode("utf-8", "replace").replace('"', "").split(","))
    if not end or csv_header(names) != line + end:
        raise Damaged(f"{file.name} does not begin with the names of columns.")
    return names


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
