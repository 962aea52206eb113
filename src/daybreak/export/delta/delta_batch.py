"""Deltas of small files, which one thread makes in one turn.

They consist of short calls without the interpreter's lock. Threads that made them at the same time would wait for each
other in most calls.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field

from daybreak.domain.delta import LeaderDelta
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.delta.delta_files import LeaderDeltaWriter

SMALL_BYTES = 128 << 10
"""Maximum content of a small file."""
BATCH_BYTES = 2 << 20
"""Content for one turn. Each writer keeps this much."""


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A stored CSV file of a Leader with `rows` rows."""

    open_delta: Callable[[], LeaderDeltaWriter]
    rows: int
    content: bytes
    stored: StoredFormat


@dataclass(slots=True)
class DeltaBatch:
    """Small files whose deltas remain to be made, in a `turn`."""

    turn: AbstractContextManager[object]
    _files: list[SmallFile] = field(default_factory=list)
    _bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether there is enough content for a turn."""
        return self._bytes >= BATCH_BYTES

    def add(self, file: SmallFile) -> None:
        """Add a file."""
        self._files.append(file)
        self._bytes += len(file.content)

    def make(self) -> list[LeaderDelta]:
        """Remove all files, store their deltas, and return these. Raises FileStoreError if one cannot be stored."""
        files, self._files, self._bytes = self._files, [], 0
        with self.turn:
            return [delta for delta in map(_delta, files) if delta is not None]


def _delta(file: SmallFile) -> LeaderDelta | None:
    with closing(file.open_delta()) as writer:
        writer.feed(file.content)
        return writer.finish(file.rows, file.stored)
