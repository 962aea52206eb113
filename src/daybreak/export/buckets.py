"""Records by bucket, in memory, or in a temporary file when they exceed the limit."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, TypeVar

from daybreak.domain.errors import RunError
from daybreak.export.memory import copy, discard

_MAX_BUFFERS = 512
_SEGMENT_BYTES = 1 << 20
"""Minimum size of a spilled segment, unless it is the last one of its bucket."""
_RECORDS_SHARE = 0.75
"""Share of records in the memory of buckets. The rest is input, and blocks of memory that are too small for others."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemorySegment:
    """Neighboring records of a bucket in memory."""

    content: memoryview

    @property
    def size(self) -> int:
        return len(self.content)

    def beginning(self, size: int) -> memoryview:
        """Return up to `size` bytes."""
        return self.content[:size]

    def move_to(self, buffer: memoryview) -> None:
        """Fill a buffer, and free the memory."""
        copy(buffer, self.content)
        discard(self.content)


@dataclass(frozen=True, slots=True)
class SpilledSegment:
    """Neighboring records of a bucket in a spill."""

    spill: "Spill"
    position: int
    size: int

    def beginning(self, size: int) -> memoryview:
        """Return up to `size` bytes."""
        content = memoryview(bytearray(min(size, self.size)))
        self.spill.read_into(self.position, content)
        return content

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
    group_bytes = 0
    for item in items:
        group.append(item)
        group_bytes += size_of(item)
        if group_bytes >= size_bytes:
            yield group
            group, group_bytes = [], 0
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
    """Records of `count` buckets. Before their memory exceeds about `max_bytes`, they are spilled."""

    def __init__(self, count: int, max_bytes: int, spill: Spill) -> None:
        self.max_bytes, self.spill = max_bytes, spill
        self._additions: list[tuple[memoryview, list[int]]] = []
        self._spilled: list[list[SpilledSegment]] = [[] for _ in range(count)]
        self._memory_bytes = 0
        self.sizes = [0] * count

    def add(self, records: memoryview, ends: Iterable[int]) -> None:
        """Add records, which are in the order of the buckets and are kept where they are. `ends` are the ends of those
        of each bucket. Raises RunError (`disk_short`).
        """
        if self._memory_bytes >= _RECORDS_SHARE * self.max_bytes:
            self._spill_all()
        bounds = [0, *ends]
        self._additions.append((records, bounds))
        self._memory_bytes += len(records)
        self.sizes = [size + end - start for size, (start, end) in zip(self.sizes, pairwise(bounds), strict=True)]

    def segments(self, buckets: range) -> list[Segment]:
        """Return the records of neighboring buckets. Move them once."""
        spilled = [segment for own in self._spilled[buckets.start : buckets.stop] for segment in own]
        return [*spilled, *map(MemorySegment, self._in_memory(buckets))]

    def _in_memory(self, buckets: range) -> list[memoryview]:
        parts = (records[bounds[buckets.start] : bounds[buckets.stop]] for records, bounds in self._additions)
        return [part for part in parts if part]

    def _spill_all(self) -> None:
        for bucket, spilled in enumerate(self._spilled):
            for contents in grouped(self._in_memory(range(bucket, bucket + 1)), len, _SEGMENT_BYTES):
                position = self.spill.write(contents)
                spilled.append(SpilledSegment(self.spill, position, sum(map(len, contents))))
        self._additions, self._memory_bytes = [], 0
