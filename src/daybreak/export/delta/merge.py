"""Merge of a Leader's previous and new CSV file, both in key order, to the lines of a delta.

Rows with the same key form one group. A group whose rows differ is deleted and inserted again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from daybreak.catalogue.resources import Resource
from daybreak.export.delta.csv_rows import KeyOrder, SortKey, row_end, split_cells
from daybreak.export.delta.delta_lines import DeltaLines
from daybreak.export.line_sql import csv_header

_MAX_GROUP_BYTES = 64 << 20
"""Maximum size of rows with one key, which are in memory together."""
_SUM_MODULUS = 1 << 128

Needs = Literal["old", "new", "nothing"]
Buffer = bytes | bytearray


class DeltaFault(Exception):
    """The delta cannot be made, for `reason`. Consumers need the full file."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class MergeTotals:
    """Rows seen, and the balance of their 128-bit sums: 0 when old - deleted + inserted = new."""

    rows_before: int = 0
    rows_after: int = 0
    deleted: int = 0
    inserted: int = 0
    lines: int = 0
    balance: int = 0

    def check(self) -> None:
        """Raise DeltaFault unless the old rows and the delta yield the new rows."""
        if self.rows_before - self.deleted + self.inserted != self.rows_after or self.balance % _SUM_MODULUS:
            raise DeltaFault("verification_failed")


@dataclass(slots=True)
class MergeStep:
    """Result of one step: consumed bytes of each side, lines of the delta, and the side whose next piece is needed."""

    old_used: int = 0
    new_used: int = 0
    needs: Needs = "nothing"
    csv: list[bytes] = field(default_factory=list)
    json: list[bytes] = field(default_factory=list)


class MergeEngine(Protocol):
    """Merges as many complete groups as two buffers contain. Buffers begin at the start of a row."""

    totals: MergeTotals

    def step(self, old: Buffer, new: Buffer, *, old_ended: bool, new_ended: bool) -> MergeStep:
        """Merge. Raises DeltaFault."""

    def constants(self) -> dict[str, str | None]:
        """Return the values of the constant columns in the new rows."""


