"""Workbooks and spreadsheet-safe files, opened by LibreOffice and compared with the file cell by cell."""

import csv
import io
import shutil
import subprocess
from pathlib import Path
from typing import cast

import pytest

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.resources import RESOURCES
from daybreak.filestore.file_store import FileStore
from daybreak.web.dashboard.files.readers import spreadsheet_safe_csv
from daybreak.web.dashboard.files.workbooks import workbook
from daybreak.web.dashboard.spreadsheets import escape_formulas
from tests.unit.web.dashboard.files.test_workbooks import StoredRows

_VALUES = {
    ColumnType.UUID: ("7d909222-adf5-4547-93e0-e8f60c50f980",),
    ColumnType.TEXT: ("+4915551234567", "007", "=1+1", "@x", " a ", "1e5", "TRUE", 'a;b\t"c"', "a\nb", "1/2", "北", ""),
    ColumnType.BIGINT: ("0", "-7", "1234567890"),
    ColumnType.BOOLEAN: ("true", "false"),
    ColumnType.DATE: ("2026-11-27", "1969-12-31"),
    ColumnType.TIMESTAMP: ("2026-11-27T04:00:00.000000Z", "2026-11-27T23:59:59.000000Z"),
}
# https://help.libreoffice.org/latest/en-US/text/shared/guide/csv_params.html: comma, quote, UTF-8, all lines. Quoted
# cells are text when read. Cells are written as shown, with text in quotes.
_READ, _WRITE = "CSV:44,34,76,1,,0,true,false", "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,true,true"


def _open(folder: Path, *names: str, reader: str = "") -> list[list[list[str]]]:
    """Open files in LibreOffice, and return the cells that it shows."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice is not installed: apt-get install libreoffice-calc")
    profile, output = folder / "profile", folder / "shown"
    options = [f"-env:UserInstallation={profile.as_uri()}", "--headless", *([f"--infilter={reader}"] if reader else [])]
    files = [str(folder / each) for each in names]
    command = [program, *options, "--convert-to", _WRITE, "--outdir", str(output), *files]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    shown = [(output / Path(each).with_suffix(".csv")).read_bytes().decode() for each in names]
    return [list(csv.reader(io.StringIO(each, newline=""))) for each in shown]


# Together they have columns of every type.
_RESOURCES = tuple(resource for resource in RESOURCES if resource.name in ("campaigns", "members"))


def _rows() -> dict[str, list[list[str]]]:
    """Return rows of each resource that contain every value."""
    return {
        resource.name: [
            [_VALUES[column.type][number % len(_VALUES[column.type])] for column in resource.columns]
            for number in range(len(_VALUES[ColumnType.TEXT]))
        ]
        for resource in _RESOURCES
    }


@pytest.mark.release
def test_libreoffice_shows_the_cells_of_workbooks(tmp_path: Path) -> None:
    rows = _rows()
    for resource in _RESOURCES:
        store = cast("FileStore", StoredRows(resource, rows[resource.name]))
        (tmp_path / f"{resource.name}.xlsx").write_bytes(b"".join(workbook(store, resource, "key")))
    shown = _open(tmp_path, *(f"{resource.name}.xlsx" for resource in _RESOURCES))
    for resource, (header, *found) in zip(_RESOURCES, shown, strict=True):
        assert header == list(resource.column_names)
        expected = [
            [_as_shown(cell, column.type) for cell, column in zip(row, resource.columns, strict=True)]
            for row in rows[resource.name]
        ]
        assert found == expected, resource.name


def test_libreoffice_shows_the_cells_of_safe_files(tmp_path: Path) -> None:
    rows = _rows()
    for resource in _RESOURCES:
        store = cast("FileStore", StoredRows(resource, rows[resource.name]))
        (tmp_path / f"{resource.name}.csv").write_bytes(b"".join(spreadsheet_safe_csv(store, resource, "key")))
    shown = _open(tmp_path, *(f"{resource.name}.csv" for resource in _RESOURCES), reader=_READ)
    for resource, (header, *found) in zip(_RESOURCES, shown, strict=True):
        assert header == list(resource.column_names)
        is_text = [column.type is ColumnType.TEXT for column in resource.columns]
        expected = [
            [escape_formulas(cell) if escaped else cell for cell, escaped in zip(row, is_text, strict=True)]
            for row in rows[resource.name]
        ]
        assert found == expected, resource.name


def _as_shown(cell: str, type_: ColumnType) -> str:
    """Return a cell as a workbook shows it."""
    if type_ is ColumnType.TIMESTAMP:
        return cell[:23].replace("T", " ")
    return cell.upper() if type_ is ColumnType.BOOLEAN else cell
