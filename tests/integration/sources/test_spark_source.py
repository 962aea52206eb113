"""Spark as source: the same manifest as the embedded engine, made and stored by its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest
from pyspark.sql import SparkSession

import tests.parts.spark
from daybreak.catalogue.models import Model, load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export import export_resource
from daybreak.export.gzip_member import PART_BYTES
from daybreak.filestore.local_disk import LocalDisk
from daybreak.ports.files import FileSink, WrittenFile
from daybreak.ports.sources import ResourceReport
from daybreak.sources.duckdb import DuckdbSource
from daybreak.sources.spark import SparkReading, SparkSource, spark_session
from tests.integration.sources.engines import AS_OF
from tests.parts.spark import require_java, text_platform

# Spark starts slowly on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FORMATS = ("csv", "json", "ndjson", "parquet")
TEXTS = FORMATS[:3]
SETTINGS = {**tests.parts.spark.SETTINGS, "spark.master": "local[2,3]", "spark.default.parallelism": "8"}
SNAPSHOT = "00000000-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("platform")
    text_platform(folder, leaders=8, members=6000, messages=2000, as_of=AS_OF)
    return folder


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    require_java()
    session = spark_session({**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))})
    yield session
    session.stop()


def with_one_huge_leader(parquet: Path, folder: Path) -> Path:
    """The platform once more, in which the largest Leader has taken over a third of the others' Members."""
    folder.mkdir()
    for path in parquet.glob("*.parquet"):
        (folder / path.name).symlink_to(path)
    (folder / "members.parquet").unlink()
    members = f"read_parquet('{parquet}/members.parquet')"
    largest = f"(SELECT leader_id FROM {members} GROUP BY leader_id ORDER BY count(*) DESC, leader_id LIMIT 1)"
    leader = f"CASE WHEN member_id < '5' THEN {largest} ELSE leader_id END AS leader_id"
    with closing(duckdb.connect()) as engine:
        engine.execute(f"COPY (SELECT * REPLACE ({leader}) FROM {members}) TO '{folder}/members.parquet'")
    return folder


def embedded(
    platform: Path, tmp_path: Path, formats: tuple[str, ...], resources: Sequence[str] = RESOURCE_NAMES
) -> tuple[list[ManifestEntry], list[ResourceReport]]:
    """What the embedded engine makes of these resources."""
    source = DuckdbSource(platform, load_models(), memory_bytes=300_000_000, threads=2, temp_dir=tmp_path / "spill")
    entries: list[ManifestEntry] = []
    sink = LocalDisk(tmp_path / "embedded").stage(SNAPSHOT)
    with source.open(AS_OF) as reading:
        reports = [export_resource(reading, name, formats, sink, on_entries=entries.extend) for name in resources]
    return entries, reports


def source_on(parquet: Path, **options: Any) -> SparkSource:
    return SparkSource(
        str(parquet),
        options.pop("models", None) or load_models(),
        settings=SETTINGS,
        task_memory_bytes=200_000_000,
        **options,
    )


