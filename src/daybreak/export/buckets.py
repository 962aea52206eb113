"""Records by bucket, in memory, or in a temporary file when they exceed the limit."""

import errno
import os
import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from daybreak.domain.errors import RunError

_MAX_BUFFERS = 512
_SEGMENT_BYTES = 1 << 20
"""Minimum size of a spilled segment, unless it is the last one of its bucket."""


@dataclass(frozen=True, slots=True)
class SpilledSegment:
    """Neighboring records in a spill."""

    spill: "Spill"
    position: int
    size: int

    def __len__(self) -> int:
        return self.size


Segment = bytes | SpilledSegment
"""Neighboring records of a bucket."""


def read_segments(segments: deque[Segment], buffer: memoryview) -> None:
    """Move records to a buffer."""
    while segments:
        segment = segments.popleft()
        part, buffer = buffer[: len(segment)], buffer[len(segment) :]
        if isinstance(segment, SpilledSegment):
            segment.spill.read_into(segment.position, part)
        else:
            part[:] = segment


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

    def write(self, contents: list[bytes]) -> int:
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

    def read(self, position: int, size: int) -> bytes:
        """Return the bytes at a position."""
        content = bytearray(size)
        self.read_into(position, memoryview(content))
        return bytes(content)

    def read_into(self, position: int, buffer: memoryview) -> None:
        """Fill a buffer with the bytes from a position on."""
        assert self._file is not None
        while buffer:
            read = os.preadv(self._file.fileno(), [buffer], position)
            if read == 0:
                raise RunError("A temporary file is shorter than written. Start the run again.")
            position += read
            buffer = buffer[read:]

    def _write(self, contents: list[bytes]) -> None:
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

    def __init__(self, count: int, max_bytes: int, spill: Spill) -> None:
        self.max_bytes, self._spill = max_bytes, spill
        self._contents: list[list[bytes]] = [[] for _ in range(count)]
        self._spilled: list[list[SpilledSegment]] = [[] for _ in range(count)]
        self._in_memory = [0] * count
        self.sizes = [0] * count

    def add(self, slices: Iterable[tuple[int, bytes]]) -> None:
        """Append records to buckets. Raises RunError (`disk_short`)."""
        for bucket, content in slices:
            self._contents[bucket].append(content)
            self._in_memory[bucket] += len(content)
            self.sizes[bucket] += len(content)
        if sum(self._in_memory) > self.max_bytes:
            by_size = sorted(range(len(self.sizes)), key=self._in_memory.__getitem__)
            while sum(self._in_memory) > self.max_bytes // 2:
                self._spill_bucket(by_size.pop())

    def like(self, count: int) -> "Buckets":
        """Return other buckets with the same limit and spill."""
        return Buckets(count, self.max_bytes, self._spill)

    def take(self, bucket: int) -> deque[Segment]:
        """Remove the records of a bucket, and return them."""
        segments: deque[Segment] = deque([*self._spilled[bucket], *self._contents[bucket]])
        self._spilled[bucket], self._contents[bucket] = [], []
        self._in_memory[bucket] = self.sizes[bucket] = 0
        return segments

    def _spill_bucket(self, bucket: int) -> None:
        pending: list[bytes] = []
        contents, self._contents[bucket], self._in_memory[bucket] = self._contents[bucket], [], 0
        for content in contents:
            pending.append(content)
            if sum(map(len, pending)) >= _SEGMENT_BYTES or content is contents[-1]:
                size = sum(map(len, pending))
                self._spilled[bucket].append(SpilledSegment(self._spill, self._spill.write(pending), size))
                pending = []
