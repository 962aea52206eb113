"""Merge of a Leader's previous and new CSV file, both in key order, to the lines of a delta.

Rows with the same key form one group. A group whose rows differ is deleted and inserted again.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, Protocol

from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import ReasonError
from daybreak.export.delta.csv_rows import KeyOrder, SortKey, row_end, split_cells
from daybreak.export.delta.delta_lines import DeltaLines

MAX_GROUP_BYTES = 64 << 20
"""Maximum size of rows with one key, which are in memory together."""
_STEP_BYTES = 768 << 10
"""Size of the old rows that are read for a step, which fit in the memory of the compiled engine."""
_SUM_MODULUS = 1 << 64

Side = Literal["old", "new"]
Needs = Literal["old", "new", "nothing"]


class DeltaFault(ReasonError):
    """The delta cannot be made, for `reason`. Consumers need the full file."""


@dataclass(slots=True)
class MergeTotals:
    """Rows seen, and the balance of two 64-bit sums over them: 0 when old - deleted + inserted = new."""

    rows_before: int = 0
    rows_after: int = 0
    deleted: int = 0
    inserted: int = 0
    lines: int = 0
    low: int = 0
    high: int = 0

    def add_sums(self, low: int, high: int, sign: int) -> None:
        """Add the sums of rows to the balance, or subtract them."""
        self.low = (self.low + sign * low) % _SUM_MODULUS
        self.high = (self.high + sign * high) % _SUM_MODULUS

    def check(self) -> None:
        """Raise DeltaFault unless the old rows and the delta yield the new rows."""
        if self.rows_before - self.deleted + self.inserted != self.rows_after or self.low or self.high:
            raise DeltaFault("verification_failed")


@dataclass(frozen=True, slots=True)
class MergeStep:
    """Result of one step: the side whose next piece is needed, and lines of the delta."""

    needs: Needs
    csv: bytes = b""
    json: bytes = b""


class MergeEngine(Protocol):
    """Merges the rows of two files, which arrive in pieces."""

    totals: MergeTotals

    def add(self, side: Side, piece: bytes | memoryview) -> None:
        """Append a piece of the old or the new file. Raises DeltaFault if the rows of one key are too large."""

    def step(self, *, old_ended: bool, new_ended: bool) -> MergeStep:
        """Merge as many complete groups as the pieces contain. Raises DeltaFault."""

    def constants(self) -> dict[str, str | None]:
        """Return the values of the constant columns in the new rows."""

    def close(self) -> None:
        """Release the memory."""


class DeltaMerge:
    """Passes two files to an engine: the old one is read as it is needed, the new one arrives in pieces."""

    def __init__(
        self, engine: MergeEngine, header: bytes, old: Iterator[bytes], write: Callable[[bytes, bytes], None]
    ) -> None:
        self._engine, self._write = engine, write
        self._old_pieces = _without_header(old, header)
        self._header_bytes = len(header)
        self._old_ended = False

    def feed(self, piece: bytes | memoryview) -> None:
        """Add a piece of the new file. The first piece begins with the header. Raises DeltaFault, and the errors of
        reading the old file.

        The piece is copied. It is merged with the next one or at the end, so that most files take one step.
        """
        if self._header_bytes:
            piece, self._header_bytes = memoryview(piece)[self._header_bytes :], 0
            # Finds the end of most old files.
            self._read_old()
        else:
            self._advance(ended=False)
        self._engine.add("new", piece)

    def finish(self) -> None:
        """End the new file, and check the totals. Raises as `feed` does."""
        self._advance(ended=True)
        self._engine.totals.check()

    def _advance(self, *, ended: bool) -> None:
        while True:
            step = self._engine.step(old_ended=self._old_ended, new_ended=ended)
            if step.csv:
                self._write(step.csv, step.json)
            if step.needs == "old" and not self._old_ended:
                self._read_old()
                continue
            if step.needs == "old" or (step.needs == "new" and ended):
                raise DeltaFault("rows_incomplete")
            return

    def _read_old(self) -> None:
        """Read on until there are enough rows for a step."""
        added = 0
        while added < _STEP_BYTES:
            piece = next(self._old_pieces, None)
            if piece is None:
                self._old_ended = True
                return
            self._engine.add("old", piece)
            added += len(piece)


def _without_header(pieces: Iterator[bytes], header: bytes) -> Iterator[bytes | memoryview]:
    """Yield the pieces of a file after its header. Raises DeltaFault if it has another one."""
    head = b""
    while len(head) < len(header) and (piece := next(pieces, b"")):
        head += piece
    if not head.startswith(header):
        raise DeltaFault("columns_changed")
    yield memoryview(head)[len(header) :]
    yield from pieces


class RowMerge:
    """Merge engine in Python, for machines without the compiled one."""

    def __init__(self, resource: Resource) -> None:
        self.totals = MergeTotals()
        self._order, self._lines = KeyOrder(resource), DeltaLines(resource)
        self._constant_names = resource.constants
        self._constants: dict[Side, list[bytes]] = {}
        self._last_keys: dict[Side, SortKey] = {}
        self._rows: dict[Side, deque[bytes]] = {"old": deque(), "new": deque()}
        self._rest: dict[Side, bytearray] = {"old": bytearray(), "new": bytearray()}

    def add(self, side: Side, piece: bytes | memoryview) -> None:
        rows, rest, position = self._rows[side], self._rest[side], 0
        rest += piece
        if sum(map(len, rows)) + len(rest) > MAX_GROUP_BYTES:
            raise DeltaFault("rows_too_large")
        while end := row_end(rest, position):
            rows.append(bytes(rest[position:end]))
            position = end
        del rest[:position]

    def close(self) -> None:
        self._rows, self._rest = {}, {}

    def step(self, *, old_ended: bool, new_ended: bool) -> MergeStep:
        lines: list[tuple[bytes, bytes]] = []
        needs: Needs | None = None
        while needs is None:
            old, new = self._group("old", ended=old_ended), self._group("new", ended=new_ended)
            if old is None or new is None:
                needs = "old" if old is None else "new"
            elif old or new:
                lines += self._merge_groups(old, new)
            else:
                needs = "nothing"
        return MergeStep(needs, b"".join(csv for csv, _ in lines), b"".join(json for _, json in lines))

    def constants(self) -> dict[str, str | None]:
        cells = self._constants.get("new", [])
        return {name: cell.decode() or None for name, cell in zip(self._constant_names, cells, strict=False)}

    def _group(self, side: Side, *, ended: bool) -> list[bytes] | None:
        """Return the next rows with one key: none at the end of the file, None if more may follow."""
        rows = self._rows[side]
        group = list(takewhile(lambda row: self._order.key(row) == self._order.key(rows[0]), rows))
        is_complete = len(group) < len(rows) or (ended and not self._rest[side])
        return group if is_complete else None

    def _merge_groups(self, old: list[bytes], new: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Consume the rows with the lower key, and return the lines of their differences."""
        key = min(self._order.key(rows[0]) for rows in (old, new) if rows)
        old, new = self._consumed("old", old, key), self._consumed("new", new, key)
        self.totals.rows_before += len(old)
        self.totals.rows_after += len(new)
        self._add_sums(old, 1)
        self._add_sums(new, -1)
        if [self._split(row)[0] for row in old] == [self._split(row)[0] for row in new]:
            return []
        lines = [self._lines.delete(split_cells(row[:-1])) for row in old[:1]]
        lines += [self._lines.insert(split_cells(row[:-1])) for row in new]
        self.totals.lines += len(lines)
        self.totals.deleted += len(old)
        self.totals.inserted += len(new)
        self._add_sums(old, -1)
        self._add_sums(new, 1)
        return lines

    def _consumed(self, side: Side, rows: list[bytes], key: SortKey) -> list[bytes]:
        """Remove the rows if they have the key, and return them. Raises DeltaFault if keys are not in order, or if a
        constant varies.
        """
        if not rows or self._order.key(rows[0]) != key:
            return []
        if side in self._last_keys and self._last_keys[side] >= key:
            raise DeltaFault("rows_not_in_order")
        self._last_keys[side] = key
        for row in rows:
            _, *constants = self._split(row)
            if self._constants.setdefault(side, constants) != constants:
                raise DeltaFault("constant_varies")
            self._rows[side].popleft()
        return rows

    def _add_sums(self, rows: list[bytes], sign: int) -> None:
        for row in rows:
            digest = hashlib.blake2b(self._split(row)[0], digest_size=16).digest()
            self.totals.add_sums(int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little"), sign)

    def _split(self, row: bytes) -> list[bytes]:
        """Return the part of a row that is compared, and its constants."""
        return row[:-1].rsplit(b",", len(self._constant_names))
