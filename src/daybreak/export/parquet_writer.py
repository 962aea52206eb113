"""Parquet files in the sink: layout, compression and digests. The same batches produce the same bytes."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from arro3.core import RecordBatch, RecordBatchReader, Schema
from arro3.io import write_parquet

from daybreak.catalogue.columns import field_id
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.parquet_parts import add_parts
from daybreak.filestore.file_store import FileSink

PARQUET = "parquet"
PARQUET_VERSION = 3
"""Part of the fingerprint. Changes when the same rows produce other bytes."""

_PIECE_BYTES = 1 << 20
_PAGE_ROWS = 20_000
# Smaller files are written with Snappy and without dictionaries: preparing zstd for each column takes longer than
# compressing the rows.
_SMALL_ROWS = 500
# Larger files are collected on disk before they are stored.
_MEMORY_BYTES = 16 << 20
_CREATED_BY = f"daybreak parquet {PARQUET_VERSION}"


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of one file. Pages also end where a batch ends. `row_group_rows` is the size of row groups.

    `metadata` are entries of the footer.
    """

    schema: Schema
    batches: Iterator[RecordBatch]
    rows: int
    row_group_rows: int
    metadata: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ParquetWriter:
    """Writes files of one resource. Large ones are collected in `temp_folder`, None for the machine's default."""

    sink: FileSink
    resource: str
    temp_folder: str | None

    def write(self, client_id: str, format: str, content: FileRows) -> StoredFormat:
        """Write one file. Raises FileStoreError, Unavailable."""
        small = content.rows <= _SMALL_ROWS
        # https://arrow.apache.org/docs/cpp/parquet.html
        fields = map(content.schema.field, content.schema.names)
        schema = Schema([field.with_metadata({"PARQUET:field_id": str(field_id(field.name))}) for field in fields])
        with tempfile.SpooledTemporaryFile(_MEMORY_BYTES, dir=self.temp_folder) as file:
            write_parquet(
                RecordBatchReader.from_batches(schema, content.batches),
                file,
                compression="snappy" if small else "zstd(1)",
                dictionary_enabled=not small,
                max_row_group_size=content.row_group_rows,
                data_page_row_count_limit=_PAGE_ROWS,
                skip_arrow_metadata=True,
                key_value_metadata=content.metadata,
                created_by=_CREATED_BY,
            )
            parts = add_parts(file) if format == PARQUET else ()
            file.seek(0)
            pieces = iter(partial(file.read, _PIECE_BYTES), b"")
            written = self.sink.write(client_id, self.resource, format, pieces)
        size, digest = written.bytes, written.sha256
        return StoredFormat(size, digest, size, digest, written.key, parts=parts)
