"""Runs of lines become finished files: compressed by threads, handed to the sink, recorded.

Most Leaders are small, so their files are made many to a task, each in one go. A file longer than
one part is streamed: parts are compressed side by side while a thread of its own hands them to
the sink in order. What waits to be compressed or written is bounded, so a Leader of any size
takes the same memory.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from isal import isal_zlib

from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.content import Piece, TextFormat
from daybreak.export.gzip_member import HEADER, PART_BYTES, Codec, crc32, trailer
from daybreak.export.splitting import Run
from daybreak.export.survey import LeaderRows
from daybreak.ports.files import FileSink

_TASK_BYTES = 512 << 10
_TASK_FILES = 64
_WAITING_BYTES = 24 << 20


@dataclass(slots=True)
class _Entry:
    """A manifest entry in the making; complete when every format is there."""

    leader: LeaderRows
    formats: dict[str, StoredFormat] = field(default_factory=dict)


@dataclass(slots=True)
class _Part:
    """Content of one part (or of a whole small file) and the buffers it lies in."""

    pieces: list[Piece]
    owners: list[object]
    size: int = 0

    def joined(self) -> Piece:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


@dataclass(slots=True)
class _OpenFile:
    """One file whose Leader is still being read."""

    format: TextFormat
    part: _Part
    parts: queue.SimpleQueue[tuple[_Part, Future[tuple[bytes, int]]] | None] | None = None
    started: bool = False


class FileMaking:
    """Takes runs in order, gives manifest entries. One per resource; `add` from one thread only.

    `texts` are made here; `others` are the files of further formats, by client_id and format, which
    entries name too. Leaving the context waits for all that is in flight; on an error it stops at the next chance.
    """

    def __init__(
        self,
        resource: str,
        formats: Sequence[str],
        texts: Sequence[TextFormat],
        sink: FileSink,
        codec: Codec,
        *,
        others: Mapping[str, Mapping[str, StoredFormat]],
        threads: int,
    ) -> None:
        self._resource = resource
        self._formats = tuple(formats)
        self._texts = tuple(texts)
        self._others = others
        self._sink = sink
        self._codec = codec
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="encode")
        # Parts of the Leader being read must never wait for a writer that waits for the reader:
        # with two writers for each format there is always one free for it.
        self._writers = ThreadPoolExecutor(2 * len(texts), thread_name_prefix="write")
        self._room = threading.Condition()
        self._waiting_bytes = 0
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._done: deque[ManifestEntry] = deque()
        self._open: list[_OpenFile] = []
        self._entry: _Entry | None = None
        self._rows = 0
        self._batch: list[tuple[_Entry, TextFormat, _Part]] = []
        self._batch_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._fail(error)
            for file in self._open:
                if file.parts is not None:
                    file.parts.put(None)
            self._open = []
        self._pool.shutdown(wait=True, cancel_futures=error is not None)
        self._writers.shutdown(wait=True, cancel_futures=error is not None)
        if error is None:
            self._raise_failure()

    def begin(self, leader: LeaderRows) -> None:
        """Opens a Leader's files; the one before is finished."""
        self.finish()
        self._entry = _Entry(leader, dict(self._others.get(leader.client_id, {})))
        self._rows = 0
        self._open = [_OpenFile(format, _Part([format.head], [], len(format.head))) for format in self._texts]

    def add(self, run: Run) -> None:
        """Appends a run to the open Leader. Raises whatever a thread has failed with."""
        self._raise_failure()
        self._rows += run.rows
        for file in self._open:
            body = file.format.body(run.lines[file.format.line], first=not file.started)
            file.started = True
            self._append(file, body, run.owner)

    def finish(self) -> None:
        """Closes the open Leader's files. Raises RunError when rows are missing or too many."""
        entry, self._entry = self._entry, None
        if entry is None:
            return
        if self._rows != entry.leader.rows:
            raise RunError(
                f"Leader {entry.leader.client_id} has {entry.leader.rows} rows in "
                f"{self._resource}, but {self._rows} came: the stream was cut or the source changed."
            )
        for file in self._open:
            if file.format.tail:
                file.part.pieces.append(file.format.tail)
                file.part.size += len(file.format.tail)
            if file.parts is None:
                self._collect(entry, file.format, file.part)
            else:
                self._submit_part(file, file.part, last=True)
                file.parts.put(None)
        self._open = []

    def flush(self) -> None:
        """Sends what is collected on its way."""
        batch, self._batch, size, self._batch_bytes = self._batch, [], self._batch_bytes, 0
        if batch:
            self._take_room(size)
            self._pool.submit(self._make_small, batch, size)

    def finished(self) -> list[ManifestEntry]:
        """Entries that are complete since the last call."""
        entries = []
        while self._done:
            entries.append(self._done.popleft())
        return entries

    # --- the reading thread ---

    def _append(self, file: _OpenFile, body: Piece, owner: object) -> None:
        part = file.part
        position = 0
        length = len(body)
        # Strictly more: the last part is never empty, whatever the content's length.
        while part.size + length - position > PART_BYTES:
            take = PART_BYTES - part.size
            part.pieces.append(body[position : position + take])
            part.owners.append(owner)
            part.size = PART_BYTES
            position += take
            self._submit_part(file, part, last=False)
            part = file.part = _Part([], [])
        part.pieces.append(body[position:] if position else body)
        part.owners.append(owner)
        part.size += length - position

    def _submit_part(self, file: _OpenFile, part: _Part, *, last: bool) -> None:
        self._take_room(part.size)
        if file.parts is None:
            file.parts = queue.SimpleQueue()
            assert self._entry is not None
            self._writers.submit(self._write_large, self._entry, file.format, file.parts)
        file.parts.put((part, self._pool.submit(self._compress, part, last=last)))

    def _collect(self, entry: _Entry, format: TextFormat, part: _Part) -> None:
        self._batch.append((entry, format, part))
        self._batch_bytes += part.size
        if self._batch_bytes >= _TASK_BYTES or len(self._batch) >= _TASK_FILES:
            self.flush()

    def _take_room(self, size: int) -> None:
        with self._room:
            while self._waiting_bytes and self._waiting_bytes + size > _WAITING_BYTES:
                if self._failure is not None:
                    break
                self._room.wait()
            self._waiting_bytes += size
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- the other threads ---

    def _give_room(self, size: int) -> None:
        with self._room:
            self._waiting_bytes -= size
            self._room.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._room:
            if self._failure is None:
                self._failure = error
            self._room.notify_all()

    def _make_small(self, batch: list[tuple[_Entry, TextFormat, _Part]], size: int) -> None:
        try:
            for entry, format, part in batch:
                if self._failure is not None:
                    return
                content = part.joined()
                written = self._sink.write(
                    entry.leader.client_id,
                    self._resource,
                    format.name,
                    (self._codec.member(content),),
                )
                digest = hashlib.sha256(content).hexdigest()
                self._record(
                    entry,
                    format.name,
                    StoredFormat(written.bytes, written.sha256, len(content), digest, written.key),
                )
        except BaseException as error:  # noqa: BLE001 - handed to the reading thread, which raises it
            self._fail(error)
        finally:
            self._give_room(size)

    def _compress(self, part: _Part, *, last: bool) -> tuple[bytes, int]:
        content = part.joined()
        return self._codec.part(content, last=last), crc32(content)

    def _write_large(
        self,
        entry: _Entry,
        format: TextFormat,
        parts: queue.SimpleQueue[tuple[_Part, Future[tuple[bytes, int]]] | None],
    ) -> None:
        digest = hashlib.sha256()
        length = 0

        def pieces() -> Iterator[bytes]:
            nonlocal length
            crc = 0
            yield HEADER
            while (item := parts.get()) is not None:
                part, compressing = item
                compressed, part_crc = compressing.result()
                for piece in part.pieces:
                    digest.update(piece)
                crc = isal_zlib.crc32_combine(crc, part_crc, part.size)
                length += part.size
                yield compressed
                size = part.size
                del item, part
                self._give_room(size)
            self._raise_failure()
            yield trailer(crc, length)

        try:
            written = self._sink.write(entry.leader.client_id, self._resource, format.name, pieces())
            self._record(
                entry,
                format.name,
                StoredFormat(written.bytes, written.sha256, length, digest.hexdigest(), written.key),
            )
        except BaseException as error:  # noqa: BLE001 - handed to the reading thread, which raises it
            self._fail(error)

    def _record(self, entry: _Entry, format: str, stored: StoredFormat) -> None:
        with self._lock:
            entry.formats[format] = stored
            if len(entry.formats) < len(self._formats):
                return
        in_order = {name: entry.formats[name] for name in self._formats}
        leader = entry.leader
        self._done.append(ManifestEntry(leader.client_id, self._resource, leader.rows, leader.fingerprint, in_order))
