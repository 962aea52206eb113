"""A file sink that counts what passes, and stops a run that lost its claim or is to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from daybreak.ports.files import FileSink, WrittenFile
from daybreak.snapshots.progress import Progress


class WatchedSink:
    """Passes everything on. `check` is called before each piece of a file, and raises to stop the run."""

    def __init__(self, sink: FileSink, progress: Progress, check: Callable[[], None]) -> None:
        self._sink, self._progress, self._check = sink, progress, check

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        written = self._sink.write(client_id, resource, format, self._checked(pieces))
        self._progress.add_file(written.bytes)
        return written

    def carry(self, key: str) -> str:
        self._check()
        new_key = self._sink.carry(key)
        self._progress.add_file(0, carried=True)
        return new_key

    def seal(self) -> None:
        self._check()
        self._sink.seal()

    def discard(self) -> None:
        self._sink.discard()

    def for_tasks(self) -> FileSink:
        """The sink itself, which tasks on other machines take along; `count` is told what they have written."""
        return self._sink

    def count(self, size_bytes: int) -> None:
        """A file that a task has written."""
        self._progress.add_file(size_bytes)

    def _checked(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for piece in pieces:
            self._check()
            yield piece
