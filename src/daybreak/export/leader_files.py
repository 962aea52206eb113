"""Text files from Leaders' chunks: compression in threads, writing to the sink, and manifest entries.

Most Leaders are small: their files are compressed whole, many per task. A file longer than one part is streamed:
its parts are compressed in parallel while a writer thread passes them to the sink in order. The bytes waiting for
compression or the sink are bounded, so memory does not depend on the size of a Leader.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from isal import isal_zlib

from daybreak.catalogue.resources import resource_named
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.delta.delta_files import LeaderDeltaWriter
from daybreak.export.gzip_member import HEADER, PART_BYTES, codec_named, crc32, trailer
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.parquet_files import PARQUET
from daybreak.export.survey import SurveyedLeader
from daybreak.export.text_formats import Piece, TextFormat, text_format
from daybreak.ports.files import FileSink
from daybreak.ports.sources import ExportJob

T = TypeVar("T")
MAX_WAITING_BYTES = 24 << 20
_TASK_BYTES = 512 << 10
_TASK_FILES = 64


@dataclass(slots=True)
class _PendingEntry:
    """A manifest entry that still lacks some formats."""

    leader: SurveyedLeader
    formats: dict[str, StoredFormat] = field(default_factory=dict)


@dataclass(slots=True)
class _Part:
    """Content of one part, or of a whole small file, and the owners of its buffers."""

    pieces: list[Piece]
    owners: list[object]
    size: int = 0

    def add(self, piece: Piece, owner: object = None) -> None:
        self.pieces.append(piece)
        self.owners.append(owner)
        self.size += len(piece)

    def content(self) -> Piece:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


_Parts = queue.SimpleQueue[tuple[_Part, Future[tuple[bytes, int]]] | None]


@dataclass(slots=True)
class _OpenFile:
    """A file whose Leader is still being read. `parts` is set once the file has more than one part."""

    format: TextFormat
    part: _Part
    parts: _Parts | None = None
    has_lines: bool = False


class _Backlog:
    """Bytes waiting for compression or the sink, and the first failure of a thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting_bytes = 0
        self.failure: BaseException | None = None

    def add(self, size_bytes: int) -> None:
        """Wait until the bytes fit. Raises the failure of another thread."""
        with self._changed:
            while self._waiting_bytes and self._waiting_bytes + size_bytes > MAX_WAITING_BYTES:
                if self.failure is not None:
                    break
                self._changed.wait()
            self._waiting_bytes += size_bytes
        self.raise_failure()

    def remove(self, size_bytes: int) -> None:
        with self._changed:
            self._waiting_bytes -= size_bytes
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Record the first failure and wake the threads that wait."""
        with self._changed:
            if self.failure is None:
                self.failure = error
            self._changed.notify_all()

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure


class LeaderFileWriter:
    """Writes the text files of one resource from chunks in order, and collects manifest entries.

    Call all methods from one thread. `parquet_files` are files that are already stored, by client_id, for the same
    entries. Leaving the context waits for all files; after an error, it stops before the next file.
    """

    def __init__(self, job: ExportJob, sink: FileSink, parquet_files: Mapping[str, StoredFormat] | None = None) -> None:
        resource = resource_named(job.resource)
        self._job = job
        self._texts = [text_format(resource, name) for name in job.formats if name != PARQUET]
        self._parquet_files = parquet_files or {}
        self._sink = sink
        self._codec = codec_named(job.compression)
        self._compressors = ThreadPoolExecutor(job.threads, thread_name_prefix="compress")
        # Two writers per format prevent a deadlock: a writer can wait for the reading thread, so a part of the Leader
        # being read needs another writer.
        self._writers = ThreadPoolExecutor(2 * len(self._texts), thread_name_prefix="write")
        self._backlog = _Backlog()
        self._record_lock = threading.Lock()
        self._finished: deque[ManifestEntry] = deque()
        self._deltas: deque[LeaderDelta] = deque()
        self._entry: _PendingEntry | None = None
        self._open: list[_OpenFile] = []
        self._rows = 0
        self._small_files: list[tuple[_PendingEntry, TextFormat, _Part]] = []
        self._small_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._backlog.fail(error)
            for file in self._open:
                if file.parts is not None:
                    file.parts.put(None)
            self._open = []
        self._compressors.shutdown(wait=True, cancel_futures=error is not None)
        self._writers.shutdown(wait=True, cancel_futures=error is not None)
        if error is None:
            self._backlog.raise_failure()

    def begin(self, leader: SurveyedLeader) -> None:
        """Open a Leader's files, after finishing those of the previous Leader."""
        self.finish()
        self._entry = _PendingEntry(leader)
        if leader.client_id in self._parquet_files:
            self._entry.formats[PARQUET] = self._parquet_files[leader.client_id]
        self._rows = 0
        self._open = [_OpenFile(format, _Part([format.head], [], len(format.head))) for format in self._texts]

    def add(self, chunk: LeaderChunk) -> None:
        """Append a chunk to the open Leader. Raises the failure of another thread."""
        self._backlog.raise_failure()
        self._rows += chunk.rows
        for file in self._open:
            body = file.format.body(chunk.lines[file.format.line_kind], first=not file.has_lines)
            file.has_lines = True
            self._append(file, body, chunk.owner)

    def finish(self) -> None:
        """Close the open Leader's files. Raises RunError when the number of rows differs from the survey's."""
        entry, self._entry = self._entry, None
        if entry is None:
            return
        if self._rows != entry.leader.rows:
            raise RunError(
                f"Leader {entry.leader.client_id} has {entry.leader.rows} rows in {self._job.resource}, but "
                f"{self._rows} were received: the stream ended early or the source changed."
            )
        for file in self._open:
            if file.format.tail:
                file.part.add(file.format.tail)
            if file.parts is None:
                self._add_small_file(entry, file.format, file.part)
            else:
                self._submit_part(file, file.part, last=True)
                file.parts.put(None)
        self._open = []

    def flush(self) -> None:
        """Submit the small files collected so far."""
        files, self._small_files, size_bytes, self._small_bytes = self._small_files, [], self._small_bytes, 0
        if files:
            self._backlog.add(size_bytes)
            self._compressors.submit(self._write_small, files, size_bytes)

    def finished_entries(self) -> list[ManifestEntry]:
        """Return the entries completed since the last call."""
        return _taken(self._finished)

    def finished_deltas(self) -> list[LeaderDelta]:
        """Return the deltas completed since the last call."""
        return _taken(self._deltas)

    # ------------------------------------------------------------ calling thread

    def _append(self, file: _OpenFile, body: Piece, owner: object) -> None:
        position = 0
        length = len(body)
        # `>` instead of `>=`, so that the last part is never empty.
        while file.part.size + length - position > PART_BYTES:
            end = position + PART_BYTES - file.part.size
            file.part.add(body[position:end], owner)
            self._submit_part(file, file.part, last=False)
            file.part = _Part([], [])
            position = end
        file.part.add(body[position:] if position else body, owner)

    def _submit_part(self, file: _OpenFile, part: _Part, *, last: bool) -> None:
        self._backlog.add(part.size)
        if file.parts is None:
            file.parts = queue.SimpleQueue()
            assert self._entry is not None
            self._writers.submit(self._write_large, self._entry, file.format, file.parts)
        file.parts.put((part, self._compressors.submit(self._compress, part, last=last)))

    def _add_small_file(self, entry: _PendingEntry, format: TextFormat, part: _Part) -> None:
        self._small_files.append((entry, format, part))
        self._small_bytes += part.size
        if self._small_bytes >= _TASK_BYTES or len(self._small_files) >= _TASK_FILES:
            self.flush()

    # ------------------------------------------------------------ other threads

    def _compress(self, part: _Part, *, last: bool) -> tuple[bytes, int]:
        content = part.content()
        return self._codec.part(content, last=last), crc32(content)

    def _write_small(self, files: list[tuple[_PendingEntry, TextFormat, _Part]], size_bytes: int) -> None:
        try:
            for entry, format, part in files:
                if self._backlog.failure is not None:
                    return
                content = part.content()
                written = self._sink.write(
                    entry.leader.client_id, self._job.resource, format.name, (self._codec.member(content),)
                )
                digest = hashlib.sha256(content).hexdigest()
                stored = StoredFormat(written.bytes, written.sha256, len(content), digest, written.key)
                with self._delta_writer(entry, format) as delta:
                    if delta is not None:
                        delta.feed(content)
                        self._record_delta(delta, entry, stored)
                self._record(entry, format.name, stored)
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
            self._backlog.fail(error)
        finally:
            self._backlog.remove(size_bytes)

    def _write_large(self, entry: _PendingEntry, format: TextFormat, parts: _Parts) -> None:
        digest = hashlib.sha256()
        length = 0
        delta: LeaderDeltaWriter | None

        def pieces() -> Iterator[bytes]:
            nonlocal length
            crc = 0
            yield HEADER
            while (item := parts.get()) is not None:
                part, compression = item
                compressed, part_crc = compression.result()
                for piece in part.pieces:
                    digest.update(piece)
                    if delta is not None:
                        delta.feed(piece)
                crc = isal_zlib.crc32_combine(crc, part_crc, part.size)
                length += part.size
                yield compressed
                size_bytes = part.size
                del item, part
                self._backlog.remove(size_bytes)
            self._backlog.raise_failure()
            yield trailer(crc, length)

        try:
            with self._delta_writer(entry, format) as delta:
                written = self._sink.write(entry.leader.client_id, self._job.resource, format.name, pieces())
                stored = StoredFormat(written.bytes, written.sha256, length, digest.hexdigest(), written.key)
                if delta is not None:
                    self._record_delta(delta, entry, stored)
            self._record(entry, format.name, stored)
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
            self._backlog.fail(error)

    def _delta_writer(
        self, entry: _PendingEntry, format: TextFormat
    ) -> LeaderDeltaWriter | nullcontext[LeaderDeltaWriter | None]:
        """Return the writer of the delta that is made along with a CSV file. Other files have none."""
        deltas = self._job.deltas
        base = None if deltas is None or format.name != "csv" else deltas.bases.get(entry.leader.client_id)
        if deltas is None or base is None:
            return nullcontext(None)
        return LeaderDeltaWriter(self._job, deltas, base, self._codec, self._sink)

    def _record_delta(self, delta: LeaderDeltaWriter, entry: _PendingEntry, stored: StoredFormat) -> None:
        made = delta.finish(entry.leader.client_id, entry.leader.rows, stored)
        if made is not None:
            self._deltas.append(made)

    def _record(self, entry: _PendingEntry, format: str, stored: StoredFormat) -> None:
        with self._record_lock:
            entry.formats[format] = stored
            if len(entry.formats) < len(self._job.formats):
                return
        in_order = {name: entry.formats[name] for name in self._job.formats}
        leader = entry.leader
        self._finished.append(
            ManifestEntry(leader.client_id, self._job.resource, leader.rows, leader.fingerprint, in_order)
        )


def _taken(completed: deque[T]) -> list[T]:
    """Remove and return all values."""
    values = []
    while completed:
        values.append(completed.popleft())
    return values
