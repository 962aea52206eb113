"""A published file as an Excel workbook, if the table is small enough.

The rows pass through a temporary file (XlsxWriter, "constant_memory"), so memory holds the compressed workbook only.
Writing takes about a second of processor time for 70,000 cells, so larger tables are sent as spreadsheet-safe CSV.
"""

import io
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime

from xlsxwriter import Workbook
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import Resource
from daybreak.filestore.file_store import FileStore
from daybreak.web.dashboard.files.readers import csv_rows

XLSX_MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MAXIMUM_SHEET_ROWS = 1_048_576
"""Rows of a sheet, the header included: https://support.microsoft.com/office/1672b34d-7043-467e-8e27-269d656771c3."""
_MAXIMUM_CELLS = 200_000
_ROWS_OF_A_TURN = 500
_MAXIMUM_CELL_CHARACTERS = 32_767
_MAXIMUM_EXACT_DIGITS = 15
_FIRST_DAY = date(1900, 3, 1)  # before it, Excel counts 29 February 1900, which did not exist
_COLUMN_WIDTH = 22


def fits_in_a_sheet(rows: int) -> bool:
    """Return whether Excel shows all rows of a file."""
    return rows < MAXIMUM_SHEET_ROWS


def fits_in_a_workbook(resource: Resource, rows: int) -> bool:
    """Return whether a file is small enough for a workbook."""
    return rows * len(resource.columns) <= _MAXIMUM_CELLS


def workbook(store: FileStore, resource: Resource, key: str) -> Iterator[bytes]:
    """Yield a workbook with the rows of a CSV file, as one piece after empty ones, between which other work may run.

    Text stays text, so that telephone numbers keep their plus sign and identifiers their zeros. Numbers, dates and
    times are values that Excel can calculate with. A text that is longer than a cell can hold is cut off.
    """
    output = io.BytesIO()
    with Workbook(output, {"constant_memory": True, "default_date_format": "yyyy-mm-dd"}) as book:
        sheet = book.add_worksheet(re.sub(r"[\[\]:*?/\\]", " ", resource.title)[:31])
        sheet.freeze_panes(1, 0)
        sheet.set_column(0, len(resource.columns) - 1, _COLUMN_WIDTH)
        heading, time = book.add_format({"bold": True}), book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss.000"})
        for index, name in enumerate(resource.column_names):
            sheet.write_string(0, index, name, heading)
        types = [column.type for column in resource.columns]
        for number, row in enumerate(csv_rows(store, key), start=1):
            for index, (cell, type_) in enumerate(zip(row, types, strict=True)):
                if cell:
                    _write_cell(sheet, (number, index), cell, type_, time)
            if not number % _ROWS_OF_A_TURN:
                yield b""
    yield output.getvalue()


def _write_cell(sheet: Worksheet, place: tuple[int, int], cell: str, type_: ColumnType, time: Format) -> None:
    """Write a cell as a value of its type, or as text if Excel cannot represent the value."""
    with suppress(ValueError):
        if type_ is ColumnType.BIGINT and len(cell.lstrip("-")) <= _MAXIMUM_EXACT_DIGITS:
            sheet.write_number(*place, int(cell))
            return
        if type_ is ColumnType.BOOLEAN:
            sheet.write_boolean(*place, cell == "true")
            return
        if type_ is ColumnType.DATE and (day := date.fromisoformat(cell)) >= _FIRST_DAY:
            sheet.write_datetime(*place, day)
            return
        if type_ is ColumnType.TIMESTAMP and (instant := datetime.fromisoformat(cell)).date() >= _FIRST_DAY:
            # Excel rounds to the shown digits, which would move the last instant of a day to the next day.
            milliseconds = instant.microsecond // 1000
            sheet.write_datetime(*place, instant.replace(tzinfo=None, microsecond=milliseconds * 1000), time)
            return
    sheet.write_string(*place, cell[:_MAXIMUM_CELL_CHARACTERS])
