"""Exports of the same data have the same bytes for any number of threads and any layout of the source."""

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.export.job import ExportResults
from tests.parts.export_rows import MemorySink, export_job
from tests.parts.sources import duckdb_source

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)
FORMATS = ("csv", "json", "ndjson")
Files = dict[tuple[str, str, str], bytes]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platform")
    make_platform(folder, PlatformSizes(leaders=8, members=3000, messages=6000), as_of=AS_OF, threads=1)
    return folder


def run(location: Path, spill: Path, *, threads: int) -> tuple[Files, dict[tuple[str, str], str]]:
    """Return all files of all resources, and the fingerprints by resource and Leader."""
    sink = MemorySink()
    results = ExportResults()
    source = duckdb_source(location, spill, threads=threads)
    with source.open(AS_OF) as reading:
        for resource in RESOURCES:
            reading.export(export_job(resource.name, FORMATS, threads=threads), sink, results)
    return sink.files, {(entry.resource, entry.client_id): entry.fingerprint for entry in results.entries}


def test_bytes_do_not_depend_on_threads_or_source_layout(platform: Path, tmp_path: Path) -> None:
    files, fingerprints = run(platform, tmp_path / "one", threads=1)
    assert len({key[1] for key in files}) == len(RESOURCES)
    assert len(files) > len(RESOURCES) * len(FORMATS) * 6

    again, fingerprints_again = run(platform, tmp_path / "three", threads=3)
    assert {key for key in files if files[key] != again[key]} == set()
    assert fingerprints == fingerprints_again

    database = tmp_path / "platform.duckdb"
    with duckdb.connect(str(database)) as connection:
        for table in SOURCE_TABLES:
            # Rows in another order.
            rows = f"SELECT * FROM '{platform}/{table.name}.parquet' ORDER BY hash(COLUMNS(*))"
            connection.execute(f"CREATE TABLE {table.name} AS {rows}")
    other, fingerprints_other = run(database, tmp_path / "file", threads=2)
    assert {key for key in files if files[key] != other.get(key)} == set()
    assert fingerprints == fingerprints_other
