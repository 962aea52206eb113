"""Peak memory of an export with large cells."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.source_tables import SOURCE_TABLES, SourceTable

LEADER = "00000000-0000-4000-8000-000000000001"
CELL_BYTES = 1_000_000
CELLS = 240
ENGINE_BYTES = 64_000_000

_EXPORT = f"""
import sys
from datetime import UTC, datetime
from pathlib import Path
from daybreak.catalogue.models import load_models
from daybreak.export.job import ExportJob, ExportResults
from daybreak.filestore.local_disk import LocalDisk
from daybreak.sources.duckdb import DuckdbSource

def peak_bytes():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024

folder = Path(sys.argv[1])
source = DuckdbSource(
    folder / "platform", load_models(), memory_bytes={ENGINE_BYTES}, threads=1, temp_dir=folder / "spill"
)
sink = LocalDisk(folder / "files").stage("00000000-0000-4000-8000-000000000000")
results = ExportResults()
with source.open(datetime(2026, 11, 20, 4, tzinfo=UTC)) as reading:
    for resource in ("campaigns", "members"):
        before = peak_bytes()
        reading.export(ExportJob(resource, ("csv", "json"), "igzip-2", 1), sink, results)
assert results.entries[-1].rows == {CELLS}, results
print(peak_bytes() - before)
"""


def make_platform(folder: Path) -> None:
    """Write one Leader whose Members have a large cell each, identifiers as text, in files with a few rows."""
    folder.mkdir()
    with duckdb.connect() as engine:
        for table in SOURCE_TABLES:
            if table.name == "members":
                (folder / "members").mkdir()
                for first in range(0, CELLS, 4):
                    columns = ", ".join(cells_of(table))
                    engine.execute(
                        f"COPY (SELECT {columns} FROM range({first}, {first + 4}) AS t(n)) "
                        f"TO '{folder}/members/{first:03}.parquet' (FORMAT parquet)"
                    )
            else:
                columns = ", ".join(cells_of(table))
                rows = 1 if table.name == "leaders" else 0
                engine.execute(
                    f"COPY (SELECT {columns} FROM range({rows}) AS t(n)) "
                    f"TO '{folder}/{table.name}.parquet' (FORMAT parquet)"
                )


def cells_of(table: SourceTable) -> list[str]:
    """Return SQL for each column, over the row number `n`."""
    special = {
        "leader_id": f"'{LEADER}'",
        "member_id": "CAST(md5(CAST(n AS VARCHAR)) :: UUID AS VARCHAR)",
        "subscription_state": "'live'",
        "city": f"repeat(chr(97 + CAST(n AS INTEGER) % 26), {CELL_BYTES})",
    }
    nothing = {ColumnType.UUID: "VARCHAR", ColumnType.TEXT: "VARCHAR"}
    return [
        f"{special.get(column.name, f'CAST(NULL AS {nothing.get(column.type, column.type.value)})')} AS {column.name}"
        for column in table.columns
    ]


@pytest.mark.release
def test_large_cells_are_never_in_memory_together(tmp_path: Path) -> None:
    make_platform(tmp_path / "platform")
    done = subprocess.run(
        [sys.executable, "-c", _EXPORT, str(tmp_path)], check=True, capture_output=True, text=True, timeout=600
    )
    assert int(done.stdout) < CELL_BYTES * CELLS, "memory for all cells at the same time"
