"""Manifests and manifest lists: which data files a version of a table has.

Each data file has a manifest, with the publication that added it. Versions with the same file share it. The names of
the files contain all that their bytes depend on, so engines may cache them.

They are Avro object container files of one block, without compression
(https://avro.apache.org/docs/1.12.0/specification/). The libraries that write Iceberg's Avro files take a second to
import, and fifty times as long per table.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

import msgspec

from daybreak.catalogue.columns import Column, ColumnType, field_id
from daybreak.domain.snapshot import StoredFormat, StoredPart
from daybreak.export.thrift import integer

TYPES: dict[ColumnType, str] = {
    ColumnType.UUID: "string",
    ColumnType.TEXT: "string",
    ColumnType.BIGINT: "long",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
    ColumnType.TIMESTAMP: "timestamptz",
}
_ADDED = 1


def container(schema: Any, records: Sequence[bytes], metadata: Mapping[str, str]) -> bytes:
    """Return a file with encoded records. The same arguments produce the same bytes."""
    entries = {"avro.schema": msgspec.json.encode(schema).decode(), "avro.codec": "null", **metadata}
    pairs = b"".join(text(name) + text(value) for name, value in entries.items())
    head = b"Obj\x01" + integer(len(entries)) + pairs + integer(0)
    body = b"".join(records)
    # Any 16 bytes separate the blocks.
    sync = hashlib.sha256(head + body).digest()[:16]
    block = integer(len(records)) + integer(len(body)) + body + sync if records else b""
    return head + sync + block


def text(value: str) -> bytes:
    content = value.encode()
    return integer(len(content)) + content


def optional(value: bytes | None) -> bytes:
    """Return a value of the union of null and a type."""
    return integer(0) if value is None else integer(1) + value


def array(items: Sequence[bytes]) -> bytes:
    return integer(len(items)) + b"".join(items) + integer(0) if items else integer(0)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table, or a part of it. `since` is the publication that added it."""

    stored: StoredFormat
    null_counts: tuple[int, ...]
    rows: int
    columns: tuple[Column, ...]
    since: int
    part: StoredPart | None = None

    @property
    def content(self) -> StoredFormat | StoredPart:
        """What clients receive: the part, or the whole file."""
        return self.part or self.stored

    @property
    def name(self) -> str:
        """The name below the location of the table."""
        return f"data/{self.content.sha256}.parquet"

    @property
    def manifest_name(self) -> str:
        """The name of its manifest below the location of the table."""
        return f"metadata/{self.since}-{self.content.sha256}.avro"


@lru_cache(256)  # for columns of kept versions, which few runs change
def schema_of(columns: tuple[Column, ...], *, described: bool) -> Mapping[str, Any]:
    """Return the schema of columns. Its id depends on names and types alone. All columns of the files are nullable."""
    fields = [
        {"id": field_id(column.name), "name": column.name, "required": False, "type": TYPES[column.type]}
        for column in columns
    ]
    schema_id = crc32(msgspec.json.encode(fields)) % (2**30 - 1) + 1
    if described:
        fields = [{**field, "doc": column.description} for field, column in zip(fields, columns, strict=True)]
    return {"type": "struct", "schema-id": schema_id, "fields": fields}


@lru_cache(1024)
def manifest(location: str, file: DataFile) -> bytes:
    """Return the manifest of a data file of the table at a location."""
    schema = schema_of(file.columns, described=False)
    nulls = zip(file.columns, file.null_counts, strict=True)
    data = (
        integer(0)
        + text(f"{location}/{file.name}")
        + text("PARQUET")
        + integer(file.rows)
        + integer(file.content.bytes)
        + optional(array([integer(field_id(column.name)) + integer(file.rows) for column in file.columns]))
        + optional(array([integer(field_id(column.name)) + integer(count) for column, count in nulls]))
    )
    since = optional(integer(file.since))
    metadata = {
        "schema": msgspec.json.encode(schema).decode(),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    return container(_MANIFEST_ENTRY, [integer(_ADDED) + since + since + since + data], metadata)


def manifest_list_name(version: int, files: Sequence[DataFile]) -> str:
    """Return the name of the manifest list of a version below the location of the table."""
    names = [f"{file.since}-{file.content.sha256}" for file in files]
    content = names[0] if len(names) == 1 else hashlib.sha256("-".join(names).encode()).hexdigest() if names else ""
    return f"metadata/snap-{version}-{content or 'empty'}.avro"


def manifest_list(location: str, version: int, files: Sequence[DataFile]) -> bytes:
    """Return the manifest list of a version. Files without rows are in none."""
    metadata = {"snapshot-id": str(version), "sequence-number": str(version), "format-version": "2"}
    return container(_MANIFEST_FILE, [_manifest_file(location, file) for file in files], metadata)


def _manifest_file(location: str, file: DataFile) -> bytes:
    return (
        text(f"{location}/{file.manifest_name}")
        + integer(len(manifest(location, file)))
        # Partition spec, content, sequence numbers and snapshot.
        + integer(0)
        + integer(0)
        + integer(file.since) * 3
        # Added, existing and deleted: files, then rows.
        + integer(1)
        + integer(0) * 2
        + integer(file.rows)
        + integer(0) * 2
    )


def _field(name: str, number: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _optional(name: str, number: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _counts(key: int) -> dict[str, Any]:
    record = _record(f"k{key}_v{key + 1}", _field("key", key, "int"), _field("value", key + 1, "long"))
    return {"type": "array", "items": record, "logicalType": "map"}


_DATA_FILE = _record(
    "r2",
    _field("content", 134, "int"),
    _field("file_path", 100, "string"),
    _field("file_format", 101, "string"),
    _field("partition", 102, _record("r102")),
    _field("record_count", 103, "long"),
    _field("file_size_in_bytes", 104, "long"),
    _optional("value_counts", 109, _counts(119)),
    _optional("null_value_counts", 110, _counts(121)),
)
_MANIFEST_ENTRY = _record(
    "manifest_entry",
    _field("status", 0, "int"),
    _optional("snapshot_id", 1, "long"),
    _optional("sequence_number", 3, "long"),
    _optional("file_sequence_number", 4, "long"),
    _field("data_file", 2, _DATA_FILE),
)
_MANIFEST_FILE = _record(
    "manifest_file",
    _field("manifest_path", 500, "string"),
    _field("manifest_length", 501, "long"),
    _field("partition_spec_id", 502, "int"),
    _field("content", 517, "int"),
    _field("sequence_number", 515, "long"),
    _field("min_sequence_number", 516, "long"),
    _field("added_snapshot_id", 503, "long"),
    _field("added_files_count", 504, "int"),
    _field("existing_files_count", 505, "int"),
    _field("deleted_files_count", 506, "int"),
    _field("added_rows_count", 512, "long"),
    _field("existing_rows_count", 513, "long"),
    _field("deleted_rows_count", 514, "long"),
)
