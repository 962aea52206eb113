"""Delta files of one Leader: compression, and the decision whether they are stored."""

import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import IO

from daybreak.catalogue.formats import DEFAULT_FORMATS, delta_format
from daybreak.catalogue.resources import Resource
from daybreak.domain.delta import LARGER_THAN_FULL, LeaderDelta, ResourceDelta
from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.delta.apply import applied_digest
from daybreak.export.delta.change_files import write_changes
from daybreak.export.delta.delta_lines import delta_header
from daybreak.export.delta.highlights import with_highlights
from daybreak.export.delta.merge import DeltaFault, DeltaMerge, MergeEngine
from daybreak.export.gzip_member import HEADER, Codec, ContentTotals, GzipMember, decompressed
from daybreak.export.job import DeltaBase, DeltaJob
from daybreak.export.line_sql import csv_header
from daybreak.export.parquet_writer import PARQUET, ParquetWriter
from daybreak.export.text_formats import TextFormat, text_format
from daybreak.filestore.file_store import FileSink

_SPOOL_BYTES = 2 << 20
_READ_BYTES = 1 << 20


class _DeltaFile:
    """One delta file while its lines are being made. Parts before the last one are spooled, beyond 2 MiB in a temporary
    file. Most deltas have one part and need no spool.
    """

    def __init__(self, codec: Codec, format: TextFormat, temp_dir: str | None) -> None:
        self._format, self._temp_dir = format, temp_dir
        self._has_lines = False
        self._member = GzipMember(codec)
        self._spool: IO[bytes] | None = None
        self._unspooled = [HEADER]
        self._append(self._member.add(format.head))

    @property
    def totals(self) -> ContentTotals:
        """Figures of the content of the complete file."""
        return self._member.totals

    def add(self, lines: bytes) -> None:
        """Append lines."""
        self._append(self._member.add(self._format.body(memoryview(lines), first=not self._has_lines)))
        self._has_lines = True

    def end(self) -> int:
        """Complete the file. Return its size."""
        self._unspooled += self._member.end(self._format.end)
        spooled_bytes = 0 if self._spool is None else self._spool.tell()
        return spooled_bytes + sum(map(len, self._unspooled))

    def pieces(self) -> Iterator[bytes]:
        """Yield the compressed file."""
        if self._spool is not None:
            self._spool.seek(0)
            while piece := self._spool.read(_READ_BYTES):
                yield piece
        yield b"".join(self._unspooled)

    def content(self) -> Iterator[bytes]:
        """Yield the lines of the complete file."""
        whole = self._member.whole_content
        return decompressed(self.pieces()) if whole is None else iter([whole])

    def close(self) -> None:
        """Delete the temporary file."""
        if self._spool is not None:
            self._spool.close()

    def _append(self, parts: list[bytes]) -> None:
        if parts:
            if self._spool is None:
                self._spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=self._temp_dir)  # noqa: SIM115 - see `close`
            self._spool.writelines((*self._unspooled, *parts))
            self._unspooled = []


class DeltaFiles:
    """Opens the deltas of one resource. `without_rows` are shared files, none until a Leader needs them."""

    def __init__(
        self, resource: Resource, deltas: DeltaJob, codec: Codec, sink: FileSink, open_engine: Callable[[], MergeEngine]
    ) -> None:
        self.resource, self.deltas, self.codec, self.sink = resource, deltas, codec, sink
        self.open_engine, self.header = open_engine, csv_header(resource)
        csv, json = (text_format(resource, name) for name in DEFAULT_FORMATS)
        self.formats = (replace(csv, head=delta_header(resource)), json)
        self.without_rows: dict[str, StoredFormat] = {}

    def opener(self, client_id: str) -> "Callable[[], LeaderDeltaWriter] | None":
        """Return a function that opens the delta of a Leader, None if the Leader has no previous file."""
        base = self.deltas.bases.get(client_id)
        return None if base is None else partial(LeaderDeltaWriter, self, client_id, base)


