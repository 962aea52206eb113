"""Rows of a CSV file as bytes: their ends, their cells, and the order of their keys."""

import re
from collections.abc import Iterator
from itertools import chain

from daybreak.catalogue.resources import Resource

SortKey = tuple[bytes, ...]
CELL = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^,"\n]*+)'
"""A regular expression for a cell. Possessive repetitions take no memory for each quote."""
CELL_GROUP = b"(" + CELL + b")"
_CELL = re.compile(rb"(?:\A|,)" + CELL_GROUP)


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
    """Order of a resource's rows: by the bytes of texts, identifiers and times, NULL first. Years have four digits."""

    def __init__(self, resource: Resource) -> None:
        names = resource.column_names
        self._places = tuple(names.index(name) for name in resource.key)
        self._first_cells = re.compile(b",".join([CELL_GROUP] * (max(self._places) + 1)))

    def key(self, row: bytes, start: int = 0) -> SortKey:
        """Return the key of the row that begins at `start`, in a form that sorts like the rows of a file.

        Raises ValueError if columns are missing.
        """
        match = self._first_cells.match(row, start)
        if match is None:
            raise ValueError("a row does not have the columns of the key")
        cells = match.groups()
        # Without its last quote, a quoted text sorts like the text: quotes within are doubled, wherever they are.
        return tuple(cells[place].removesuffix(b'"') for place in self._places)


def unquoted(cell: bytes) -> bytes:
    """Return the value of a quoted cell."""
    return cell[1:-1].replace(b'""', b'"')
