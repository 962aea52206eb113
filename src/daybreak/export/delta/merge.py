"""Merge of a Leader's previous and new CSV file, both in key order, to the lines of a delta.

Rows with the same key form one group. A group whose rows differ is deleted and inserted again.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
        self._engine, self._old_pieces, self._write = engine, old, write
        self._header = header
        self._old_head: bytes | memoryview = b""
        self._new_head: bytes | memoryview = b""
        self._old_ended = self._has_rows = False

    def feed(self, piece: bytes | memoryview) -> None:
        """Add a piece of the new file. Raises DeltaFault, and the errors of reading the old file.

        The piece is copied. It is merged with the next one or at the end, so that most files take one step.
        """
        if self._has_rows:
            self._advance(ended=False)
            self._engine.add("new", piece)
            return
        self._new_head = _joined(self._new_head, piece)
        if not self._skip_headers(ended=False):
            self._new_head = bytes(self._new_head)

    def finish(self) -> None:
        """End the new file, and check the totals. Raises as `feed` does."""
        self._advance(ended=True)
        self._engine.totals.check()

    def _advance(self, *, ended: bool) -> None:
        if not self._has_rows and not self._skip_headers(ended=ended):
            return
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

    def _skip_headers(self, *, ended: bool) -> bool:
        """Remove the headers. Return whether both are complete. Raises DeltaFault if they differ."""
        length = len(self._header)
        if len(self._new_head) < length and not ended:
            return False
        while len(self._old_head) < length and not self._old_ended:
            piece = next(self._old_pieces, None)
            if piece is None:
                self._old_ended = True
            else:
                self._old_head = _joined(self._old_head, piece)
        if self._old_head[:length] != self._header or self._new_head[:length] != self._header:
            raise DeltaFault("columns_changed")
        self._engine.add("old", memoryview(self._old_head)[length:])
        self._engine.add("new", memoryview(self._new_head)[length:])
        self._old_head = self._new_head = b""
        # Reading on finds the end of most old files.
        self._read_old()
        self._has_rows = True
        return True

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


def _joined(head: bytes | memoryview, piece: bytes | memoryview) -> bytes | memoryview:
    """Return the first bytes of a file. Most files have one piece, which is not copied."""
    return bytes(head) + piece if head else piece


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows with one key, and the position after them."""

    key: SortKey
    rows: list[bytes]
    end: int


class RowMerge:
    """Merge engine in Python, for machines without the compiled one."""

    def __init__(self, resource: Resource) -> None:
        self.totals = MergeTotals()
        self._order, self._lines = KeyOrder(resource), DeltaLines(resource)
        self._resource = resource
        self._constant_count = len(resource.constants)
        self._constants: dict[str, list[bytes]] = {}
        self._last_keys: dict[str, SortKey] = {}
        self._rows = {"old": bytearray(), "new": bytearray()}

    def add(self, side: Side, piece: bytes | memoryview) -> None:
        self._rows[side] += piece
        if len(self._rows[side]) > MAX_GROUP_BYTES:
            raise DeltaFault("rows_too_large")

    def close(self) -> None:
        self._rows = {}

    def step(self, *, old_ended: bool, new_ended: bool) -> MergeStep:
        old, new = self._rows["old"], self._rows["new"]
        old_used = new_used = 0
        needs: Needs = "nothing"
        lines: list[tuple[bytes, bytes]] = []
        while True:
            before = self._group(old, old_used, ended=old_ended)
            if before is None and not (old_ended and old_used == len(old)):
                needs = "old"
                break
            after = self._group(new, new_used, ended=new_ended)
            if after is None and not (new_ended and new_used == len(new)):
                needs = "new"
                break
            if before is None and after is None:
                break
            if before is not None and after is not None and before.key != after.key:
                before, after = (before, None) if before.key < after.key else (None, after)
            lines += self._merge_groups(self._consumed(before, "old"), self._consumed(after, "new"))
            old_used, new_used = before.end if before else old_used, after.end if after else new_used
        for side, used, sign in (("old", old_used, 1), ("new", new_used, -1)):
            self._add_sums(self._rows[side], used, side, sign)
            del self._rows[side][:used]
        return MergeStep(needs, b"".join(csv for csv, _ in lines), b"".join(json for _, json in lines))

    def _merge_groups(self, old_rows: list[bytes], new_rows: list[bytes]) -> list[tuple[bytes, bytes]]:
        if list(map(self._compared, old_rows)) == list(map(self._compared, new_rows)):
            return []
        lines = [self._lines.delete(split_cells(row[:-1])) for row in old_rows[:1]]
        lines += [self._lines.insert(split_cells(row[:-1])) for row in new_rows]
        self.totals.lines += len(lines)
        self.totals.deleted += len(old_rows)
        self.totals.inserted += len(new_rows)
        for rows, sign in ((old_rows, -1), (new_rows, 1)):
            for row in rows:
                self.totals.add_sums(*self._row_sums(row), sign)
        return lines

    def constants(self) -> dict[str, str | None]:
        cells = self._constants.get("new", [])
        return {name: cell.decode() or None for name, cell in zip(self._resource.constants, cells, strict=False)}

    def _consumed(self, group: _Group | None, side: str) -> list[bytes]:
        """Return the rows of a group. Raises DeltaFault if keys are not in order."""
        if group is None:
            return []
        last = self._last_keys.get(side)
        if last is not None and not last < group.key:
            raise DeltaFault("rows_not_in_order")
        self._last_keys[side] = group.key
        return group.rows

    def _group(self, content: bytearray, start: int, *, ended: bool) -> _Group | None:
        """Return the group at a position, None if it is not complete or there is none."""
        rows: list[bytes] = []
        key: SortKey | None = None
        position = start
        while end := row_end(content, position):
            row = bytes(content[position:end])
            row_key = self._order.key(row)
            if key is not None and row_key != key:
                return _Group(key, rows, position)
            key = row_key
            rows.append(row)
            position = end
        if key is None or not ended or position != len(content):
            return None
        return _Group(key, rows, position)

    def _add_sums(self, content: bytearray, length: int, side: str, sign: int) -> None:
        """Add the consumed rows to the totals, without the groups. Raises DeltaFault if a constant varies."""
        position = rows = 0
        while position < length:
            end = row_end(content, position)
            row = bytes(content[position:end])
            self.totals.add_sums(*self._row_sums(row), sign)
            if self._constant_count:
                cells = row[:-1].rsplit(b",", self._constant_count)[1:]
                if self._constants.setdefault(side, cells) != cells:
                    raise DeltaFault("constant_varies")
            position, rows = end, rows + 1
        if side == "old":
            self.totals.rows_before += rows
        else:
            self.totals.rows_after += rows

    def _compared(self, row: bytes) -> bytes:
        """Return the part of a row that is compared: all columns but the constants."""
        return row[:-1].rsplit(b",", self._constant_count)[0] if self._constant_count else row

    def _row_sums(self, row: bytes) -> tuple[int, int]:
        digest = hashlib.blake2b(self._compared(row), digest_size=16).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