class LeaderDeltaWriter:
    """Makes the delta of one Leader from the pieces of its new CSV file. Use it in one thread, and close it."""

    def __init__(self, shared: DeltaFiles, client_id: str, base: DeltaBase) -> None:
        self._shared, self._client_id, self._base = shared, client_id, base
        self._fault = ""
        self._files = {
            format.name: _DeltaFile(shared.codec, format, shared.deltas.temp_dir) for format in shared.formats
        }
        self._engine = shared.open_engine()
        self._merge = DeltaMerge(self._engine, shared.header, self._previous_content(), self._add_lines)

    def close(self) -> None:
        """Release memory and temporary files."""
        for file in self._files.values():
            file.close()
        self._engine.close()

    def feed(self, piece: bytes | memoryview) -> None:
        """Add a piece of the new CSV file. After a fault, do nothing."""
        if not self._fault:
            try:
                self._merge.feed(piece)
            except (DeltaFault, FileStoreError) as fault:
                self._fail(fault)

    def finish(self, rows: int, stored: StoredFormat) -> LeaderDelta | None:
        """Store the delta of a complete CSV file. Return None if no row changed."""
        if not self._fault:
            try:
                self._merge.finish()
                if self._engine.totals.rows_after != rows or self._engine.totals.rows_before != self._base.rows:
                    raise DeltaFault("verification_failed")
            except (DeltaFault, FileStoreError) as fault:
                self._fail(fault)
        totals, before = self._engine.totals, self._base.stored
        if before.content_sha256 == stored.content_sha256:
            return None
        constants = {} if self._fault else self._engine.constants()
        if not (self._fault or totals.inserted or totals.deleted or constants):
            self._fault = "verification_failed"
        formats: dict[str, StoredFormat] = {}
        if not self._fault:
            # Most deltas of tiny Leaders are too large: their JSON is not compressed.
            if 2 * self._files["csv"].end() > stored.bytes:
                self._fault = LARGER_THAN_FULL
            elif self._is_verified() and not self._yields(stored.content_sha256, constants):
                self._fault = "verification_failed"
            else:
                try:
                    formats = self._stored()
                except DeltaFault as fault:
                    self._fail(fault)
        has_counts = self._fault in {"", LARGER_THAN_FULL}
        delta = ResourceDelta(
            rows_before=self._base.rows,
            rows_after=rows,
            inserted=totals.inserted if has_counts else 0,
            deleted=totals.deleted if has_counts else 0,
            lines=totals.lines if formats else 0,
            content_sha256_before=before.content_sha256,
            content_sha256_after=stored.content_sha256,
            constants=constants,
            formats=formats,
            reason=self._fault,
        )
        if has_counts:
            delta = with_highlights(self._shared.resource, delta, totals.lines, self._files["csv"].content())
        return LeaderDelta(self._client_id, self._shared.resource.name, delta)

    def _stored(self) -> dict[str, StoredFormat]:
        """Store the files, of which the CSV file is complete. Return them by format."""
        self._files["json"].end()
        shared, lines = self._shared, self._engine.totals.lines
        if not lines:
            # Only constants changed. These files are the same for all Leaders.
            shared.without_rows.update(shared.without_rows or self._written(""))
            return dict(shared.without_rows)
        formats = self._written(self._client_id)
        if shared.deltas.parquet:
            csv, writer = self._files["csv"], ParquetWriter(shared.sink, shared.resource.name, shared.deltas.temp_dir)
            size = lines, csv.totals.length
            formats[PARQUET] = write_changes(writer, shared.resource, self._client_id, csv.content(), size)
        return formats

    def _written(self, client_id: str) -> dict[str, StoredFormat]:
        sink, resource = self._shared.sink, self._shared.resource.name
        return {
            name: file.totals.stored(sink.write(client_id, resource, delta_format(name).name, file.pieces()))
            for name, file in self._files.items()
        }

    def _previous_content(self) -> Iterator[bytes]:
        return decompressed(self._shared.sink.read(self._base.stored.key))

    def _add_lines(self, csv: bytes, json: bytes) -> None:
        self._files["csv"].add(csv)
        self._files["json"].add(json)

    def _fail(self, fault: DeltaFault | FileStoreError) -> None:
        match fault:
            case DeltaFault():
                self._fault = fault.reason
            case FileDamaged():
                self._fault = "previous_file_damaged"
            case _:
                self._fault = "previous_file_missing"

    def _is_verified(self) -> bool:
        deltas = self._shared.deltas
        draw = zlib.crc32(f"{deltas.seed} {self._client_id}".encode()) / 2**32
        return draw < deltas.verified_share

    def _yields(self, content_sha256: str, constants: dict[str, str | None]) -> bool:
        """Return whether the delta, applied to the previous file, yields the new one."""
        delta = decompressed(self._files["csv"].pieces())
        try:
            return applied_digest(self._shared.resource, self._previous_content(), delta, constants) == content_sha256
        except (FileStoreError, ValueError):
            return False
