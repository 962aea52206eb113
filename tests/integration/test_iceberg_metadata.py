"""Metadata of Iceberg tables, read by pyiceberg and fastavro."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from daybreak.catalogue.columns import field_id
from daybreak.catalogue.resources import resource_named
from daybreak.domain.delta import Publication
from daybreak.domain.snapshot import StoredFormat
from daybreak.export.thrift import integer
from daybreak.iceberg.manifests import DataFile
from daybreak.iceberg.metadata import KeptVersion, Table, metadata

CLIENT_ID = "0b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11"
COLUMNS = resource_named("members").columns
FIRST = datetime(2026, 11, 20, 4, tzinfo=UTC)


def kept(version: int, *files: DataFile, columns: int = len(COLUMNS)) -> KeptVersion:
    published_at = FIRST + timedelta(days=version)
    return KeptVersion(Publication(f"s{version}", version, published_at, published_at), COLUMNS[:columns], files)


def data_file(digit: str, since: int, columns: int = len(COLUMNS)) -> DataFile:
    stored = StoredFormat(70_000, digit * 64, 70_000, digit * 64, "key")
    return DataFile(stored, tuple(range(columns)), 300, COLUMNS[:columns], since)


# The first version had one column less, the second one reuses the file of a version that is not kept.
OLD, SAME, NEW = data_file("a", 1, len(COLUMNS) - 1), data_file("b", 2), data_file("c", 6)
TABLE = Table(
    CLIENT_ID,
    "members",
    (kept(1, OLD, columns=len(COLUMNS) - 1), kept(4, SAME), kept(5, SAME), kept(6, NEW), kept(7)),
)


def described(table: Table, prefix: str = "") -> dict[str, bytes]:
    return {name: content for name, _, content in table.described(prefix)}


def content_of(url: str) -> bytes:
    name = url.removeprefix(f"{TABLE.location}/")
    return described(TABLE, name)[name]


def records(url: str) -> list[dict[str, Any]]:
    return [record for record in fastavro.reader(io.BytesIO(content_of(url))) if isinstance(record, dict)]


def read_metadata(version: int) -> TableMetadata:
    name = next(each.metadata_name for each in TABLE.versions if each.version == version)
    return TableMetadataUtil.parse_raw(described(TABLE, name)[name].decode())


def test_each_version_has_the_file_and_the_publication_that_added_it() -> None:
    found = {}
    for snapshot in read_metadata(7).snapshots:
        assert snapshot.sequence_number == snapshot.snapshot_id
        for listed in records(snapshot.manifest_list):
            (entry,) = records(listed["manifest_path"])
            data = entry["data_file"]
            assert listed["manifest_length"] == len(content_of(listed["manifest_path"]))
            assert listed["sequence_number"] == listed["added_snapshot_id"] == entry["sequence_number"]
            assert entry["status"] == ManifestEntryStatus.ADDED.value
            assert (data["record_count"], data["file_size_in_bytes"], listed["added_rows_count"]) == (300, 70_000, 300)
            found[snapshot.snapshot_id] = (entry["snapshot_id"], data["file_path"], listed["manifest_path"])
    location = f"s3://{CLIENT_ID}/iceberg/members"
    assert {version: (since, path) for version, (since, path, _) in found.items()} == {
        1: (1, f"{location}/data/{'a' * 64}.parquet"),
        4: (2, f"{location}/data/{'b' * 64}.parquet"),
        5: (2, f"{location}/data/{'b' * 64}.parquet"),
        6: (6, f"{location}/data/{'c' * 64}.parquet"),
    }, "version 7 has no rows"
    assert found[4] == found[5], "unchanged versions share the manifest"


def test_versions_have_their_columns_and_names() -> None:
    found = read_metadata(7)
    columns = {schema.schema_id: [field.name for field in schema.fields] for schema in found.schemas}
    names = [column.name for column in COLUMNS]
    first, *later = [columns[snapshot.schema_id or 0] for snapshot in found.snapshots]
    assert first == names[:-1]
    assert later == [names] * 4
    assert {field.name: field.field_id for field in found.schema().fields} == {name: field_id(name) for name in names}
    assert set(found.refs) == {"main", "v1", "v4", "v5", "v6", "v7"}
    mapping = found.name_mapping()
    assert mapping is not None
    assert {field.names[0]: field.field_id for field in mapping.root} == {name: field_id(name) for name in names}


def test_nullable_columns_do_not_change_the_schema() -> None:
    """Columns of the files are always optional, so two schemas would have the same id."""
    changed = (replace(COLUMNS[0], nullable=not COLUMNS[0].nullable), *COLUMNS[1:])
    table = Table(CLIENT_ID, "members", (kept(1, SAME), replace(kept(2, SAME), columns=changed)))
    assert len(metadata(table)["schemas"]) == 1


def test_metadata_of_replaced_files_has_another_name() -> None:
    """Engines cache metadata by name, and would read files that an erasure has deleted."""
    *earlier, last = TABLE.versions[:4]
    before = described(replace(TABLE, versions=(*earlier, last)))
    after = described(replace(TABLE, versions=(*earlier, kept(6, data_file("d", 6)))))
    assert len(before.keys() - after.keys()) == 3, "metadata, manifest list and manifest"
    assert all(after[name] == before[name] for name in after.keys() & before.keys())


def test_earlier_metadata_does_not_change() -> None:
    """An engine may read the metadata that it was referred to after the next publication."""
    before = replace(TABLE, versions=TABLE.versions[:3])
    after = described(TABLE)
    assert described(before).items() <= after.items()
    assert read_metadata(5).current_snapshot_id == 5


@pytest.mark.parametrize("value", [0, -1, 1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_numbers_are_encoded_as_other_libraries_do(value: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    assert integer(value) == out.getvalue()
