"""Published files as Excel workbooks, read back cell by cell."""

import csv
import gzip
import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import openpyxl
import pytest
from openpyxl.utils.escape import unescape

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.filestore.file_store import FileStore
from daybreak.web.dashboard.files.workbooks import MAXIMUM_SHEET_ROWS, fits_in_a_sheet, fits_in_a_workbook, workbook

ID = "7d909222-adf5-4547-93e0-e8f60c50f980"
TEXTS = (
    "+4915551234567", "0049", "007", "=1+1", "@x", "{=1}", "https://a.example", " a ", "x\x00y\x0b", "_x0041_",
    "a\r\nb", "\u202eabc", "\ufffe", "1e5", "TRUE", 'a;b\t"c"', "x" * 32_767,
)  # fmt: skip
VALUES = {
    ColumnType.UUID: (ID,),
    ColumnType.TEXT: TEXTS,
    ColumnType.BIGINT: ("0", "-7", "999999999999999", "9007199254740993", "-9223372036854775808"),
    ColumnType.BOOLEAN: ("true", "false"),
    ColumnType.DATE: ("2026-11-27", "1900-03-01", "1899-12-31", "0001-01-01", "9999-12-31"),
    ColumnType.TIMESTAMP: (
        "2026-11-27T04:00:00.000000Z",
        "2026-11-27T23:59:59.123456Z",
        "1600-01-01T00:00:00.000000Z",
        "9999-12-31T23:59:59.999999Z",
    ),
}


class StoredRows:
    """A store with one CSV file."""

    def __init__(self, resource: Resource, rows: list[list[str]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([resource.column_names, *rows])
        self._content = gzip.compress(text.getvalue().encode())

    def read(self, key: str) -> Iterator[bytes]:
        yield self._content


def read_back(resource: Resource, rows: list[list[str]]) -> list[list[object]]:
    content = b"".join(workbook(cast("FileStore", StoredRows(resource, rows)), resource, "key"))
    sheet = openpyxl.load_workbook(io.BytesIO(content)).worksheets[0]
    return [[cell.value for cell in row] for row in sheet.iter_rows()]


def as_in_the_file(value: object, column: Column) -> str:
    """Return a cell of a workbook as the file contains it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        instant = value.replace(tzinfo=UTC)
        if column.type is ColumnType.DATE:
            return instant.date().isoformat()
        return f"{instant:%Y-%m-%dT%H:%M:%S.%f}Z"
    return unescape(value) if isinstance(value, str) else str(value)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)
def test_every_cell_equals_the_file(resource: Resource) -> None:
    longest = max(len(VALUES[column.type]) for column in resource.columns)
    rows = [
        [VALUES[column.type][number % len(VALUES[column.type])] for column in resource.columns]
        for number in range(longest)
    ]
    rows.insert(1, [""] * len(resource.columns))
    header, *found = read_back(resource, rows)
    assert header == list(resource.column_names)
    for row, cells in zip(rows, found, strict=True):
        for text, value, column in zip(row, cells, resource.columns, strict=True):
            shown = as_in_the_file(value, column)
            if isinstance(value, datetime) and column.type is ColumnType.TIMESTAMP:
                # Excel stores milliseconds. A rounded time could be on the next day.
                assert shown[:23] == text[:23]
            else:
                assert shown == text, column.name


def test_text_is_never_a_number_or_a_formula() -> None:
    resource = next(each for each in RESOURCES if any(column.type is ColumnType.TEXT for column in each.columns))
    resource = replace(resource, columns=tuple(column for column in resource.columns if column.type is ColumnType.TEXT))
    rows = [[text] * len(resource.columns) for text in ("+49", "007", "=1+1", "1e5")]
    assert read_back(resource, rows)[1:] == rows


def test_large_files_are_no_workbooks() -> None:
    assert fits_in_a_sheet(MAXIMUM_SHEET_ROWS - 1)
    assert not fits_in_a_sheet(MAXIMUM_SHEET_ROWS)
    resource = RESOURCES[0]
    assert fits_in_a_workbook(resource, 200_000 // len(resource.columns))
    assert not fits_in_a_workbook(resource, 200_001)
