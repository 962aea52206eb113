"""Records by bucket, in memory, or in a temporary file when they exceed the limit."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, TypeVar

from daybreak.domain.errors import RunError
from daybreak.export.memory import MemoryPool, copy

_MAX_BUFFERS = 512
_MAX_CHUNK_BYTES = 1 << 20
_SEGMENT_BYTES = 1 << 20
"""Minimum size of a spilled segment, unless it is the last one of its bucket."""


T = TypeVar("T")


@dataclass(slots=True)
class MemorySegment:
    """Neighboring records of a bucket in the first `size` bytes of a chunk. `ends` are those of all additions."""

    pool: MemoryPool
    chunk: memoryview
    ends: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.ends[-1] if self.ends else 0

    @property
    def content(self) -> memoryview:
        return self.chunk[: self.size]

    def beginnings(self, size: int) -> Iterator[memoryview]:
        """Yield up to `size` bytes of each addition."""
        for start, end in pairwise((0, *self.ends)):
            yield self.chunk[start : min(end, start + size)]

    def move_to(self, buffer: memoryview) -> None:
        """Fill a buffer, and free the memory."""
        copy(buffer, self.content)
        self.free()

    def free(self) -> None:
        """Free the memory."""
        chunk, self.chunk = self.chunk, memoryview(b"")
        self.pool.give_back(chunk)


@dataclass(frozen=True, slots=True)
class SpilledSegment:
    """Neighboring records of a bucket in a spill."""

    spill: "Spill"
    position: int
    size: int

    def beginnings(self, size: int) -> Iterator[memoryview]:
        """Yield up to `size` bytes."""
        content = memoryview(bytearray(min(size, self.size)))
        self.spill.read_into(self.position, content)
        yield content

    def move_to(self, buffer: memoryview) -> None:
        """Fill a buffer."""
        self.spill.read_into(self.position, buffer)


Segment = MemorySegment | SpilledSegment


def move_segments(segments: Iterable[Segment], buffer: memoryview) -> None:
    """Move records to a buffer."""
    for segment in segments:
        segment.move_to(buffer[: segment.size])
        buffer = buffer[segment.size :]


def grouped(items: Iterable[T], size_of: Callable[[T], int], size_bytes: int) -> Iterator[list[T]]:
    """Yield neighboring items in groups of at least `size_bytes`, and the rest."""
    group: list[T] = []
    for item in items:
        group.append(item)
        if sum(map(size_of, group)) >= size_bytes:
            yield group
            group = []
    if group:
        yield group


class Spill:
    """A temporary file without a name, so that it disappears with the process. `bytes` is its size."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self.bytes = 0

    def close(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()

    def write(self, contents: list[memoryview]) -> int:
        """Append contents. Return their position. Raises RunError (`disk_short`)."""
        position = self.bytes
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0, dir=self._folder)  # noqa: SIM115 - closed by `close`
            for start in range(0, len(contents), _MAX_BUFFERS):
                self._write(contents[start : start + _MAX_BUFFERS])
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                raise
            raise RunError(
                f"No space left for temporary files in {self._folder}. Free some, or set snapshot.temp_dir to a larger "
                "disk.",
                code="disk_short",
            ) from error
        return position

    def read_into(self, position: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from a position on."""
        assert self._file is not None
        while buffer:
            read = os.preadv(self._file.fileno(), [buffer], position)
            if read == 0:
                raise RunError("A temporary file is shorter than written. Start the run again.")
            position += read
            buffer = buffer[read:]

    def _write(self, contents: list[memoryview]) -> None:
        assert self._file is not None
        expected = sum(map(len, contents))
        written = os.pwritev(self._file.fileno(), contents, self.bytes)
        if written < expected:
            # After a short write, another write raises its cause, such as a full disk.
            rest = b"".join(contents)[written:]
            while rest:
                rest = rest[os.pwrite(self._file.fileno(), rest, self.bytes + expected - len(rest)) :]
        self.bytes += expected


class Buckets:
    """Records of `count` buckets. When those in memory exceed `max_bytes`, the largest buckets are spilled."""

    def __init__(self, count: int, max_bytes: int, spill: Spill, pool: MemoryPool | None = None) -> None:
        self.max_bytes, self._spill = max_bytes, spill
        # The last chunk of each bucket is half empty on average.
        self._pool = pool or MemoryPool(max(1, min(max_bytes // (4 * count), _MAX_CHUNK_BYTES)))
        self._in_memory: list[list[MemorySegment]] = [[] for _ in range(count)]
        self._spilled: list[list[SpilledSegment]] = [[] for _ in range(count)]
        self._memory_bytes = 0
        self.sizes = [0] * count

    def add(self, records: memoryview, ends: Iterable[int]) -> None:
        """Copy records, which are in the order of the buckets. `ends` are the ends of those of each bucket. Raises
        RunError (`disk_short`).
        """
        start = 0
        for bucket, end in enumerate(ends):
            if end > start:
                copy(self._reserve(bucket, end - start), records[start:end])
                start = end

    def like(self, count: int) -> "Buckets":
        """Return other buckets with the same limit, spill and unused memory."""
        return Buckets(count, self.max_bytes, self._spill, self._pool)

    def take(self, bucket: int) -> list[Segment]:
        """Remove the records of a bucket, and return them."""
        in_memory, spilled = self._in_memory[bucket], self._spilled[bucket]
        self._in_memory[bucket], self._spilled[bucket], self.sizes[bucket] = [], [], 0
        self._memory_bytes -= _memory_bytes(in_memory)
        return [*spilled, *in_memory]

    def _reserve(self, bucket: int, size: int) -> memoryview:
        """Return memory for the next records of a bucket, which are not divided among chunks."""
        last = self._in_memory[bucket][-1] if self._in_memory[bucket] else None
        if last is None or last.size + size > len(last.chunk):
            if self._memory_bytes >= self.max_bytes:
                self._spill_largest()
            last = MemorySegment(self._pool, self._pool.take(size))
            self._in_memory[bucket].append(last)
            self._memory_bytes += len(last.chunk)
        start, end = last.size, last.size + size
        last.ends.append(end)
        self.sizes[bucket] += size
        return last.chunk[start:end]

    def _spill_largest(self) -> None:
        by_size = sorted(range(len(self.sizes)), key=lambda bucket: _memory_bytes(self._in_memory[bucket]))
        while self._memory_bytes > self.max_bytes // 2:
            self._spill_bucket(by_size.pop())

    def _spill_bucket(self, bucket: int) -> None:
        segments, self._in_memory[bucket] = self._in_memory[bucket], []
        for contents in grouped((segment.content for segment in segments), len, _SEGMENT_BYTES):
            position = self._spill.write(contents)
            self._spilled[bucket].append(SpilledSegment(self._spill, position, sum(map(len, contents))))
        self._memory_bytes -= _memory_bytes(segments)
        for segment in segments:
            segment.free()


def _memory_bytes(segments: Iterable[MemorySegment]) -> int:
    return sum(len(segment.chunk) for segment in segments)
