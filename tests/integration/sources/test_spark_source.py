"""Spark source: tasks write and store the files, and the manifest equals that of DuckDB."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import tests.parts.spark
from daybreak.catalogue.models import Model, load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.cli.doctor_deep import run_own_models
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.errors import SourceError, SourceUnavailable
from daybreak.domain.snapshot import ManifestEntry
from daybreak.export.gzip_member import PART_BYTES
from daybreak.export.job import ExportResults, ResourceReport
from daybreak.filestore.file_store import FileSink, WrittenFile
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.packs import NO_PACKS
from daybreak.sources.spark.reading import SparkReading, TaskLimits
from daybreak.sources.spark.source import SparkSource, spark_session
from tests.integration.sources.test_integer_keys import EXPECTED, rows, statements_of
from tests.parts.export_rows import AS_OF, export_job
from tests.parts.row_faults import ENDLESS_MODEL, OWN_MODELS, accounted_for, add_faults
from tests.parts.sources import duckdb_source
from tests.parts.spark import convert_identifiers, require_java, text_platform
from tests.parts.variants import one_of

# Spark starts slowly on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FORMATS = ("csv", "json", "ndjson", "parquet")
TEXTS = FORMATS[:3]
SETTINGS = {**tests.parts.spark.INTERPRETED, "spark.master": "local[2,3]", "spark.default.parallelism": "8"}
# As in production.
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
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
    """Copy the platform, with a third of all Members moved to the largest Leader."""
    linked(parquet, folder)
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
    """Export resources with the embedded engine."""
    source = duckdb_source(platform, tmp_path / "spill")
    results = ExportResults()
    sink = LocalDisk(tmp_path / "embedded", NO_PACKS).stage(SNAPSHOT)
    with source.open(AS_OF) as reading:
        reports = [reading.export(export_job(name, formats), sink, results) for name in resources]
    return results.entries, reports


def source_on(
    location: Path,
    *,
    models: Mapping[str, Model] | None = None,
    partition_rows: int = 500_000,
    settings: Mapping[str, str] = SETTINGS,
) -> SparkSource:
    limits = TaskLimits(200_000_000, partition_rows=partition_rows)
    return SparkSource(str(location), models or load_models(), settings=settings, limits=limits)


@dataclass(frozen=True)
class FailingOnce:
    """Picklable sink whose first write for each Leader in `leaders` fails after half of a piece."""

    sink: FileSink
    folder: Path
    leaders: tuple[str, ...]
    packs: bool = False

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
        raise OSError("disk failure")


def _leader(entry: ManifestEntry) -> str:
    return entry.client_id


def by_resource(entry: ManifestEntry) -> tuple[str, str]:
    return entry.resource, entry.client_id


def exported(
    reading: SparkReading,
    sink: FileSink,
    previous: Mapping[str, str] | None = None,
    *,
    resource: str = "members",
    formats: Sequence[str] = FORMATS,
) -> tuple[ExportResults, ResourceReport]:
    """Export one resource."""
    results = ExportResults()
    report = reading.export(export_job(resource, formats, previous=previous), sink, results)
    return results, report


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("resources", "formats"), one_of((("members",), ("csv",)), (RESOURCE_NAMES, FORMATS)))
def test_files_equal_those_of_duckdb(
    parquet: Path, tmp_path: Path, resources: Sequence[str], formats: tuple[str, ...]
) -> None:
    expected, reports = embedded(parquet, tmp_path, formats, resources)
    results = ExportResults()
    sink = LocalDisk(tmp_path / "spark", NO_PACKS).stage(SNAPSHOT)
    # With few rows per partition, large Leaders have separate tasks and small ones share tasks.
    with source_on(parquet, partition_rows=2500).open(AS_OF) as spark:
        for name, report in zip(resources, reports, strict=True):
            assert report == spark.export(export_job(name, formats), sink, results)
        if resources == RESOURCE_NAMES:
            assert spark.referential_faults(resources) == []

    assert sorted(results.entries, key=by_resource) == sorted(expected, key=by_resource)
    sink.commit()
    check_stored(tmp_path / "spark", results.entries)


def check_stored(folder: Path, entries: Iterable[ManifestEntry]) -> None:
    """Check the files of a store."""
    store = LocalDisk(folder, NO_PACKS)
    for entry in entries:
        for stored in entry.formats.values():
            store.check(stored.key, stored.bytes, stored.sha256)


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_unchanged_leaders_are_reused_and_rewrites_are_equal(parquet: Path, tmp_path: Path) -> None:
    sink = LocalDisk(tmp_path / "files", NO_PACKS).stage(SNAPSHOT)
    with source_on(parquet).open(AS_OF) as reading:
        first, report = exported(reading, sink)
        assert not first.reused
        assert first.rows == report.rows > 0
        # A task that is retried writes the same files again.
        again, _ = exported(reading, sink)
        assert sorted(again.entries, key=_leader) == sorted(first.entries, key=_leader)
        previous = {entry.client_id: entry.fingerprint for entry in first.entries if entry.client_id}
        changed = previous.popitem()[0]
        results, report = exported(reading, sink, previous)
        assert [entry.client_id for entry in results.entries] == ["", changed]
        assert sorted(results.reused) == sorted(previous)
        assert report.reused_leaders == len(previous)


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_leader_split_over_tasks_has_the_same_files(parquet: Path, tmp_path: Path) -> None:
    platform = with_one_huge_leader(parquet, tmp_path / "platform")
    expected, (report,) = embedded(platform, tmp_path, TEXTS, ["members"])
    smallest, *_, largest = sorted((entry for entry in expected if entry.client_id), key=lambda entry: entry.rows)
    assert largest.rows > report.rows * 0.6
    assert largest.formats["json"].content_bytes > PART_BYTES
    sink = LocalDisk(tmp_path / "split", NO_PACKS).stage(SNAPSHOT)
    failing = FailingOnce(sink, tmp_path / "marks", (smallest.client_id, largest.client_id))
    failing.folder.mkdir()
    with source_on(platform, partition_rows=400).open(AS_OF) as reading:
        found, split_report = exported(reading, cast("FileSink", failing), formats=TEXTS)
        assert sorted(found.entries, key=_leader) == sorted(expected, key=_leader)
        assert split_report == report
        assert found.rows == report.rows
        assert {path.name for path in failing.folder.iterdir()} == set(failing.leaders)
        previous = {entry.client_id: entry.fingerprint for entry in found.entries}
        again, _ = exported(reading, sink, previous, formats=TEXTS)
        assert [entry.client_id for entry in again.entries] == [""]
        assert largest.client_id in again.reused
    sink.commit()
    check_stored(tmp_path / "split", found.entries)


@pytest.mark.release
def test_catalog_tables_and_views_produce_the_same_files(session: SparkSession, parquet: Path, tmp_path: Path) -> None:
    """Queries of the directory can use the source tables and the other tables of the database."""
    expected, _ = embedded(parquet, tmp_path, ("csv",), ["members"])
    session.sql("DROP DATABASE IF EXISTS platform CASCADE")
    session.sql("CREATE DATABASE platform")
    session.sql("CREATE VIEW platform.accounts AS SELECT 'Ana' AS first_name")
    for table in SOURCE_TABLES:
        kind = "TABLE" if table.name in {"leaders", "members"} else "VIEW"
        session.sql(f"CREATE {kind} platform.{table.name} AS SELECT * FROM parquet.`{parquet}/{table.name}.parquet`")
    source = source_on(Path("catalog:platform"))
    with source.open(AS_OF) as reading:
        found, _ = exported(reading, LocalDisk(tmp_path / "spark", NO_PACKS).stage(SNAPSHOT), formats=("csv",))
    assert sorted(found.entries, key=_leader) == sorted(expected, key=_leader)
    counted = "SELECT count(*) AS leaders, (SELECT max(first_name) FROM accounts) AS first_name FROM leaders"
    assert source.query(counted) == [{"leaders": 8, "first_name": "Ana"}]


@pytest.mark.release
def test_integer_keys_become_uuids_in_a_view(session: SparkSession) -> None:
    for statement in ("DROP DATABASE IF EXISTS export CASCADE", *statements_of("Spark")):
        session.sql(statement)
    session.sql(
        f"CREATE VIEW export.members AS SELECT n, export.uuid_key('member', id) AS member_id FROM {rows('BIGINT')}"
    )
    found = session.newSession().sql("SELECT member_id FROM export.members ORDER BY n").collect()
    assert [row[0] for row in found] == EXPECTED


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_unreadable_file_fails_a_query_with_its_name(parquet: Path, tmp_path: Path) -> None:
    folder = linked(parquet, tmp_path / "platform")
    content = bytearray((folder / "leaders.parquet").read_bytes())
    content[4 : len(content) // 4] = bytes(len(content) // 4 - 4)
    (folder / "leaders.parquet").unlink()
    (folder / "leaders.parquet").write_bytes(content)
    with pytest.raises(SourceUnavailable, match=r"\(Spark\): .*leaders\.parquet"):
        source_on(folder).query("SELECT max(leader_name) FROM leaders")


@pytest.mark.usefixtures("session")
def test_raised_text_is_left_out(parquet: Path) -> None:
    with pytest.raises(SourceUnavailable) as refused:
        source_on(parquet).query("SELECT raise_error(concat('Leader ', leader_name)) FROM leaders")
    assert "Leader " not in refused.value.message
    assert "may quote a row" in refused.value.message


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_all_table_and_model_errors_are_listed(parquet: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(SourceError, match="table leaders is missing"),
        source_on(tmp_path).open(AS_OF),
    ):
        pass
    (tmp_path / "leaders.parquet").symlink_to(parquet / "leaders.parquet")
    models = {name: Model(name, "SELECT 1 AS one", f"{name}.sql") for name in RESOURCE_NAMES}
    models["members"] = Model("members", "SELECT nonsense FROM leaders", "other.sql")
    with (
        source_on(tmp_path, models=models).open(datetime(2026, 1, 1, tzinfo=UTC)) as reading,
        pytest.raises(SourceError) as caught,
    ):
        reading.check()
    assert "communities.sql: column one is not part of communities" in caught.value.message
    assert "other.sql" in caught.value.message


def linked(parquet: Path, folder: Path) -> Path:
    """Make a folder of links to all tables, which a test can replace."""
    folder.mkdir()
    for path in parquet.glob("*.parquet"):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_ambiguous_tables_are_rejected(parquet: Path, tmp_path: Path) -> None:
    folder = linked(parquet, tmp_path / "platform")
    other = folder / "members"
    other.mkdir()
    with source_on(folder).open(AS_OF) as reading:
        reading.check()  # an empty folder is not a table
    (other / "part-0.parquet").symlink_to(parquet / "members.parquet")
    with (
        pytest.raises(SourceError, match=r"Table members exists twice: .*members and .*members\.parquet\. Remove"),
        source_on(folder).open(AS_OF),
    ):
        pass
    (folder / "members.parquet").unlink()
    (other / "_part-1").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=r"_part-1: not a complete Parquet file"), source_on(folder).open(AS_OF):
        pass
    (other / "_part-1").unlink()
    (other / "_delta_log").mkdir()
    (other / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(SourceError, match=r"members is a Delta table"), source_on(folder).open(AS_OF):
        pass


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_unusual_values_are_read_as_in_duckdb(parquet: Path, tmp_path: Path) -> None:
    """Counts as decimals, other notations of identifiers, and rows that occur twice, in compiled queries."""
    folder = linked(parquet, tmp_path / "platform")
    changes = {
        "leaders": "SELECT * REPLACE (replace(leader_id, '-', '') AS leader_id) FROM rows",
        "campaigns": "SELECT * REPLACE (upper(campaign_id) AS campaign_id) FROM rows",
        "campaign_links": "(FROM rows) UNION ALL (FROM rows)",
        "outbound_messages": (
            "SELECT * REPLACE ('{' || campaign_id || '}' AS campaign_id, upper(leader_id) AS leader_id, "
            "CAST(segment_count AS DECIMAL(9, 2)) AS segment_count, CAST(2 AS DECIMAL(9, 2)) AS unit_count) "
            "FROM rows"
        ),
    }
    with closing(duckdb.connect()) as engine:
        for table, query in changes.items():
            (folder / f"{table}.parquet").unlink()
            rows = f"WITH rows AS (FROM read_parquet('{parquet}/{table}.parquet'))"
            engine.execute(f"COPY ({rows} {query}) TO '{folder}/{table}.parquet'")
    resources = ("campaigns", "outbound_message_type_usage", "campaign_links")
    expected, _ = embedded(folder, tmp_path, ("csv",), resources)
    sink, results = LocalDisk(tmp_path / "spark", NO_PACKS).stage(SNAPSHOT), ExportResults()
    with source_on(folder, settings={**SETTINGS, **COMPILED}).open(AS_OF) as reading:
        for resource in resources:
            reading.export(export_job(resource, ("csv",)), sink, results)
    assert sorted(results.entries, key=by_resource) == sorted(expected, key=by_resource)


def with_invalid_identifier(parquet: Path, folder: Path, table: str, column: str) -> Path:
    """Copy the platform, with one identifier of a table that is not a UUID, and two counts that are out of range."""
    linked(parquet, folder)
    (folder / f"{table}.parquet").unlink()
    rows = f"read_parquet('{parquet}/{table}.parquet')"
    replaced = f"CASE WHEN {column} = (SELECT max({column}) FROM {rows}) THEN 'acme' ELSE {column} END AS {column}"
    with closing(duckdb.connect()) as engine:
        engine.execute(f"COPY (SELECT * REPLACE ({replaced}) FROM {rows}) TO '{folder}/{table}.parquet'")
        messages = f"read_parquet('{parquet}/outbound_messages.parquet')"
        (folder / "outbound_messages.parquet").unlink()
        engine.execute(
            f"COPY (SELECT * REPLACE (CASE WHEN message_id = (SELECT max(message_id) FROM {messages}) THEN 1.5 "
            f"WHEN message_id = (SELECT min(message_id) FROM {messages}) THEN -1 ELSE segment_count END "
            f"AS segment_count) FROM {messages}) TO '{folder}/outbound_messages.parquet'"
        )
    return folder


def with_earliest_instant(file: Path) -> None:
    """Write a table of Members again, the first of which was activated at the earliest instant of Parquet."""
    rows = pyarrow.parquet.read_table(file)
    place = rows.column_names.index("first_activated_at")
    instants = rows.column(place).cast(pa.timestamp("us", "UTC"))
    numbers = pa.array([-(2**63), *instants.cast(pa.int64()).to_pylist()[1:]], pa.int64())
    file.unlink()
    pyarrow.parquet.write_table(rows.set_column(place, "first_activated_at", numbers.view(instants.type)), file)


@pytest.mark.release
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("table", "column"), [("leaders", "leader_id"), ("members", "member_id")])
def test_malformed_rows_are_refused_as_in_duckdb(parquet: Path, tmp_path: Path, table: str, column: str) -> None:
    folder = with_invalid_identifier(parquet, tmp_path / "platform", table, column)
    with_earliest_instant(folder / "members.parquet")
    source = duckdb_source(folder, tmp_path / "spill")
    results = ExportResults()
    with source.open(AS_OF) as reading:
        reading.check()
        malformed, leaders = reading.malformed, reading.leaders()
        reading.export(
            export_job("members", ("csv",)), LocalDisk(tmp_path / "duckdb", NO_PACKS).stage(SNAPSHOT), results
        )
    with source_on(folder).open(AS_OF) as spark:
        spark.check()
        assert (spark.malformed, spark.leaders()) == (malformed, leaders)
        found = ExportResults()
        spark.export(export_job("members", ("csv",)), LocalDisk(tmp_path / "spark", NO_PACKS).stage(SNAPSHOT), found)
    counts = ("outbound_messages", "segment_count", 2)
    assert [(rows.table, rows.column, rows.rows) for rows in malformed] == [(table, column, 1), counts]
    assert sorted(found.entries, key=_leader) == sorted(results.entries, key=_leader)


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_malformed_rows_fail_a_run_if_configured(parquet: Path, tmp_path: Path) -> None:
    folder = with_invalid_identifier(parquet, tmp_path / "platform", "leaders", "leader_id")
    for path in folder.iterdir():
        if path.name != "leaders.parquet":
            path.unlink()
    models = {name: Model(name, "SELECT leader_id FROM leaders", "own.sql") for name in RESOURCE_NAMES}
    source = replace(source_on(folder, models=models), malformed_rows="fail")
    with (
        source.open(AS_OF) as reading,
        pytest.raises(SourceError, match=r"leaders: leader_id is malformed in 1 row, such as leader_id 'acme'"),
    ):
        reading.check()


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_doctor_stops_an_endless_model_and_runs_the_others(parquet: Path) -> None:
    own = {"campaigns": ENDLESS_MODEL, "members": OWN_MODELS["members"]}
    source = replace(source_on(parquet), models={**load_models(), **own})
    assert run_own_models(source, AS_OF, 20) == "2 models run for up to 1,000 rows. Stopped after 20 s: endless.sql"


@pytest.mark.release
@pytest.mark.usefixtures("session")
def test_rows_are_accounted_for_as_in_duckdb(tmp_path: Path) -> None:
    folder = tmp_path / "platform"
    make_platform(folder, PlatformSizes(leaders=8, members=600, messages=3000), as_of=AS_OF)
    add_faults(folder, AS_OF, 7)
    convert_identifiers(folder)
    source = duckdb_source(folder, tmp_path / "spill")
    with source.open(AS_OF) as reading:
        expected = accounted_for(reading, "duckdb", AS_OF)
    sink = LocalDisk(tmp_path / "spark", NO_PACKS).stage(SNAPSHOT)
    with source_on(folder).open(AS_OF) as spark:
        found, others = accounted_for(spark, "spark", AS_OF, sink)
    assert {found.status[name] for name in RESOURCE_NAMES} == {"proved"}, found.tables
    assert (found, others) == expected
