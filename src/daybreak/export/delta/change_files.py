"""Changes of one Leader as a Parquet file: the rows of a delta, with `_change_type` as the last column.

The rows come from the delta's CSV file, so that both have the same. A `delete` row has values in the key columns only.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice

from arro3.core import Array, DataType, Field, RecordBatch, Schema

from daybreak.catalogue.columns import TEXTS, ColumnType
from daybreak.catalogue.formats import delta_format
from daybreak.catalogue.resources import Resource
from daybreak.domain.delta import CHANGE_TYPE
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.delta.csv_rows import csv_rows, split_cells
from daybreak.export.delta.merge import DeltaFault
from daybreak.export.parquet_writer import PARQUET, FileRows, ParquetWriter

_CHANGES = {b'"I"': "insert", b'"D"': "delete"}
_TYPES = {
    ColumnType.UUID: DataType.utf8(),
    ColumnType.TEXT: DataType.utf8(),
    ColumnType.BIGINT: DataType.int64(),
    ColumnType.BOOLEAN: DataType.bool(),
    ColumnType.DATE: DataType.date32(),
    ColumnType.TIMESTAMP: DataType.timestamp("us", tz="UTC"),
}
# Converted at the same time: at most this many rows, and fewer of wide ones.
_MAX_ROWS_AT_ONCE = 20_000
_MIN_ROWS_AT_ONCE = 1_024
_BYTES_AT_ONCE = 8 << 20


def write_changes(
    writer: ParquetWriter, resource: Resource, client_id: str, delta: Iterator[bytes], size: tuple[int, int]
) -> StoredFormat:
    """Write the changes of a decompressed CSV delta. `size` is its number of rows, and of bytes.

    Raises DeltaFault if it has other rows, FileStoreError, Unavailable.
    """
    rows, size_bytes = size
    rows_at_once = min(_MAX_ROWS_AT_ONCE, max(_MIN_ROWS_AT_ONCE, _BYTES_AT_ONCE // (size_bytes // rows + 1)))
    schema = Schema(
        [
            *(Field(column.name, _TYPES[column.type], nullable=True) for column in resource.columns),
            Field(CHANGE_TYPE, DataType.utf8(), nullable=True),
        ]
    )
    found = 0

    def batches() -> Iterator[RecordBatch]:
        nonlocal found
        lines = csv_rows(delta)
        next(lines)  # the header
        while part := list(islice(lines, rows_at_once)):
            found += len(part)
            yield RecordBatch.from_arrays(_arrays(resource, part), schema=schema)

    content = FileRows(schema, batches(), rows, rows_at_once, _pandas_metadata(resource))
    stored = writer.write(client_id, delta_format(PARQUET).name, content)
    if found != rows:
        raise DeltaFault("verification_failed")
    return stored


def _pandas_metadata(resource: Resource) -> dict[str, str]:
    """Return the entry of the footer by which pandas reads whole numbers with NULL as integers.

    Otherwise they become floats, which are exact up to 2^53. Other readers ignore it.
    """
    columns = [
        {
            "name": column.name,
            "field_name": column.name,
            "pandas_type": "int64",
            "numpy_type": "Int64",
            "metadata": None,
        }
        for column in resource.columns
        if column.type is ColumnType.BIGINT
    ]
    return {"pandas": json.dumps({"index_columns": [], "column_indexes": [], "columns": columns})}


def _arrays(resource: Resource, lines: Sequence[bytes]) -> list[Array]:
    """Return the columns of lines of a delta, and the kind of each change as the last one."""
    width = len(resource.columns) + 1
    operations, *columns = zip(*(_cells(line, width) for line in lines), strict=True)
    arrays = [_array(column.type, cells) for column, cells in zip(resource.columns, columns, strict=True)]
    return [*arrays, Array([_CHANGES[operation] for operation in operations], DataType.utf8())]


def _cells(line: bytes, width: int) -> list[bytes]:
    cells = line[:-1].split(b",")
    # More parts than columns: a text has a comma.
    return cells if len(cells) == width else split_cells(line[:-1])


def _array(type_: ColumnType, cells: Sequence[bytes]) -> Array:
    """Return the values of cells. An empty cell is NULL."""
    texts = [cell.decode() if cell else None for cell in cells]
    if type_ in TEXTS:
        return Array([text and text[1:-1].replace('""', '"') for text in texts], DataType.utf8())
    return Array(texts, DataType.utf8()).cast(_TYPES[type_])
