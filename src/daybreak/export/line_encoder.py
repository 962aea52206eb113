"""Lines made from packed rows by compiled code: line_encoder.c, as WebAssembly.

It takes a third of the time of the SQL in `lines.py` and gives the same bytes. It needs the library wasmtime and a
system that lets a process make code; where one is missing, the SQL does the work.
"""

from __future__ import annotations

import atexit
import ctypes
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.domain.errors import RunError
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
_DESCRIPTION = struct.Struct("<5I")
_TASK = struct.Struct("<11I")
_MISPACKED = 0xFFFFFFFF
_SPARE = 64
_PAGE = 1 << 16
_BYTES_AT_ONCE = 1 << 20
_ROOM = 3 << 20
_KEEP_BYTES = 12 << 20


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
class Portion:
    """Neighbouring packed rows of a batch, few enough to be copied: row `i` is `content[bounds[i] - bounds[0]:
    bounds[i + 1] - bounds[0]]`. `owner` holds their memory."""

    ordinals: memoryview
    bounds: memoryview
    content: memoryview
    owner: object

    @property
    def is_giant(self) -> bool:
        """Whether a single row is more than a portion should have."""
        return len(self.content) > _BYTES_AT_ONCE


def portions(batch: Any) -> Iterator[Portion]:
    """An Arrow batch (ordinal INTEGER, packed row BLOB) in portions of a size to be copied; a single row may be of any
    size.
    """
    view = batch.view()
    rows = view.child(1)
    ordinals = int32_values(view.child(0), batch.length)
    bounds = int32_values(rows, batch.length + 1)
    content = memoryview(rows.buffer(2)).cast("B")

    for start, end in _parted(bounds, 0, batch.length):
        yield Portion(ordinals[start:end], bounds[start : end + 1], content[bounds[start] : bounds[end]], batch)


def _parted(bounds: memoryview, start: int, end: int) -> Iterator[tuple[int, int]]:
    if end - start < 2 or bounds[end] - bounds[start] <= _BYTES_AT_ONCE:
        if start < end:
            yield start, end
    else:
        middle = (start + end) // 2
        yield from _parted(bounds, start, middle)
        yield from _parted(bounds, middle, end)


class LineEncoders:
    """Encoders of one resource's rows, for any number of threads.

    Lines stay in the memory of the encoder that made them. It is used again when nobody holds them any more. Memory
    never shrinks: what a giant cell has taken goes with its encoder, and its lines are copied.
    """

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._free: deque[LineEncoder] = deque()
        # Held here as well: the collector of cycles must not close one that is to be used again.
        self._leased: set[LineEncoder] = set()

    def encode(self, portion: Portion) -> list[LineBatch]:
        """The portion's lines, in order, in as few pieces as its memory allows. Raises RunError when a row is not
        packed as packed_row.py packs it."""
        try:
            encoder = self._free.pop()
        except IndexError:
            encoder = LineEncoder(self._resource)
        self._leased.add(encoder)
        found = encoder.encode(portion, _Lease(encoder, self._take_back))
        return found if encoder.memory_bytes <= _KEEP_BYTES else [_copied(batch) for batch in found]

    def _take_back(self, encoder: LineEncoder) -> None:
        self._leased.discard(encoder)
        if encoder.memory_bytes <= _KEEP_BYTES:
            self._free.append(encoder)


def _copied(batch: LineBatch) -> LineBatch:
    def copy(piece: memoryview) -> memoryview:
        return memoryview(bytes(piece))

    lines = {name: (copy(bounds).cast("i"), copy(content)) for name, (bounds, content) in batch.lines.items()}
    return LineBatch(batch.ordinals, lines, None)


class _Lease:
    """An encoder in use: whoever holds this holds the lines in its memory."""

    def __init__(self, encoder: LineEncoder, take_back: Callable[[LineEncoder], None]) -> None:
        self._encoder = encoder
        self._take_back = take_back

    def __del__(self) -> None:
        self._take_back(self._encoder)


class LineEncoder:
    """Encodes rows of one resource into its own memory of `memory_bytes`, which the next call overwrites."""

    def __init__(self, resource: Resource) -> None:
        self._kinds = [_KINDS[column.type] for column in resource.columns]
        self._before: list[tuple[bytes, bytes]] = []
        for column in resource.columns:
            csv = b"," if self._before else b""
            opening = b"," if self._before else JSON_SEPARATOR + b"{"
            self._before.append((csv, opening + f'"{column.name}":'.encode()))
        self._store, exports = _instance()
        self._memory = exports["memory"]
        self._call = exports["encode"]
        self._start = self.memory_bytes = int(self._memory.data_len(self._store))

    def encode(self, portion: Portion, owner: object) -> list[LineBatch]:
        """As `LineEncoders.encode`; `owner` is what the batches name as such."""
        rows = len(portion.ordinals)
        inputs = _Inputs(self._start)
        columns_at = inputs.put(
            b"".join(
                _DESCRIPTION.pack(kind, inputs.put(csv), len(csv), inputs.put(json), len(json))
                for kind, (csv, json) in zip(self._kinds, self._before, strict=True)
            )
        )
        content_at = inputs.put(portion.content)
        bounds_at = inputs.put(portion.bounds.cast("B"))
        task_at = inputs.put(bytes(_TASK.size))
        self._grow(inputs.end)
        inputs.write(self._view())
        pieces: list[tuple[int, int, _Records, _Records]] = []
        room = _ROOM
        row, end = 0, inputs.end
        while row < rows:
            csv_at = end
            json_at = csv_at + room + _SPARE
            csv_bounds_at = json_at + room + _SPARE & ~3
            json_bounds_at = csv_bounds_at + 4 * (rows + 1)
            outputs_end = json_bounds_at + 4 * (rows + 1)
            self._grow(outputs_end)
            task = _TASK.pack(
                columns_at, len(self._kinds), content_at, bounds_at, row, rows, csv_at, json_at, room, csv_bounds_at,
                json_bounds_at,
            )  # fmt: skip
            self._view()[task_at : task_at + _TASK.size] = task
            reached = self._call(self._store, task_at)
            if reached & _MISPACKED == _MISPACKED:
                raise RunError("The engine packs rows otherwise than it did: install the version in the lock file.")
            if reached == row:
                room *= 2
                continue
            pieces.append((row, reached, _Records(csv_at, csv_bounds_at), _Records(json_at, json_bounds_at)))
            row, end = reached, outputs_end
        # Only now, as memory may move when it grows.
        memory = self._view()
        ordinals = memoryview(bytes(portion.ordinals)).cast("i")
        return [
            LineBatch(
                ordinals[first:last],
                {"csv": csv.of(memory, last - first), "json": json.of(memory, last - first)},
                owner,
            )
            for first, last, csv, json in pieces
        ]

    def _grow(self, size: int) -> None:
        missing = size - self.memory_bytes
        if missing > 0:
            self._memory.grow(self._store, -(-missing // _PAGE))
            self.memory_bytes = int(self._memory.data_len(self._store))

    def _view(self) -> memoryview:
        """The encoder's memory as it is now; not to be held when it grows."""
        address = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        return memoryview((ctypes.c_ubyte * self.memory_bytes).from_address(address)).cast("B")


@dataclass(frozen=True, slots=True)
class _Records:
    """Where records and their bounds are."""

    at: int
    bounds_at: int

    def of(self, memory: memoryview, rows: int) -> tuple[memoryview, memoryview]:
        bounds = memory[self.bounds_at : self.bounds_at + 4 * (rows + 1)].cast("i")
        return bounds, memory[self.at : self.at + bounds[rows]]


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
