"""Divides rows among buckets with the compiled code."""

import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from daybreak.export.line_encoder.records import HEADER, RecordLayout, write_words
from daybreak.export.line_encoder.runtime import Instance

_BLOCK_BYTES = 1 << 20
"""Sizes of blocks are multiples of it, so that later outputs fit."""

Divided = tuple[memoryview, list[int]]
"""Records in the order of their buckets, and the ends of those of each bucket."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Neighboring packed rows: row `i` is `content[offsets[i] - offsets[0]:offsets[i + 1] - offsets[0]]`. `offsets` are
    int32. Keep a reference to `owner` while a view is in use.
    """

    offsets: memoryview
    content: memoryview
    owner: object


class _Scatter:
    """The struct Scatter of partition.c, at `address`. Reserve memory for input between `begin` and `finish` only."""

    def __init__(self, instance: Instance, buckets: int) -> None:
        self._instance, self._buckets = instance, buckets
        self._unused: deque[tuple[int, int]] = deque()
        self._input_at = 0
        self._sizes_at = instance.reserve(4 * buckets)
        self.address = instance.reserve(24)

    def begin(self, rows: int) -> None:
        """Begin with up to `rows` records."""
        instance = self._instance
        self._input_at = instance.free
        self._rows_at = instance.reserve(4 * rows)
        places_at = instance.reserve(4 * rows)
        instance.memory[self._sizes_at : self._sizes_at + 4 * self._buckets] = bytes(4 * self._buckets)
        write_words(instance, self.address, self._rows_at, places_at, 0, self._buckets, self._sizes_at)

    def finish(self) -> Divided:
        """Return the records by bucket. Their memory is used again after the last use of the view."""
        instance = self._instance
        sizes = slice(self._sizes_at, self._sizes_at + 4 * self._buckets)
        size = sum(instance.memory[sizes].cast("I"))
        output, capacity = self._output(size)
        write_words(instance, self.address + 20, output)
        instance.call("scatter", self.address)
        records = instance.lend(partial(self._give_back, output, capacity))[output : output + size]
        return records, instance.memory[sizes].cast("I").tolist()

    def _give_back(self, address: int, size: int) -> None:
        self._unused.append((address, size))

    def _output(self, size: int) -> tuple[int, int]:
        """Return address and size of an unused block. If there is none, the output follows the input, whose memory
        becomes an unused block.
        """
        instance, input_at = self._instance, self._input_at
        for _ in range(len(self._unused)):
            address, capacity = self._unused.popleft()
            if capacity >= size:
                instance.free = input_at
                return address, capacity
            self._give_back(address, capacity)
        self._give_back(input_at, instance.free - input_at)
        capacity = -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
        return instance.reserve(capacity), capacity


class Partitioner:
    """Divides packed rows among buckets by Leader. `leaders` are the identifiers of all Leaders, sixteen bytes each, in
    the order of their ordinals; `bucket_of` has the bucket of each as uint32.
    """

    def __init__(self, leaders: bytes, bucket_of: bytes, buckets: int) -> None:
        self.instance = instance = Instance()
        count = len(leaders) // 16
        slots = 1 << (2 * count + 1).bit_length()
        leaders_at, buckets_at = instance.write(leaders), instance.write(bucket_of)
        slots_at = instance.write(bytes(4 * slots))
        self._scatter = _Scatter(instance, buckets)
        self._task_at = instance.reserve(36)
        write_words(instance, self._task_at, count, leaders_at, buckets_at, slots_at, slots - 1, self._scatter.address)
        instance.call("number_leaders", self._task_at)

    def partition(self, batches: Sequence[PackedRows]) -> Divided:
        """Return the records of known Leaders by bucket."""
        instance = self.instance
        self._scatter.begin(sum(len(batch.offsets) - 1 for batch in batches))
        for batch in batches:
            packed_at = instance.write(batch.content)
            offsets_at = instance.write(batch.offsets.cast("B"))
            write_words(instance, self._task_at + 24, packed_at, offsets_at, len(batch.offsets) - 1)
            instance.call("read_rows", self._task_at)
        return self._scatter.finish()


class Divider:
    """Divides records at splitters, one less than buckets: sorted pairs of an ordinal and the first bytes of cells."""

    def __init__(self, splitters: Sequence[tuple[int, bytes]], layout: RecordLayout) -> None:
        self.instance = instance = Instance()
        self._least_record_bytes = HEADER.size + len(layout.cells)
        addresses = [instance.write(HEADER.pack(len(cells), ordinal) + cells) for ordinal, cells in splitters]
        table_at = instance.write(struct.pack(f"<{len(addresses)}I", *addresses))
        self._scatter = _Scatter(instance, len(splitters) + 1)
        self._task_at = instance.reserve(16)
        write_words(instance, self._task_at, 0, 0, table_at, self._scatter.address)

    def divide(self, size_bytes: int, read: Callable[[memoryview], None]) -> Divided:
        """Return records by bucket. `read` copies them to a buffer of `size_bytes`."""
        instance = self.instance
        self._scatter.begin(size_bytes // self._least_record_bytes)
        start = instance.reserve(size_bytes)
        read(instance.memory[start : start + size_bytes])
        write_words(instance, self._task_at, start, start + size_bytes)
        instance.call("divide", self._task_at)
        return self._scatter.finish()
