"""Merge engine in WebAssembly: delta_merge.c on rows in the memory of an instance. `RowMerge` replaces it elsewhere."""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export.delta.csv_rows import row_end
from daybreak.export.delta.merge import (
    MAX_GROUP_BYTES,
    DeltaFault,
    MergeEngine,
    MergeStep,
    MergeTotals,
    Needs,
    RowMerge,
    Side,
)
from daybreak.export.line_encoder import runtime
from daybreak.export.line_encoder.pool import Pool
from daybreak.export.line_encoder.runtime import Instance

# Kinds, structs and results of delta_merge.c.
_QUOTED, _TIME, _PLAIN = range(3)
_KINDS = {
    ColumnType.TEXT: _QUOTED,
    ColumnType.UUID: _QUOTED,
    ColumnType.DATE: _TIME,
    ColumnType.TIMESTAMP: _TIME,
    ColumnType.BIGINT: _PLAIN,
    ColumnType.BOOLEAN: _PLAIN,
}
_COLUMN = struct.Struct("<3I")
_CALL = struct.Struct("<26I3Q4I2Q4I2QI")
_SAVED_KEY_BYTES = 4 + 4 * 8 + 4096
_DONE, _NEEDS_OLD, _NEEDS_NEW, _OUTPUT_FULL, _INCOMPLETE_ROW = range(5)
_NEEDS: dict[int, Needs] = {_DONE: "nothing", _NEEDS_OLD: "old", _NEEDS_NEW: "new"}
_ADDED, _OTHER_CONSTANT, _OUT_OF_ORDER = range(3)
_FAULTS = {_OTHER_CONSTANT: "constant_varies", _OUT_OF_ORDER: "rows_not_in_order"}
_ROWS_BYTES = 1 << 20
_OUTPUT_BYTES = 256 << 10
_MAX_POOLED_BYTES = 16 << 20


@dataclass(slots=True)
class _Buffer:
    """Rows of one side: bytes from `start` to `end` of the memory, which may be used up to `limit`."""

    address: int
    limit: int
    start: int = 0
    end: int = 0
    suffix: bytes = b""
    suffix_address: int = 0

    @property
    def length(self) -> int:
        return self.end - self.start


