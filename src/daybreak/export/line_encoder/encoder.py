"""Encodes packed rows as CSV and JSON lines with the compiled encoder.

The lines are byte for byte the same as those of `daybreak.export.line_sql`. Encoding takes a third of the time.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import RunError
from daybreak.export.line_batch import LineBatch
from daybreak.export.line_encoder.runtime import EncoderInstance
from daybreak.export.line_sql import JSON_SEPARATOR

# Kinds, structs and results of line_encoder.c.
_KINDS = {
    ColumnType.TEXT: 0,
    ColumnType.UUID: 1,
    ColumnType.BIGINT: 2,
    ColumnType.BOOLEAN: 3,
    ColumnType.DATE: 4,
    ColumnType.TIMESTAMP: 5,
}
_COLUMN = struct.Struct("<5I")
_TASK = struct.Struct("<11I")
_MALFORMED_ROW = 0xFFFFFFFF
# The encoder reads and writes sixteen bytes at a time, so it can access bytes after the end of its data.
_PADDING_BYTES = 64

OUTPUT_BYTES = 3 << 20
"""Initial size of each output. Lines that do not fit are written to another output."""
MAX_POOLED_BYTES = 12 << 20
"""Maximum memory of an encoder that is reused."""
MAX_INPUT_BYTES = 1 << 20
"""Maximum size of the packed rows that are copied to an encoder in one call. A larger row is copied alone."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Neighboring packed rows: row `i` is `content[offsets[i] - offsets[0]:offsets[i + 1] - offsets[0]]`. `ordinals`
    and `offsets` are int32. Keep a reference to `owner` while a view is in use.
    """

    ordinals: memoryview
    offsets: memoryview
    content: memoryview
    owner: object

    @property
    def is_oversized(self) -> bool:
        """Whether this is a single row larger than `MAX_INPUT_BYTES`."""
        return len(self.content) > MAX_INPUT_BYTES


class EncoderPool:
    """Encoders of one resource's rows, for any number of threads.

    Lines stay in the memory of their encoder, which returns to the pool when the last batch of lines is released.
    Memory never shrinks, so an encoder that an oversized cell has enlarged is not reused, and its lines are copied.
    """

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._free: deque[LineEncoder] = deque()
        # A second reference, so that the garbage collector does not finalize an encoder that will be reused.
        self._leased: set[LineEncoder] = set()

    def encode(self, rows: PackedRows) -> list[LineBatch]:
        """Encode rows in order. Return one batch per output. Raises RunError for a malformed row."""
        try:
            encoder = self._free.pop()
        except IndexError:
            encoder = LineEncoder(self._resource)
        self._leased.add(encoder)
        batches = encoder.encode(rows, _Lease(encoder, self._release))
        return batches if encoder.memory_bytes <= MAX_POOLED_BYTES else [_copied(batch) for batch in batches]

    def _release(self, encoder: LineEncoder) -> None:
        self._leased.discard(encoder)
        if encoder.memory_bytes <= MAX_POOLED_BYTES:
            self._free.append(encoder)


class _Lease:
    """Keeps an encoder out of the pool while its lines are in use."""

    def __init__(self, encoder: LineEncoder, release: Callable[[LineEncoder], None]) -> None:
        self._encoder = encoder
        self._release = release

    def __del__(self) -> None:
        self._release(self._encoder)


def _copied(batch: LineBatch) -> LineBatch:
    def copy(view: memoryview) -> memoryview:
        return memoryview(bytes(view))

    lines = {kind: (copy(offsets).cast("i"), copy(content)) for kind, (offsets, content) in batch.lines.items()}
    return LineBatch(batch.ordinals, lines, None)


class LineEncoder:
    """Encodes rows of one resource in its own memory. Each call overwrites the lines of the previous one."""

    def __init__(self, resource: Resource) -> None:
        self._instance = EncoderInstance()
        self._columns: list[tuple[int, bytes, bytes]] = []
        for column in resource.columns:
            csv_prefix = b"," if self._columns else b""
            json_prefix = b"," if self._columns else JSON_SEPARATOR + b"{"
            json_prefix += f'"{column.name}":'.encode()
            self._columns.append((_KINDS[column.type], csv_prefix, json_prefix))

    @property
    def memory_bytes(self) -> int:
        """Size of the encoder's memory."""
        return self._instance.memory_bytes

    def encode(self, rows: PackedRows, owner: object) -> list[LineBatch]:
        """Encode rows as `EncoderPool.encode` does. `owner` becomes the owner of the batches."""
        task = self._write_inputs(rows)
        count = len(rows.ordinals)
        outputs: list[tuple[int, int, _Output]] = []
        capacity = OUTPUT_BYTES
        row, free_from = 0, task.end
        while row < count:
            output = _Output.at(free_from, capacity, count)
            self._instance.grow(output.end)
            task.write(self._instance.view(), row, output)
            reached = self._instance.encode(task.address)
            if reached == _MALFORMED_ROW:
                raise RunError("A packed row has an unexpected layout. Install the DuckDB version of the lock file.")
            if reached == row:
                capacity *= 2
                continue
            outputs.append((row, reached, output))
            row, free_from = reached, output.end
        # Views are created last, because the memory may move when it grows.
        memory = self._instance.view()
        ordinals = memoryview(bytes(rows.ordinals)).cast("i")
        return [
            LineBatch(ordinals[first:last], output.lines(memory, last - first), owner)
            for first, last, output in outputs
        ]

    def _write_inputs(self, rows: PackedRows) -> _Task:
        inputs = _Inputs(self._instance.start)
        columns_at = inputs.add(
            b"".join(
                _COLUMN.pack(kind, inputs.add(csv), len(csv), inputs.add(json), len(json))
                for kind, csv, json in self._columns
            )
        )
        content_at = inputs.add(rows.content)
        offsets_at = inputs.add(rows.offsets.cast("B"))
        task_at = inputs.add(bytes(_TASK.size))
        self._instance.grow(inputs.end)
        inputs.write(self._instance.view())
        return _Task(task_at, inputs.end, (columns_at, len(self._columns), content_at, offsets_at), len(rows.ordinals))


