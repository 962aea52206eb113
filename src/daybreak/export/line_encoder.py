"""Lines made from raw Arrow batches by compiled code: line_encoder.c, as WebAssembly.

It takes a third of the time of the SQL in `lines.py` and gives the same bytes. It needs the library wasmtime and a
system that lets a process make code; where one is missing, the SQL does the work.
"""

from __future__ import annotations

import atexit
import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.export.line_batch import LineBatch, int32_values
from daybreak.export.lines import JSON_SEPARATOR

_KINDS = {
    ColumnType.TEXT: 0,
    ColumnType.UUID: 1,
    ColumnType.BIGINT: 2,
    ColumnType.BOOLEAN: 3,
    ColumnType.DATE: 4,
    ColumnType.TIMESTAMP: 5,
}
_WITH_TEXTS = frozenset({ColumnType.TEXT, ColumnType.UUID})
_VALUE_BYTES = {ColumnType.BIGINT: 8, ColumnType.DATE: 4, ColumnType.TIMESTAMP: 8}
_DESCRIPTION = struct.Struct("<9I")
_SPARE = 64
_PAGE = 1 << 16
_TEXTS_AT_ONCE = 8 << 20
_ROOM = 4 << 20
_KEEP_BYTES = 64 << 20


@cache
def why_not() -> str | None:
    """Why the compiled encoder cannot be used on this machine; None when it can."""
    try:
        _instance()
    except (ImportError, OSError, RuntimeError) as error:
        return str(error) or type(error).__name__
    except Exception as error:  # the library's own error has no better class to be known by
        if type(error).__module__.partition(".")[0] != "wasmtime":
            raise
        return str(error)
    return None


@cache
def _module() -> tuple[Any, Any]:
    import wasmtime

    # The library cannot let go of what outlives it.
    atexit.register(_module.cache_clear)
    config = wasmtime.Config()
    # No threads of the library's own: a process may fork after this.
    config.parallel_compilation = False
    engine = wasmtime.Engine(config)
    code = files("daybreak.export").joinpath("line_encoder.wasm").read_bytes()
    return engine, wasmtime.Module(engine, code)


def _instance() -> tuple[Any, Any]:
    """A memory of its own and what the encoder exports: (store, exports)."""
    import wasmtime

    engine, module = _module()
    store = wasmtime.Store(engine)
    return store, wasmtime.Instance(store, module, []).exports(store)


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some rows of one column, as the encoder takes them. `texts_from` is what the first bound counts as."""

    first_bit: int
    validity: memoryview
    values: memoryview
    texts: memoryview
    texts_from: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Neighbouring rows of a batch, few enough to be copied: a slice of each column. `owner` holds their memory."""

    ordinals: memoryview
    slices: list[_Slice]
    owner: object

    @property
    def is_giant(self) -> bool:
        """Whether a single row is more than a portion should have."""
        return sum(len(piece.texts) for piece in self.slices) > _TEXTS_AT_ONCE


def portions(batch: Any, resource: Resource) -> Iterator[Portion]:
    """An Arrow batch (ordinal INTEGER, then the resource's columns, identifiers as text) in portions whose texts are
    of a size to be copied; a single row may be of any size.
    """
    view = batch.view()
    kinds = [column.type for column in resource.columns]
    children = [view.child(index) for index in range(1, len(kinds) + 1)]
    ordinals = int32_values(view.child(0), batch.length)
    texts = [
        _buffer(child, 1).cast("i")[child.offset :]
        for child, kind in zip(children, kinds, strict=True)
        if kind in _WITH_TEXTS
    ]

    def parted(start: int, end: int) -> Iterator[tuple[int, int]]:
        if end - start < 2 or sum(bounds[end] - bounds[start] for bounds in texts) <= _TEXTS_AT_ONCE:
            yield start, end
        else:
            middle = (start + end) // 2
            yield from parted(start, middle)
            yield from parted(middle, end)

    for start, end in parted(0, batch.length):
        slices = [_slice(child, kind, start, end) for child, kind in zip(children, kinds, strict=True)]
        yield Portion(ordinals[start:end], slices, batch)