class _Memory:
    """Memory of an instance with the columns of one resource. It is reused for many Leaders."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.instance = Instance("daybreak.export.delta.kernel", "delta_merge.wasm")
        columns = []
        for column in resource.columns:
            name = f',"{column.name}":'.encode()
            columns.append(_COLUMN.pack(_KINDS[column.type], self.instance.write(name), len(name)))
        self.columns = self.instance.write(b"".join(columns))
        places = [resource.column_names.index(name) for name in resource.key]
        self.key, self.key_columns = self.instance.write(struct.pack(f"<{len(places)}I", *places)), max(places) + 1
        self.call = self.instance.call("call_at")
        self.seed = int.from_bytes(os.urandom(8), "little")
        self.saved_keys = self.instance.reserve(_SAVED_KEY_BYTES), self.instance.reserve(_SAVED_KEY_BYTES)
        self.buffers = {"old": self.new_buffer(_ROWS_BYTES), "new": self.new_buffer(_ROWS_BYTES)}
        self.reserve_output(_OUTPUT_BYTES)

    def new_buffer(self, size_bytes: int) -> _Buffer:
        """Reserve an empty buffer."""
        address = self.instance.reserve(size_bytes)
        return _Buffer(address, address + size_bytes, address, address)

    def reserve_output(self, csv_bytes: int) -> None:
        """Reserve memory for the lines of a step. JSON lines have four times the size of CSV lines."""
        self.csv, self.json = self.new_buffer(csv_bytes), self.new_buffer(4 * csv_bytes)
        old_key, new_key = self.saved_keys
        # The same for all steps. The numbers that the compiled code counts begin with zero.
        self.task = (
            self.columns, len(self.resource.columns), self.key, len(self.resource.key), self.key_columns,
            self.csv.address, self.json.address, csv_bytes, 4 * csv_bytes, 0, 0, 0, 0, 0, self.seed, 0, 0,
            old_key, 0, 0, 0, 0, 0, new_key, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip

    def reset(self) -> None:
        """Remove the rows of the last Leader."""
        for buffer in self.buffers.values():
            buffer.start = buffer.end = buffer.address
            buffer.suffix = b""
        for address in self.saved_keys:
            self.instance.memory[address : address + 4] = bytes(4)


class KernelMerge:
    """Merge engine of one Leader, with memory from a pool. Use it in one thread, and close it."""

    def __init__(self, memories: Pool[_Memory]) -> None:
        self.totals = MergeTotals()
        self._memories, self._memory = memories, memories.take()
        self._buffers = self._memory.buffers
        self._constants: list[bytes] = []

    def close(self) -> None:
        """Return the memory to the pool."""
        self._memory.reset()
        self._memories.give_back(self._memory)

    def add(self, side: Side, piece: bytes | memoryview) -> None:
        buffer, length = self._buffers[side], len(piece)
        if buffer.length + length > MAX_GROUP_BYTES:
            raise DeltaFault("rows_too_large")
        if buffer.end + length > buffer.limit:
            self._make_room(buffer, length)
        self._memory.instance.memory[buffer.end : buffer.end + length] = piece
        buffer.end += length

    def step(self, *, old_ended: bool, new_ended: bool) -> MergeStep:
        csv: list[bytes] = []
        json: list[bytes] = []
        self._find_constants()
        while True:
            result, used_bytes = self._merge({"old": old_ended, "new": new_ended}, csv, json)
            if result == _INCOMPLETE_ROW:
                raise DeltaFault("rows_incomplete")
            if result != _OUTPUT_FULL:
                return MergeStep(_NEEDS[result], b"".join(csv), b"".join(json))
            if not used_bytes:
                memory = self._memory
                memory.reserve_output(2 * (memory.csv.limit - memory.csv.address))

    def constants(self) -> dict[str, str | None]:
        names = self._memory.resource.constants
        return {name: cell.decode() or None for name, cell in zip(names, self._constants, strict=False)}

    def _merge(self, ended: dict[str, bool], csv: list[bytes], json: list[bytes]) -> tuple[int, int]:
        """Run `step` once. Append its lines, and return its result and the number of consumed bytes."""
        memory, view = self._memory, self._memory.instance.memory
        sides: list[int] = []
        for side, buffer in self._buffers.items():
            sides += [buffer.start, buffer.length, ended[side], len(buffer.suffix), buffer.suffix_address, 0]
        _CALL.pack_into(view, memory.call, *sides, *memory.task)
        memory.instance.call("step")
        found = _CALL.unpack_from(view, memory.call)
        old_used, new_used = found[5], found[11]
        csv_length, json_length, deleted, inserted, lines, _, low, high = found[21:29]
        if csv_length:
            csv.append(bytes(view[memory.csv.address : memory.csv.address + csv_length]))
            json.append(bytes(view[memory.json.address : memory.json.address + json_length]))
        totals = self.totals
        totals.deleted += deleted
        totals.inserted += inserted
        totals.lines += lines
        totals.add_sums(low, high, 1)
        totals.rows_before += self._consumed("old", old_used, found[29:35], 1)
        totals.rows_after += self._consumed("new", new_used, found[35:41], -1)
        return found[41], old_used + new_used

    def _consumed(self, side: Side, length: int, sums: tuple[int, ...], sign: int) -> int:
        """Remove consumed rows, and add their sums to the balance. Return their number. Raises DeltaFault."""
        _, rows, result, _, low, high = sums
        if result != _ADDED:
            raise DeltaFault(_FAULTS[result])
        self.totals.add_sums(low, high, sign)
        self._buffers[side].start += length
        return rows

    def _find_constants(self) -> None:
        """Set the end of the rows that is not compared, from the first row of each side."""
        count = len(self._memory.resource.constants)
        for side, buffer in self._buffers.items() if count else ():
            if buffer.suffix or not buffer.length:
                continue
            rows = bytes(self._memory.instance.memory[buffer.start : buffer.end])
            end = row_end(rows, 0)
            if not end:
                continue
            cells = rows[: end - 1].rsplit(b",", count)[1:]
            buffer.suffix = b"".join(b"," + cell for cell in cells)
            buffer.suffix_address = self._memory.instance.write(buffer.suffix)
            if side == "new":
                self._constants = cells

    def _make_room(self, buffer: _Buffer, length: int) -> None:
        """Move the rows to the start of the buffer, or to a larger one."""
        memory = self._memory
        rows = bytes(memory.instance.memory[buffer.start : buffer.end])
        if len(rows) + length > buffer.limit - buffer.address:
            size_bytes = 2 * (len(rows) + length)
            buffer.address = memory.instance.reserve(size_bytes)
            buffer.limit = buffer.address + size_bytes
        buffer.start, buffer.end = buffer.address, buffer.address + len(rows)
        memory.instance.memory[buffer.start : buffer.end] = rows


def merge_engines(resource: Resource) -> Callable[[], MergeEngine]:
    """Return a function that opens an engine for one Leader, in any thread. The caller closes the engine.

    The engine is compiled where it can run, and in Python elsewhere. Both make the same bytes.
    """
    if runtime.unavailable_reason():
        return partial(RowMerge, resource)
    return partial(KernelMerge, Pool(partial(_Memory, resource), _MAX_POOLED_BYTES))
