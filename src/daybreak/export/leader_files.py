"""Text files from Leaders' lines: parts, compression, digests, writing to the sink, and manifest entries.

A writer normally works in one thread, while the lines are in the processor's cache. For Leaders that are larger than a
bucket it streams instead: parts are compressed in parallel, and one thread per file passes them to the sink in order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from queue import Queue
from types import TracebackType

from daybreak.catalogue.resources import resource_named
from daybreak.domain.delta import LeaderDelta
from daybreak.domain.errors import RunError
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.export.delta.delta_batch import SMALL_BYTES, DeltaBatch, SmallFile
from daybreak.export.delta.delta_files import DeltaFiles, LeaderDeltaWriter
from daybreak.export.delta.kernel.kernel import merge_engines
from daybreak.export.delta.merge import MergeEngine
from daybreak.export.gzip_member import CODECS, HEADER, PART_BYTES, Codec, ContentTotals
from daybreak.export.job import ExportJob
from daybreak.export.leader_chunks import LeaderChunk
from daybreak.export.memory import MemoryPool, copy
from daybreak.export.parquet_writer import PARQUET
from daybreak.export.survey import SurveyedLeader
from daybreak.export.text_formats import Piece, TextFormat, text_format
from daybreak.filestore.file_store import FileSink, WrittenFile
from daybreak.filestore.part_queue import pass_on

_WAITING_PARTS = 4
"""Parts of a streamed file that wait for compression or for the sink."""
_WAITING_LEADERS = 32

_part_memory = MemoryPool(PART_BYTES)


class _File:
    """A file of a Leader whose lines are being added. `write` stores its pieces, and `open_delta` opens the delta of
    its content, which is in `delta` at the end. The delta of a small file remains to be made from `small_file`.
    """

    def __init__(
        self,
        leader: SurveyedLeader,
        format: TextFormat,
        codec: Codec,
        write: Callable[[Iterable[bytes]], WrittenFile],
        open_delta: Callable[[], LeaderDeltaWriter] | None = None,
    ) -> None:
        self._leader, self._format, self._codec, self._write = leader, format, codec, write
        self._open_delta = open_delta
        self._delta_writer: LeaderDeltaWriter | None = None
        self._small_content = b""
        self.delta: LeaderDelta | None = None
        self.small_file: SmallFile | None = None
        self._part, self._size = _part_memory.take(), 0
        self._has_lines = False
        self._totals = ContentTotals()
        self._compressed = [HEADER]
        self._append(format.head)

    def add(self, lines: Mapping[str, memoryview]) -> None:
        """Add lines. Those of a streamed file must stay valid until it is stored."""
        self._append(self._format.body(lines[self._format.line_kind], first=not self._has_lines))
        self._has_lines = True

    def close(self) -> Callable[[], StoredFormat]:
        """End the file. Return a function that returns the stored file, after waiting for it."""
        self._append(self._format.end)
        self._add_part(self._part[: self._size], self._part, last=True)
        return self._store()

    def abort(self) -> None:
        """Stop without storing a file."""
        self._close_delta()

    def _close_delta(self) -> None:
        if self._delta_writer is not None:
            self._delta_writer.close()

    def _append(self, piece: Piece) -> None:
        # A full part waits until more follows, so that the last part is never empty.
        while self._size + len(piece) > PART_BYTES:
            free = PART_BYTES - self._size
            if self._size:
                copy(self._part[self._size : PART_BYTES], piece[:free])
                self._add_part(self._part[:PART_BYTES], self._part, last=False)
                self._part, self._size = _part_memory.take(), 0
            else:
                self._add_part(piece[:free], last=False)
            piece = piece[free:]
        end = self._size + len(piece)
        copy(self._part[self._size : end], piece)
        self._size = end

    def _add_part(self, content: Piece, memory: memoryview | None = None, *, last: bool) -> None:
        """Add a part, and release its memory afterwards."""
        compressed, crc = self._codec.part(content, last=last)
        self._compressed += compressed
        self._read(content, memory, crc)

    def _read(self, content: Piece, memory: memoryview | None, crc: int) -> None:
        """Add a part to the totals and the delta, and release its memory."""
        self._totals.add(content, crc)
        if self._open_delta is not None:
            # All parts but the last one are full.
            if self._delta_writer is None and len(content) < SMALL_BYTES:
                self._small_content = bytes(content)
            else:
                self._delta_writer = self._delta_writer or self._open_delta()
                self._delta_writer.feed(content)
        if memory is not None:
            _part_memory.give_back(memory)

    def _store(self) -> Callable[[], StoredFormat]:
        pieces = [*self._compressed, self._totals.trailer]
        # A file of one part is written with one system call.
        return partial(self._stored, pieces if self._totals.length > PART_BYTES else [b"".join(pieces)])

    def _stored(self, pieces: Iterable[bytes]) -> StoredFormat:
        try:
            stored = self._totals.stored(self._write(pieces))
            if self._delta_writer is not None:
                self.delta = self._delta_writer.finish(self._leader.rows, stored)
            elif self._open_delta is not None:
                self.small_file = SmallFile(self._open_delta, self._leader.rows, self._small_content, stored)
        finally:
            self._close_delta()
        return stored


_CompressedPart = tuple[Piece, memoryview | None, Future[tuple[tuple[bytes, bytes, bytes], int]]]


class _StreamedFile(_File):
    """A file whose parts are compressed by one executor and stored by another, in which every open file needs a
    thread.
    """

    def __init__(
        self,
        leader: SurveyedLeader,
        format: TextFormat,
        codec: Codec,
        write: Callable[[Iterable[bytes]], WrittenFile],
        open_delta: Callable[[], LeaderDeltaWriter] | None,
        *,
        compressors: Executor,
        writers: Executor,
    ) -> None:
        super().__init__(leader, format, codec, write, open_delta)
        self._compressors = compressors
        self._parts: Queue[_CompressedPart | None] = Queue(_WAITING_PARTS)
        self._is_complete = False
        self._storing = writers.submit(self._stored, self._pieces_in_order())

    def abort(self) -> None:
        pass_on(self._parts, None, self._storing)

    def _add_part(self, content: Piece, memory: memoryview | None = None, *, last: bool) -> None:
        if self._storing.done():
            self._storing.result()
        compression = self._compressors.submit(self._codec.part, content, last=last)
        pass_on(self._parts, (content, memory, compression), self._storing)

    def _store(self) -> Callable[[], StoredFormat]:
        self._is_complete = True
        pass_on(self._parts, None, self._storing)
        return self._storing.result

    def _pieces_in_order(self) -> Iterator[bytes]:
        yield HEADER
        while (part := self._parts.get()) is not None:
            content, memory, compression = part
            compressed, crc = compression.result()
            self._read(content, memory, crc)
            yield from compressed
        if not self._is_complete:
            raise RunError("The export was stopped.")
        yield self._totals.trailer


class LeaderFileWriter(AbstractContextManager["LeaderFileWriter"]):
    """Writes the text files of one resource from chunks in order, and collects manifest entries.

    Call all methods from one thread. `parquet_files` are files that are already stored, by client_id, for the same
    entries. With `compressors`, files are streamed, and all lines must stay valid. `open_merge` opens engines for
    deltas, by default own ones. Writers with the same `turn` make the deltas of small files in turns. Leaving the
    context waits for all files.
    """

    def __init__(
        self,
        job: ExportJob,
        sink: FileSink,
        parquet_files: Mapping[str, StoredFormat] | None = None,
        compressors: Executor | None = None,
        open_merge: Callable[[], MergeEngine] | None = None,
        turn: AbstractContextManager[object] | None = None,
    ) -> None:
        resource = resource_named(job.resource)
        self._job, self._sink, self._compressors = job, sink, compressors
        self._texts = [text_format(resource, name) for name in job.formats if name != PARQUET]
        self._parquet_files = parquet_files or {}
        self._codec = CODECS[job.compression]
        self._writers = ThreadPoolExecutor(len(self._texts), thread_name_prefix="write")
        self._leader: SurveyedLeader | None = None
        self._open: list[_File] = []
        self._rows = 0
        self._closed: deque[tuple[SurveyedLeader, list[tuple[_File, Callable[[], StoredFormat]]]]] = deque()
        self._entries: list[ManifestEntry] = []
        self._deltas: list[LeaderDelta] = []
        self._batch = DeltaBatch(turn or nullcontext())
        self._delta_files = job.deltas and DeltaFiles(
            resource, job.deltas, self._codec, sink, open_merge or merge_engines(resource)
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._wait(0)
            self._deltas += self._batch.make()
        for file in self._open:
            file.abort()
        self._writers.shutdown(cancel_futures=True)

    def begin(self, leader: SurveyedLeader) -> None:
        """Open a Leader's files, after finishing those of the previous Leader."""
        self.finish()
        self._leader, self._rows = leader, 0
        self._open = [self._open_file(leader, text) for text in self._texts]

    def add(self, chunk: LeaderChunk) -> None:
        """Append a chunk to the open Leader. Lines of streamed files must stay valid."""
        self._rows += chunk.rows
        for file in self._open:
            file.add(chunk.lines)

    def finish(self) -> None:
        """Close the open Leader's files. Raises RunError when the number of rows differs from the survey's."""
        leader, self._leader = self._leader, None
        if leader is None:
            return
        if self._rows != leader.rows:
            raise RunError(
                f"Leader {leader.client_id} has {leader.rows} rows in {self._job.resource}, but {self._rows} were "
                "received: the stream ended early or the source changed."
            )
        self._closed.append((leader, [(file, file.close()) for file in self._open]))
        self._open = []
        if self._compressors or self._sink.packs:
            self.store()

    def store(self) -> None:
        """Store the closed files that are not stored yet. Of streamed files, wait for all but a limited number."""
        self._wait(_WAITING_LEADERS if self._compressors else 0)

    def finished(self) -> tuple[list[ManifestEntry], list[LeaderDelta]]:
        """Return the entries and the deltas completed since the last call."""
        entries, deltas, self._entries, self._deltas = self._entries, self._deltas, [], []
        return entries, deltas

    def _open_file(self, leader: SurveyedLeader, format: TextFormat) -> _File:
        write = partial(self._sink.write, leader.client_id, self._job.resource, format.name)
        delta = self._delta_files.opener(leader.client_id) if self._delta_files and format.name == "csv" else None
        if self._compressors is None:
            return _File(leader, format, self._codec, write, delta)
        return _StreamedFile(
            leader, format, self._codec, write, delta, compressors=self._compressors, writers=self._writers
        )

    def _wait(self, waiting_leaders: int) -> None:
        """Wait for files until those of at most `waiting_leaders` are not stored."""
        while len(self._closed) > waiting_leaders:
            leader, closed = self._closed.popleft()
            stored = {text.name: wait() for text, (_, wait) in zip(self._texts, closed, strict=True)}
            for file, _ in closed:
                if file.delta is not None:
                    self._deltas.append(file.delta)
                if file.small_file is not None:
                    self._batch.add(file.small_file)
            if self._batch.is_full:
                self._deltas += self._batch.make()
            if leader.client_id in self._parquet_files:
                stored[PARQUET] = self._parquet_files[leader.client_id]
            formats = {name: stored[name] for name in self._job.formats}
            entry = ManifestEntry(leader.client_id, self._job.resource, leader.rows, leader.fingerprint, formats)
            self._entries.append(entry)
