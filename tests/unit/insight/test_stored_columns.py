"""Files with other columns than those of today."""

import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path

import pytest

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import resource_named
from daybreak.catalogue.stored_columns import RecordedColumns, recorded_columns, resource_at, resource_with_header
from daybreak.domain.snapshot import ManifestEntry, StoredFormat
from daybreak.filestore.local_disk import LocalDisk
from tests.unit.insight.conftest import Published, encode

CAMPAIGNS = resource_named("campaigns")
REMOVED = Column("REMOVED", ColumnType.TEXT, nullable=True, description="")


@pytest.mark.parametrize("format_name", ["csv", "json", "ndjson", "parquet"])
def test_tables_have_the_columns_of_today(format_name: str, tmp_path: Path) -> None:
    """The file has a column that was removed since, and lacks one of each type."""
    lacking = {"LEADER_ID", "SENT_AT", "TEST_CAMPAIGN", "RECIPIENT_COUNT", "CAMPAIGN_NAME"}
    columns = tuple(column for column in CAMPAIGNS.columns if column.name not in lacking)
    stored_resource = replace(CAMPAIGNS, columns=(columns[0], REMOVED, *columns[1:]))
    row = {"CAMPAIGN_ID": "5f0c3a52-77a4-4d4c-9ad6-0b1f2f0ec6b1", "REMOVED": "x", "TEXT": "a,b", "STOP_COUNT": 7}
    sink = LocalDisk(tmp_path / "files").stage("5f0c3a52-77a4-4d4c-9ad6-0b1f2f0ec6b1")
    content = encode(stored_resource, [row], format_name, tmp_path)
    written = sink.write("6f0c3a52-77a4-4d4c-9ad6-0b1f2f0ec6b1", "campaigns", format_name, [content])
    sink.commit()
    stored = StoredFormat(written.bytes, written.sha256, len(content), written.sha256, written.key)
    entry = ManifestEntry("client", "campaigns", 1, "0" * 32, {format_name: stored})
    with Published(LocalDisk(tmp_path / "files"), {"campaigns": entry}).open() as tables:
        found = tables.rows(
            "SELECT CAMPAIGN_ID, TEXT, STOP_COUNT, LEADER_ID, SENT_AT, TEST_CAMPAIGN, RECIPIENT_COUNT, CAMPAIGN_NAME "
            "FROM campaigns"
        )
    assert found == [(row["CAMPAIGN_ID"], "a,b", 7, "", None, False, 0, "")]


def test_recorded_columns_are_those_of_the_resource() -> None:
    recorded = recorded_columns()
    assert resource_at("campaigns", recorded) is CAMPAIGNS
    assert resource_at("campaigns", None) is CAMPAIGNS
    older: RecordedColumns = {**recorded, "campaigns": [("CAMPAIGN_ID", "text", True), ("REMOVED", "text", True)]}
    found = resource_at("campaigns", older)
    assert [(column.name, column.type, column.nullable) for column in found.columns] == [
        ("CAMPAIGN_ID", ColumnType.TEXT, True),
        ("REMOVED", ColumnType.TEXT, True),
    ]
    assert found.columns[0].description == CAMPAIGNS.columns[0].description


def test_header_names_the_columns() -> None:
    content = gzip.decompress(encode(CAMPAIGNS, [], "csv", Path()))
    assert resource_with_header(CAMPAIGNS, content) is CAMPAIGNS
    names = next(csv.reader(io.StringIO(content.decode())))
    without = content.replace(b',"CAMPAIGN_NAME"', b',"REMOVED"')
    assert list(resource_with_header(CAMPAIGNS, without).column_names) == [*names[:-1], "REMOVED"]