class LineEncoder:
    """Encodes the rows of one resource, one after the other. For one thread at a time."""

    def __init__(self, resource: Resource) -> None:
        self._columns = resource.columns
        self._before: list[tuple[bytes, bytes]] = []
        for column in resource.columns:
            csv = b"," if self._before else b""
            opening = b"," if self._before else JSON_SEPARATOR + b"{"
            self._before.append((csv, opening + f'"{column.name}":'.encode()))
        self._room = _ROOM
        self._open()

    @property
    def memory_bytes(self) -> int:
        """What the encoder holds at present."""
        return int(self._memory.data_len(self._store))

    def encode(self, portion: Portion) -> list[LineBatch]:
        """The portion's lines, in order, in as many pieces as it takes to bound memory."""
        rows = len(portion.ordinals)
        inputs = _Inputs(self._start)
        columns_at = inputs.put(
            b"".join(
                self._describe(inputs, column.type, piece, before)
                for column, piece, before in zip(self._columns, portion.slices, self._before, strict=True)
            )
        )
        self._grow(inputs.end)
        inputs.write(self._view())
        found: list[LineBatch] = []
        row = 0
        while row < rows:
            csv_at = inputs.end
            json_at = csv_at + self._room + _SPARE
            csv_bounds_at = json_at + self._room + _SPARE
            json_bounds_at = csv_bounds_at + 4 * (rows + 1)
            self._grow(json_bounds_at + 4 * (rows + 1))
            reached = self._call(
                self._store, columns_at, len(self._columns), row, rows, csv_at, json_at, self._room,
                csv_bounds_at, json_bounds_at,
            )  # fmt: skip
            if reached == row:
                self._room *= 2
                continue
            memory = self._view()
            lines = {
                "csv": _records(memory, csv_at, csv_bounds_at, reached - row),
                "json": _records(memory, json_at, json_bounds_at, reached - row),
            }
            found.append(LineBatch(portion.ordinals[row:reached], lines, portion.owner))
            row = reached
        if self.memory_bytes > _KEEP_BYTES:
            # Memory never shrinks: what a giant cell has taken goes with the instance.
            self._room = _ROOM
            self._open()
        return found

    def _open(self) -> None:
        self._store, exports = _instance()
        self._memory = exports["memory"]
        self._call = exports["encode"]
        self._start = self._memory.data_len(self._store)

    def _describe(self, inputs: _Inputs, kind: ColumnType, piece: _Slice, before: tuple[bytes, bytes]) -> bytes:
        csv, json = before
        return _DESCRIPTION.pack(
            _KINDS[kind],
            piece.first_bit,
            inputs.put(piece.validity) if piece.validity else 0,
            inputs.put(piece.values),
            # Bounds count from the first text of the whole batch, which may lie before our memory begins.
            (inputs.put(piece.texts) - piece.texts_from) & 0xFFFFFFFF if kind in _WITH_TEXTS else 0,
            inputs.put(csv),
            len(csv),
            inputs.put(json),
            len(json),
        )

    def _grow(self, size: int) -> None:
        missing = size - self.memory_bytes
        if missing > 0:
            self._memory.grow(self._store, -(-missing // _PAGE))

    def _view(self) -> memoryview:
        """The encoder's memory as it is now; not to be held when it grows."""
        address = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        return memoryview((ctypes.c_ubyte * self.memory_bytes).from_address(address)).cast("B")


class _Inputs:
    """What goes into the encoder's memory, and where."""

    def __init__(self, start: int) -> None:
        self.end = start
        self._contents: list[tuple[int, bytes | memoryview]] = []

    def put(self, content: bytes | memoryview) -> int:
        """The place that the content will have."""
        at = self.end
        self._contents.append((at, content))
        self.end = (at + len(content) + _SPARE) & ~15
        return at

    def write(self, memory: memoryview) -> None:
        for at, content in self._contents:
            memory[at : at + len(content)] = content


def _records(memory: memoryview, at: int, bounds_at: int, rows: int) -> tuple[memoryview, memoryview]:
    bounds = memoryview(bytes(memory[bounds_at : bounds_at + 4 * (rows + 1)])).cast("i")
    return bounds, memoryview(bytes(memory[at : at + bounds[rows]]))


def _slice(child: Any, kind: ColumnType, start: int, end: int) -> _Slice:
    """Rows `start` to `end` of an Arrow column, without copying."""
    first, last = child.offset + start, child.offset + end
    bits = slice(first >> 3, (last + 7) >> 3)
    validity = _buffer(child, 0)[bits]
    if kind in _WITH_TEXTS:
        values = _buffer(child, 1)[4 * first : 4 * (last + 1)]
        bounds = values.cast("i")
        return _Slice(first & 7, validity, values, _buffer(child, 2)[bounds[0] : bounds[end - start]], bounds[0])
    values = _buffer(child, 1)
    values = (
        values[bits] if kind is ColumnType.BOOLEAN else values[_VALUE_BYTES[kind] * first : _VALUE_BYTES[kind] * last]
    )
    return _Slice(first & 7, validity, values, values[:0], 0)


def _buffer(child: Any, index: int) -> memoryview:
    return memoryview(child.buffer(index)).cast("B")
