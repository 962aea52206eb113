"""Deltas have the same bytes from every source and in every file store."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import tests.parts.spark
from daybreak.catalogue.models import load_models
from daybreak.domain.delta import ResourceDelta
from daybreak.filestore.file_store import FileStore
from daybreak.sources.postgresql.source import PostgresqlSource
from daybreak.sources.reading import RowSource
from tests.parts.buckets import open_bucket
from tests.parts.daily_runs import DailyRuns, FileKey
from tests.parts.postgresql_tables import fill_tables
from tests.parts.s3 import S3Bucket
from tests.parts.sources import duckdb_source
from tests.reference.days import ChangingPlatform
from tests.reference.platforms import HOSTILE
from tests.small_platform import create_state

DAYS = 3
# PostgreSQL cannot store NUL in text.
TEXTS = [text for text in HOSTILE if "\0" not in text]


def deltas_of(
    folder: Path,
    make_source: Callable[[Path, Path], RowSource] = duckdb_source,
    store: FileStore | None = None,
    *,
    days: int = DAYS,
) -> dict[FileKey, ResourceDelta]:
    """Return the deltas of a few days, without the keys of their files, after comparing them with the reference."""
    folder.mkdir()
    create_state(folder)
    platform = ChangingPlatform(5, members=150, texts=TEXTS, repeats=False)
    with closing(DailyRuns(folder, platform, make_source, store)) as runs:
        for day in range(days):
            if day:
                platform.next_day()
            runs.run()
            if day:
                runs.check_day(day + 1)
        assert runs.states["changed"] > 3
        return {key: _without_keys(delta) for key, delta in runs.deltas.items()}


def _without_keys(delta: ResourceDelta) -> ResourceDelta:
    formats = {
        name: type(stored)(stored.bytes, stored.sha256, stored.content_bytes, stored.content_sha256, "")
        for name, stored in delta.formats.items()
    }
    return ResourceDelta(
        delta.rows_before, delta.rows_after, delta.inserted, delta.deleted, delta.lines, delta.content_sha256_before,
        delta.content_sha256_after, delta.constants, formats, delta.reason,
    )  # fmt: skip


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[FileKey, ResourceDelta]:
    """Return the deltas from DuckDB on local disk."""
    return deltas_of(tmp_path_factory.mktemp("duckdb") / "runs")


@pytest.mark.release
def test_deltas_in_a_bucket_are_the_same(
    expected: dict[FileKey, ResourceDelta], s3_bucket: S3Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = deltas_of(tmp_path / "runs", store=open_bucket(s3_bucket, monkeypatch, "/prefix"), days=2)
    assert found == {key: delta for key, delta in expected.items() if key[0] <= 2}


@pytest.mark.release
def test_deltas_from_postgresql_are_the_same(
    expected: dict[FileKey, ResourceDelta], make_postgresql_url: Callable[[], str], tmp_path: Path
) -> None:
    def make_source(parquet: Path, spill: Path) -> RowSource:
        url = make_postgresql_url()
        fill_tables(url, parquet)
        return PostgresqlSource(url, load_models(), memory_bytes=300_000_000, threads=2, temp_dir=spill)

    assert deltas_of(tmp_path / "runs", make_source) == expected


@pytest.mark.release
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_deltas_from_spark_are_the_same(expected: dict[FileKey, ResourceDelta], tmp_path: Path) -> None:
    """Small partitions, so that some tasks write whole Leaders and others join ranges of split ones."""
    tests.parts.spark.require_java()
    from daybreak.sources.spark.reading import TaskLimits
    from daybreak.sources.spark.source import SparkSource, spark_session

    settings = {**tests.parts.spark.INTERPRETED, "spark.master": "local[2]", "spark.default.parallelism": "8"}
    settings["spark.sql.warehouse.dir"] = str(tmp_path / "warehouse")

    def make_source(parquet: Path, _spill: Path) -> RowSource:
        tests.parts.spark.convert_identifiers(parquet)
        limits = TaskLimits(200_000_000, partition_rows=60)
        return SparkSource(str(parquet), load_models(), settings=settings, limits=limits)

    try:
        found = deltas_of(tmp_path / "runs", make_source, days=2)
        assert found == {key: delta for key, delta in expected.items() if key[0] <= 2}
    finally:
        spark_session(settings).stop()
