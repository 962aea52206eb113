"""Deltas of small files, which a thread makes one after the other.

This takes less time than making each with its file: the processor's caches contain the code, and fewer calls wait for
the interpreter's lock.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from itertools import groupby

from daybreak.domain.delta import LeaderDelta
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.delta.delta_files import LeaderDeltaWriter
from daybreak.export.gzip_member import PART_BYTES

SMALL_BYTES = PART_BYTES
"""Content of a small file is shorter, so that it has one part."""
BATCH_BYTES = 8 << 20
"""Content that a writer keeps. The files of most bundles of lines are smaller together."""
_TURN_BYTES = 128 << 10
"""Up to this size, most calls are so short that threads would wait for each other. They take turns instead."""


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A stored CSV file of a Leader with `rows` rows."""

    open_delta: Callable[[], LeaderDeltaWriter]
    rows: int
    content: bytes
    stored: StoredFormat


@dataclass(slots=True)
class DeltaBatch:
    """Small files whose deltas remain to be made, those of the smallest ones in a `turn`."""

    turn: AbstractContextManager[object]
    _files: list[SmallFile] = field(default_factory=list)
    _bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the deltas must be made before more files are added."""
        return self._bytes >= BATCH_BYTES

    def add(self, file: SmallFile) -> None:
        """Add a file."""
        self._files.append(file)
        self._bytes += len(file.content)

    def make(self) -> list[LeaderDelta]:
        """Remove all files, store their deltas, and return these. Raises FileStoreError if one cannot be stored."""
        files, self._files, self._bytes = self._files, [], 0
        deltas: list[LeaderDelta | None] = []
        for in_turn, group in groupby(files, lambda file: len(file.content) <= _TURN_BYTES):
            with self.turn if in_turn else nullcontext():
                deltas += map(_delta, group)
        return [delta for delta in deltas if delta is not None]


def _delta(file: SmallFile) -> LeaderDelta | None:
    with closing(file.open_delta()) as writer:
        writer.feed(file.content)
        return writer.finish(file.rows, file.stored)