class DeltaMerge:
    """Passes two files to an engine: the old one is read as it is needed, the new one arrives in pieces."""

    def __init__(
        self,
        engine: MergeEngine,
        header: bytes,
        old: Iterator[bytes],
        write: Callable[[list[bytes], list[bytes]], None],
    ) -> None:
        self._engine, self._old_pieces, self._write = engine, old, write
        self._header = header
        self._old, self._new = bytearray(), bytearray()
        self._old_ended = self._has_rows = False

    def feed(self, piece: bytes | memoryview) -> None:
        """Add a piece of the new file. Raises DeltaFault, and the errors of reading the old file."""
        self._new += piece
        self._advance(ended=False)

    def finish(self) -> None:
        """End the new file, and check the totals. Raises as `feed` does."""
        self._advance(ended=True)
        self._engine.totals.check()

    def _advance(self, *, ended: bool) -> None:
        if not self._has_rows and not self._skip_headers(ended=ended):
            return
        while True:
            step = self._engine.step(self._old, self._new, old_ended=self._old_ended, new_ended=ended)
            if step.csv:
                self._write(step.csv, step.json)
            del self._old[: step.old_used]
            del self._new[: step.new_used]
            if step.needs == "old" and not self._old_ended:
                self._read_old()
                continue
            if step.needs == "old" or (step.needs == "new" and ended):
                raise DeltaFault("rows_incomplete")
            if len(self._new) > _MAX_GROUP_BYTES:
                raise DeltaFault("rows_too_large")
            return

    def _skip_headers(self, *, ended: bool) -> bool:
        """Remove the headers. Return whether both are complete. Raises DeltaFault if they differ."""
        length = len(self._header)
        while len(self._old) < length and not self._old_ended:
            self._read_old()
        if len(self._new) < length and not ended:
            return False
        if self._old[:length] != self._header or self._new[:length] != self._header:
            raise DeltaFault("columns_changed")
        del self._old[:length]
        del self._new[:length]
        self._has_rows = True
        return True

    def _read_old(self) -> None:
        piece = next(self._old_pieces, None)
        if piece is None:
            self._old_ended = True
        else:
            self._old += piece
        if len(self._old) > _MAX_GROUP_BYTES:
            raise DeltaFault("rows_too_large")


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

    def step(self, old: Buffer, new: Buffer, *, old_ended: bool, new_ended: bool) -> MergeStep:
        step = MergeStep()
        while True:
            before = self._group(old, step.old_used, ended=old_ended)
            if before is None and not (old_ended and step.old_used == len(old)):
                step.needs = "old"
                break
            after = self._group(new, step.new_used, ended=new_ended)
            if after is None and not (new_ended and step.new_used == len(new)):
                step.needs = "new"
                break
            if before is None and after is None:
                break
            self._merge_groups(before, after, step)
        self._add_sums(old, step.old_used, "before", 1)
        self._add_sums(new, step.new_used, "after", -1)
        return step

    def constants(self) -> dict[str, str | None]:
        cells = self._constants.get("after", [])
        return {name: cell.decode() or None for name, cell in zip(self._resource.constants, cells, strict=False)}

    def _merge_groups(self, before: _Group | None, after: _Group | None, step: MergeStep) -> None:
        """Consume the group with the smaller key, or both groups if their keys are equal."""
        if before is not None and after is not None and before.key != after.key:
            before, after = (before, None) if before.key < after.key else (None, after)
        old_rows = self._consumed(before, "before")
        new_rows = self._consumed(after, "after")
        if before is not None:
            step.old_used = before.end
        if after is not None:
            step.new_used = after.end
        if len(old_rows) == len(new_rows) and list(map(self._compared, old_rows)) == list(
            map(self._compared, new_rows)
        ):
            return
        lines = []
        if old_rows:
            lines.append(self._lines.delete(split_cells(old_rows[0][:-1])))
        lines += [self._lines.insert(split_cells(row[:-1])) for row in new_rows]
        step.csv += [csv for csv, _ in lines]
        step.json += [json for _, json in lines]
        self.totals.lines += len(lines)
        self.totals.deleted += len(old_rows)
        self.totals.inserted += len(new_rows)
        self.totals.balance += sum(self._row_sum(row) for row in new_rows)
        self.totals.balance -= sum(self._row_sum(row) for row in old_rows)

    def _consumed(self, group: _Group | None, side: str) -> list[bytes]:
        """Return the rows of a group. Raises DeltaFault if keys are not in order."""
        if group is None:
            return []
        last = self._last_keys.get(side)
        if last is not None and not last < group.key:
            raise DeltaFault("rows_not_in_order")
        self._last_keys[side] = group.key
        return group.rows

    def _group(self, content: Buffer, start: int, *, ended: bool) -> _Group | None:
        """Return the group at a position, None if it is not complete or there is none."""
        rows: list[bytes] = []
        key: SortKey | None = None
        position = start
        while end := row_end(content, position):
            row = bytes(content[position:end])
            row_key = self._order.key(split_cells(row[:-1]))
            if key is not None and row_key != key:
                return _Group(key, rows, position)
            key = row_key
            rows.append(row)
            position = end
        if key is None or not ended or position != len(content):
            return None
        return _Group(key, rows, position)

    def _add_sums(self, content: Buffer, length: int, side: str, sign: int) -> None:
        """Add the consumed rows to the totals, without the groups. Raises DeltaFault if a constant varies."""
        position = rows = 0
        while position < length:
            end = row_end(content, position)
            row = bytes(content[position:end])
            self.totals.balance += sign * self._row_sum(row)
            if self._constant_count:
                cells = row[:-1].rsplit(b",", self._constant_count)[1:]
                if self._constants.setdefault(side, cells) != cells:
                    raise DeltaFault("constant_varies")
            position, rows = end, rows + 1
        if side == "before":
            self.totals.rows_before += rows
        else:
            self.totals.rows_after += rows

    def _compared(self, row: bytes) -> bytes:
        """Return the part of a row that is compared: all columns but the constants."""
        return row[:-1].rsplit(b",", self._constant_count)[0] if self._constant_count else row

    def _row_sum(self, row: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(self._compared(row), digest_size=16).digest(), "little")


def open_merge(
    resource: Resource, old: Iterator[bytes], write: Callable[[list[bytes], list[bytes]], None]
) -> tuple[DeltaMerge, MergeEngine]:
    """Return a merge for one Leader, and its engine. `write` receives lines of the delta, CSV and JSON."""
    engine = RowMerge(resource)
    return DeltaMerge(engine, csv_header(resource), old, write), engine