@dataclass(frozen=True)
class BrokenOnce:
    """A sink whose first write for each of some Leaders fails when half of a piece is there. Travels."""

    sink: FileSink
    folder: Path
    leaders: tuple[str, ...]

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        if client_id in self.leaders:
            with suppress(FileExistsError):
                (self.folder / client_id).touch(exist_ok=False)
                pieces = self._half(pieces)
        return self.sink.write(client_id, resource, format, pieces)

    @staticmethod
    def _half(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        piece = next(iter(pieces))
        yield piece[: len(piece) // 2]
        raise OSError("the disk went away")


def _leader(entry: ManifestEntry) -> str:
    return entry.client_id


def exported(
    reading: SparkReading, sink: FileSink, previous: dict[str, str], formats: tuple[str, ...] = FORMATS
) -> Any:
    """Everything one export tells: entries, carried Leaders, the last progress, the report."""
    entries: list[ManifestEntry] = []
    carried: list[str] = []
    rows: list[int] = []
    report = reading.export_resource(
        "members",
        formats,
        sink,
        previous=previous,
        compression="igzip-2",
        on_entries=entries.extend,
        on_carried=carried.extend,
        on_progress=rows.append,
    )
    return entries, carried, rows[-1], report


@pytest.mark.usefixtures("session")
def test_every_file_is_that_of_the_embedded_engine(parquet: Path, tmp_path: Path) -> None:
    expected, reports = embedded(parquet, tmp_path, FORMATS)
    found: list[ManifestEntry] = []
    sink = LocalDisk(tmp_path / "spark").stage(SNAPSHOT)
    # Few rows a partition: big Leaders get a task of their own, small ones share.
    with source_on(parquet, partition_rows=2500).open(AS_OF) as spark:
        spark.check()
        for name, report in zip(RESOURCE_NAMES, reports, strict=True):
            assert report == spark.export_resource(
                name,
                FORMATS,
                sink,
                previous={},
                compression="igzip-2",
                on_entries=found.extend,
                on_carried=lambda _: None,
                on_progress=lambda _: None,
            )
        assert spark.referential_faults(RESOURCE_NAMES) == []

    def by_place(entry: ManifestEntry) -> tuple[str, str]:
        return entry.resource, entry.client_id

    assert sorted(found, key=by_place) == sorted(expected, key=by_place)
    sink.seal()
    store = LocalDisk(tmp_path / "spark")
    for entry in found:
        for stored in entry.formats.values():
            store.check(stored.key, stored.bytes, stored.sha256)


@pytest.mark.usefixtures("session")
def test_unchanged_leaders_are_carried_and_a_second_writing_is_the_same(parquet: Path, tmp_path: Path) -> None:
    sink = LocalDisk(tmp_path / "files").stage(SNAPSHOT)
    with source_on(parquet).open(AS_OF) as reading:
        entries, carried, rows, report = exported(reading, sink, {})
        assert not carried
        assert rows == report.rows > 0
        # As after a task that was tried again: the same files are written once more.
        again, _, _, _ = exported(reading, sink, {})
        assert sorted(again, key=_leader) == sorted(entries, key=_leader)
        previous = {entry.client_id: entry.fingerprint for entry in entries if entry.client_id}
        kept = previous.popitem()[0]
        entries, carried, _, report = exported(reading, sink, previous)
        assert [entry.client_id for entry in entries] == ["", kept]
        assert sorted(carried) == sorted(previous)
        assert report.carried == len(previous)


@pytest.mark.usefixtures("session")
def test_a_leader_too_large_for_one_task_is_split_and_its_files_are_the_same(parquet: Path, tmp_path: Path) -> None:
    platform = with_one_huge_leader(parquet, tmp_path / "platform")
    expected, (report,) = embedded(platform, tmp_path, TEXTS, ["members"])
    smallest, *_, largest = sorted((entry for entry in expected if entry.client_id), key=lambda entry: entry.rows)
    assert largest.rows > report.rows * 0.6
    assert largest.formats["json"].content_bytes > PART_BYTES
    sink = LocalDisk(tmp_path / "split").stage(SNAPSHOT)
    broken = BrokenOnce(sink, tmp_path / "marks", (smallest.client_id, largest.client_id))
    broken.folder.mkdir()
    with source_on(platform, partition_rows=400).open(AS_OF) as reading:
        found, _, rows, split_report = exported(reading, cast("FileSink", broken), {}, TEXTS)
        assert sorted(found, key=_leader) == sorted(expected, key=_leader)
        assert split_report == report
        assert rows == report.rows
        assert {path.name for path in broken.folder.iterdir()} == set(broken.leaders)
        previous = {entry.client_id: entry.fingerprint for entry in found}
        entries, carried, _, report = exported(reading, sink, previous, TEXTS)
        assert [entry.client_id for entry in entries] == [""]
        assert largest.client_id in carried
        assert report.bytes_written == 0
    sink.seal()
    store = LocalDisk(tmp_path / "split")
    for entry in found:
        for stored in entry.formats.values():
            store.check(stored.key, stored.bytes, stored.sha256)


def test_tables_and_views_of_the_catalogue_give_the_same_files(
    session: SparkSession, parquet: Path, tmp_path: Path
) -> None:
    expected, _ = embedded(parquet, tmp_path, FORMATS, ["members"])
    session.sql("DROP DATABASE IF EXISTS platform CASCADE")
    session.sql("CREATE DATABASE platform")
    for table in SOURCE_TABLES:
        kind = "TABLE" if table.name in {"leaders", "members"} else "VIEW"
        session.sql(f"CREATE {kind} platform.{table.name} AS SELECT * FROM parquet.`{parquet}/{table.name}.parquet`")
    with source_on(Path("catalog:platform")).open(AS_OF) as reading:
        found, *_ = exported(reading, LocalDisk(tmp_path / "spark").stage(SNAPSHOT), {})
    assert sorted(found, key=_leader) == sorted(expected, key=_leader)


def test_queries_of_the_operator_find_the_tables_by_their_names(session: SparkSession, parquet: Path) -> None:
    """The thirteen as the models see them, and the others of a database of the catalogue."""
    session.sql("DROP DATABASE IF EXISTS directory CASCADE")
    session.sql("CREATE DATABASE directory")
    session.sql("CREATE VIEW directory.accounts AS SELECT 'Ana' AS first_name")
    for table in SOURCE_TABLES:
        view = f"directory.{table.name}"
        session.sql(f"CREATE VIEW {view} AS SELECT * FROM parquet.`{parquet}/{table.name}.parquet`")
    counted = "SELECT count(*) AS leaders FROM leaders"
    assert source_on(parquet).rows(counted) == [{"leaders": 8}]
    catalogue = source_on(Path("catalog:directory"))
    assert catalogue.rows(counted) == [{"leaders": 8}]
    assert catalogue.rows("SELECT first_name FROM accounts") == [{"first_name": "Ana"}]


@pytest.mark.usefixtures("session")
def test_faults_of_tables_and_models_are_all_named(parquet: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(SourceError, match="table leaders is missing"),
        source_on(tmp_path).open(AS_OF),
    ):
        pass
    models = dict(load_models())
    models["communities"] = Model("communities", "SELECT 1 AS one", "mine.sql")
    models["members"] = Model("members", "SELECT nonsense FROM members", "other.sql")
    with (
        source_on(parquet, models=models).open(datetime(2026, 1, 1, tzinfo=UTC)) as reading,
        pytest.raises(SourceError) as caught,
    ):
        reading.check()
    assert "mine.sql: column one is not part of communities" in caught.value.message
    assert "other.sql" in caught.value.message


def linked(parquet: Path, folder: Path) -> Path:
    """The folder, made with links to all tables, of which some can then be others."""
    folder.mkdir()
    for path in parquet.glob("*.parquet"):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.usefixtures("session")
def test_a_table_is_one_file_or_one_folder_of_files_that_count(parquet: Path, tmp_path: Path) -> None:
    folder = linked(parquet, tmp_path / "platform")
    beside = folder / "members"
    beside.mkdir()
    with source_on(folder).open(AS_OF) as reading:
        reading.check()  # an empty folder is no table
    (beside / "part-0.parquet").symlink_to(parquet / "members.parquet")
    with (
        pytest.raises(SourceError, match=r"Table members is there twice: .*members\.parquet and .*members\. Move"),
        source_on(folder).open(AS_OF),
    ):
        pass
    (folder / "members.parquet").unlink()
    (beside / "_delta_log").mkdir()
    (beside / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(SourceError, match=r"members is a Delta table"), source_on(folder).open(AS_OF):
        pass


@pytest.mark.usefixtures("session")
def test_counts_with_fractions_are_rounded_as_everywhere(parquet: Path, tmp_path: Path) -> None:
    folder = linked(parquet, tmp_path / "platform")
    messages = folder / "outbound_messages.parquet"
    messages.unlink()
    with closing(duckdb.connect()) as engine:
        engine.execute(
            "COPY (SELECT * REPLACE (CAST(segment_count + 0.5 AS DECIMAL(9, 2)) AS segment_count, "
            "CAST(-0.7 AS DECIMAL(9, 2)) AS unit_count) "
            f"FROM read_parquet('{parquet}/outbound_messages.parquet')) TO '{messages}'"
        )
    hold_against_embedded(folder, tmp_path, "outbound_message_type_usage")


@pytest.mark.usefixtures("session")
def test_an_identifier_is_the_same_however_it_is_written(parquet: Path, tmp_path: Path) -> None:
    folder = linked(parquet, tmp_path / "platform")
    written = {
        "leaders": "replace(leader_id, '-', '') AS leader_id",
        "campaigns": "upper(campaign_id) AS campaign_id",
        "outbound_messages": "'{' || campaign_id || '}' AS campaign_id, upper(leader_id) AS leader_id",
    }
    with closing(duckdb.connect()) as engine:
        for table, otherwise in written.items():
            (folder / f"{table}.parquet").unlink()
            engine.execute(
                f"COPY (SELECT * REPLACE ({otherwise}) FROM read_parquet('{parquet}/{table}.parquet')) "
                f"TO '{folder}/{table}.parquet'"
            )
    hold_against_embedded(folder, tmp_path, "campaigns")


def with_a_stranger(parquet: Path, folder: Path, table: str, column: str) -> Path:
    """The platform once more, in which a table has one identifier that is none."""
    linked(parquet, folder)
    (folder / f"{table}.parquet").unlink()
    rows = f"read_parquet('{parquet}/{table}.parquet')"
    stranger = f"CASE WHEN {column} = (SELECT max({column}) FROM {rows}) THEN 'acme' ELSE {column} END AS {column}"
    with closing(duckdb.connect()) as engine:
        engine.execute(f"COPY (SELECT * REPLACE ({stranger}) FROM {rows}) TO '{folder}/{table}.parquet'")
    return folder


@pytest.mark.usefixtures("session")
def test_a_leader_that_is_no_uuid_is_named(parquet: Path, tmp_path: Path) -> None:
    folder = with_a_stranger(parquet, tmp_path / "platform", "leaders", "leader_id")
    with source_on(folder).open(AS_OF) as reading, pytest.raises(SourceError, match=r"leaders: 'acme' is no UUID\.$"):
        reading.check()


@pytest.mark.usefixtures("session")
def test_what_a_task_finds_wrong_with_the_rows_is_not_tried_again(parquet: Path, tmp_path: Path) -> None:
    folder = with_a_stranger(parquet, tmp_path / "platform", "members", "member_id")
    sink = LocalDisk(tmp_path / "spark").stage(SNAPSHOT)
    with source_on(folder).open(AS_OF) as reading, pytest.raises(SourceError, match="'acme' to UUID") as caught:
        exported(reading, sink, {})
    assert not caught.value.transient
    assert "daybreak." not in caught.value.message


@pytest.mark.usefixtures("session")
def test_a_link_that_is_listed_twice_is_one_link_as_everywhere(parquet: Path, tmp_path: Path) -> None:
    folder = linked(parquet, tmp_path / "platform")
    links = folder / "campaign_links.parquet"
    links.unlink()
    with closing(duckdb.connect()) as engine:
        once = f"(FROM read_parquet('{parquet}/campaign_links.parquet'))"
        engine.execute(f"COPY ({once} UNION ALL {once}) TO '{links}'")
    hold_against_embedded(folder, tmp_path, "campaign_links")


def hold_against_embedded(folder: Path, tmp_path: Path, resource: str) -> None:
    """The files of a resource are those that the embedded engine makes."""
    expected, _ = embedded(folder, tmp_path, ("csv",), [resource])
    found: list[ManifestEntry] = []
    sink = LocalDisk(tmp_path / "spark").stage(SNAPSHOT)
    with source_on(folder).open(AS_OF) as reading:
        reading.export_resource(
            resource,
            ("csv",),
            sink,
            previous={},
            compression="igzip-2",
            on_entries=found.extend,
            on_carried=lambda _: None,
            on_progress=lambda _: None,
        )
    assert sorted(found, key=_leader) == sorted(expected, key=_leader)
