"""CSV files of the service as they are downloaded, and the check that a database can read all of their rows."""

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from daybreak_client.errors import Damaged, DatabaseFailed
from daybreak_client.published import PublishedFile

_MIB = 1 << 20
_CHUNK_BYTES = _MIB
_MAX_HEADER_BYTES = 1 << 16
# Deflate compresses 1,032 bytes into one at most. https://zlib.net/zlib_tech.html
_MAX_RATIO = 1032


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


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a CSV file: the number of its first line, its first byte and its length."""

    line: int
    start: int
    length: int


def check_row_sizes(file: PublishedFile, path: Path, max_bytes: int) -> None:
    """Check that no row of a gzip CSV file is larger than `max_bytes`. Raises DatabaseFailed, Damaged."""
    if file.size_bytes * _MAX_RATIO <= max_bytes:
        return
    found = list(_large_rows(path, max_bytes))
    if found:
        count = "1 row is" if len(found) == 1 else f"{len(found):,} rows are"
        raise DatabaseFailed(
            f"{file.resource}: {count} larger than {max_bytes // _MIB} MiB, which DuckDB cannot read. The first begins "
            f"in line {found[0].line:,} of {file.name}; its largest column is {_largest_column(path, found[0])}. "
            "Nothing was loaded. Use PostgreSQL, or ask the operator of the service to shorten the value."
        )


def _large_rows(path: Path, max_bytes: int) -> Iterator[_Row]:
    """Yield the rows that are larger than `max_bytes`, which is more than a chunk, so only ends of rows matter."""
    line, start, position, lines, quoted = 1, 0, 0, 1, False
    for chunk in chunks(path):
        ends_quoted = quoted ^ bool(chunk.count(b'"') & 1)
        first = _end_of_row(chunk, quoted=quoted) + 1
        if first:
            if position + first - start > max_bytes:
                yield _Row(line, start, position + first - start)
            last = len(chunk) - _end_of_row(chunk[::-1], quoted=ends_quoted)
            line, start = lines + chunk.count(b"\n", 0, last), position + last
        lines, position, quoted = lines + chunk.count(b"\n"), position + len(chunk), ends_quoted


def _end_of_row(chunk: bytes, *, quoted: bool) -> int:
    """Return the place of the first line break outside quotes in a chunk, which begins in quotes or not. -1 if none."""
    at = 0
    while (found := chunk.find(b"\n", at)) >= 0:
        quoted ^= bool(chunk.count(b'"', at, found) & 1)
        if not quoted:
            return found
        at = found + 1
    return -1


def _largest_column(path: Path, row: _Row) -> str:
    """Return the name of the column with the longest cell of a row."""
    sizes: Counter[int] = Counter()
    column, quoted, left = 0, False, row.length
    with gzip.open(path) as content:
        content.seek(row.start)
        while left and (chunk := content.read(min(left, _MIB))):
            left -= len(chunk)
            for number, part in enumerate(chunk.split(b'"')):
                quoted ^= number > 0
                for cells, cell in enumerate([part] if quoted else part.split(b",")):
                    column += cells > 0
                    sizes[column] += len(cell)
    names = columns_of(path)
    largest = sizes.most_common(1)[0][0]
    return names[min(largest, len(names) - 1)]