@dataclass(frozen=True, slots=True)
class _Output:
    """Addresses of one output: CSV lines, JSON lines, and the offsets of both."""

    csv_at: int
    json_at: int
    csv_offsets_at: int
    json_offsets_at: int
    capacity: int
    end: int

    @classmethod
    def at(cls, start: int, capacity: int, rows: int) -> _Output:
        """Return the layout of an output of `capacity` bytes per kind of line, from `start` on."""
        json_at = start + capacity + _PADDING_BYTES
        csv_offsets_at = json_at + capacity + _PADDING_BYTES & ~3
        json_offsets_at = csv_offsets_at + 4 * (rows + 1)
        return cls(start, json_at, csv_offsets_at, json_offsets_at, capacity, json_offsets_at + 4 * (rows + 1))

    def lines(self, memory: memoryview, rows: int) -> dict[str, tuple[memoryview, memoryview]]:
        """Return the lines of the first `rows` rows, as `LineBatch.lines`."""
        lines = {}
        for kind, at, offsets_at in (
            ("csv", self.csv_at, self.csv_offsets_at),
            ("json", self.json_at, self.json_offsets_at),
        ):
            offsets = memory[offsets_at : offsets_at + 4 * (rows + 1)].cast("i")
            lines[kind] = (offsets, memory[at : at + offsets[rows]])
        return lines


@dataclass(frozen=True, slots=True)
class _Task:
    """The struct Task of line_encoder.c at `address`; everything after `end` is free."""

    address: int
    end: int
    inputs: tuple[int, int, int, int]
    rows: int

    def write(self, memory: memoryview, first_row: int, output: _Output) -> None:
        memory[self.address : self.address + _TASK.size] = _TASK.pack(
            *self.inputs, first_row, self.rows, output.csv_at, output.json_at, output.capacity, output.csv_offsets_at,
            output.json_offsets_at,
        )  # fmt: skip


class _Inputs:
    """Inputs of the encoder and their addresses."""

    def __init__(self, start: int) -> None:
        self.end = start
        self._contents: list[tuple[int, bytes | memoryview]] = []

    def add(self, content: bytes | memoryview) -> int:
        """Reserve space for the content and return its address."""
        address = self.end
        self._contents.append((address, content))
        self.end = (address + len(content) + _PADDING_BYTES) & ~15
        return address

    def write(self, memory: memoryview) -> None:
        for address, content in self._contents:
            memory[address : address + len(content)] = content
