"""Rows of a CSV file as bytes: their ends, their cells, and the order of their keys."""

import re
from collections.abc import Iterator
from itertools import chain

from daybreak.catalogue.columns import TIMES
from daybreak.catalogue.resources import Resource

SortKey = tuple[tuple[object, ...], ...]
CELL = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^,"\n]*+)'
"""A regular expression for a cell. Possessive repetitions take no memory for each quote."""
CELL_GROUP = b"(" + CELL + b")"
_CELL = re.compile(rb"(?:\A|,)" + CELL_GROUP)
_BEFORE_CHRIST = b" (BC)"
_INFINITE = {b"infinity": (1, 0, b""), b"-infinity": (-1, 0, b"")}


def row_end(content: bytes | bytearray, start: int) -> int:
    """Return the position after the row at `start`, 0 if the row is not complete. LF in quotes does not end a row."""
    position = start
    while (found := content.find(b"\n", position)) >= 0:
        if content.count(b'"', start, found) % 2 == 0:
            return found + 1
        position = found + 1
    return 0


def csv_rows(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the rows of a file. Raises ValueError if the last one is not complete."""
    return chain.from_iterable(row_batches(pieces))


def row_batches(pieces: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield the rows that each piece of a file completes. Raises ValueError if the last row is not complete."""
    content = bytearray()
    for piece in pieces:
        content += piece
        rows, position = [], 0
        while end := row_end(content, position):
            rows.append(bytes(content[position:end]))
            position = end
        del content[:position]
        yield rows
    if content:
        raise ValueError("the last row is not complete")


def split_cells(row: bytes) -> list[bytes]:
    """Return the cells of a row as they are in the file, with their quotes."""
    return _CELL.findall(row)


class KeyOrder:
    """Order of a resource's rows: texts and identifiers by their bytes, times by instant, NULL first."""

    def __init__(self, resource: Resource) -> None:
        names = resource.column_names
        self.places = tuple(names.index(name) for name in resource.key)
        self._is_time = tuple(resource.column(name).type in TIMES for name in resource.key)
        self._first_cells = re.compile(b",".join([CELL_GROUP] * (max(self.places) + 1)))

    def key(self, row: bytes, start: int = 0) -> SortKey:
        """Return the key of the row that begins at `start`, in a form that sorts like the rows of a file.

        Raises ValueError if columns are missing.
        """
        match = self._first_cells.match(row, start)
        if match is None:
            raise ValueError("a row does not have the columns of the key")
        cells = match.groups()
        return tuple(
            () if not cells[place] else instant(cells[place]) if is_time else (unquoted(cells[place]),)
            for place, is_time in zip(self.places, self._is_time, strict=True)
        )


def unquoted(cell: bytes) -> bytes:
    """Return the value of a quoted cell."""
    return cell[1:-1].replace(b'""', b'"')


def instant(cell: bytes) -> tuple[int, int, bytes]:
    """Return a date or time in a form that sorts by instant: years have more than four digits after 9999."""
    if cell in _INFINITE:
        return _INFINITE[cell]
    year, _, rest = cell[1:].partition(b"-")
    number = int(cell[:1] + year) if cell[:1] != b"-" else -int(year)
    if rest.endswith(_BEFORE_CHRIST):
        number, rest = 1 - number, rest.removesuffix(_BEFORE_CHRIST)
    return 0, number, rest
