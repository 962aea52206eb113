"""Two full runs over the same data give the same files, whatever the threads, the memory and the form of the source."""

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import RESOURCES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.demo.platform import make_platform
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource
from daybreak.sources.duckdb import DuckdbSource
from tests.parts.export_rows import MemorySink

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)
FORMATS = ("csv", "json", "ndjson")
Files = dict[tuple[str, str, str], bytes]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platform")
    make_platform(folder, leaders=8, members=3000, messages=6000, as_of=AS_OF, threads=1)
    return folder


def run(location: Path, spill: Path, *, threads: int) -> tuple[Files, dict[tuple[str, str], str]]:
    """All files of all nine resources, and the fingerprints by resource and Leader."""
    sink = MemorySink()
    entries: list[ManifestEntry] = []
    source = DuckdbSource(location, load_models(), memory_bytes=256_000_000, threads=threads, temp_dir=spill)
    with source.open(AS_OF) as reading:
        for resource in RESOURCES:
            export_resource(reading, resource, FORMATS, sink, threads=threads, on_entries=entries.extend)
    return sink.files, {(entry.resource, entry.client_id): entry.fingerprint for entry in entries}


def test_threads_and_the_form_of_the_source_do_not_show(platform: Path, tmp_path: Path) -> None:
    files, prints = run(platform, tmp_path / "one", threads=1)
    assert len({key[1] for key in files}) == len(RESOURCES)
    assert len(files) > len(RESOURCES) * len(FORMATS) * 6

    again, prints_again = run(platform, tmp_path / "three", threads=3)
    assert {key for key in files if files[key] != again[key]} == set()
    assert prints == prints_again

    database = tmp_path / "platform.duckdb"
    with duckdb.connect(str(database)) as connection:
        for table in SOURCE_TABLES:
            # In another order: no source is trusted to be in any.
            rows = f"SELECT * FROM '{platform}/{table.name}.parquet' ORDER BY hash(COLUMNS(*))"
            connection.execute(f"CREATE TABLE {table.name} AS {rows}")
    other, prints_other = run(database, tmp_path / "file", threads=2)
    assert {key for key in files if files[key] != other.get(key)} == set()
    assert prints == prints_other
