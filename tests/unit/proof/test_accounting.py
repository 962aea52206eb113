"""Row accounting in the embedded engine: every row of every table is exported or counted under its rule."""

from contextlib import closing
from datetime import UTC
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.models import load_models
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.snapshots.report import accounting_warnings
from daybreak.sources.duckdb import DuckdbSource
from tests.parts.export_rows import AS_OF
from tests.parts.row_faults import accounting, add_faults, excluded, newest_instants, table_sizes

ROWS = 7


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    folder = tmp_path / "platform"
    make_platform(folder, PlatformSizes(leaders=8, members=600, messages=3000), as_of=AS_OF)
    return folder


def source_on(location: Path, temp_dir: Path, models_dir: Path | None = None) -> DuckdbSource:
    return DuckdbSource(location, load_models(models_dir), memory_bytes=300_000_000, threads=2, temp_dir=temp_dir)


def test_faulty_rows_are_counted_under_their_rules(parquet: Path, tmp_path: Path) -> None:
    source = source_on(parquet, tmp_path / "spill")
    with source.open(AS_OF) as reading:
        before = accounting(reading, "duckdb", AS_OF)
    added = add_faults(parquet, AS_OF, ROWS)
    with source.open(AS_OF) as reading:
        after = accounting(reading, "duckdb", AS_OF)
    assert set(before.status.values()) == {"proved"}
    assert set(after.status.values()) == {"proved"}, after.tables
    assert excluded(after) - excluded(before) == added
    sizes = table_sizes(parquet)
    for table in after.tables:
        assert table.source == sizes[table.table], table
        assert table.source == table.exported + sum(table.excluded.values()), table
    database = tmp_path / "platform.duckdb"
    with closing(duckdb.connect(str(database))) as engine:
        for path in parquet.glob("*.parquet"):
            engine.execute(f"CREATE TABLE {path.stem} AS FROM '{path}'")
    with source_on(database, tmp_path / "spill").open(AS_OF) as reading:
        assert accounting(reading, "duckdb", AS_OF) == after


def test_newest_instants_are_those_up_to_the_snapshot(parquet: Path, tmp_path: Path) -> None:
    add_faults(parquet, AS_OF, 1)
    with source_on(parquet, tmp_path / "spill").open(AS_OF) as reading:
        found = newest_instants(reading, "duckdb", AS_OF)
    instants = {
        "member_state_changes": "state_changed_at",
        "campaigns": "sent_at",
        "outbound_messages": "sent_at",
        "inbound_messages": "received_at",
        "link_hits": "hit_at",
    }
    with closing(duckdb.connect()) as engine:
        newest = {
            table: engine.execute(
                f"SELECT max({at})::TIMESTAMP FROM '{parquet}/{table}.parquet' WHERE {at} <= $1",
                [AS_OF.replace(tzinfo=None)],
            ).fetchall()[0][0]
            for table, at in instants.items()
        }
    assert found == {table: at.replace(tzinfo=UTC) for table, at in newest.items()}


def test_tables_without_rows_have_no_newest_instant(parquet: Path, tmp_path: Path) -> None:
    with closing(duckdb.connect()) as engine:
        path = f"'{parquet}/link_hits.parquet'"
        engine.execute(f"CREATE TABLE none AS FROM {path} LIMIT 0")
        engine.execute(f"COPY none TO {path}")
    with source_on(parquet, tmp_path / "spill").open(AS_OF) as reading:
        assert "link_hits" not in newest_instants(reading, "duckdb", AS_OF)


def test_link_in_two_campaigns_is_unexplained(parquet: Path, tmp_path: Path) -> None:
    links, campaigns = f"'{parquet}/campaign_links.parquet'", f"'{parquet}/campaigns.parquet'"
    with closing(duckdb.connect()) as engine:
        engine.execute(
            f"CREATE TABLE links AS FROM {links} UNION ALL (SELECT * REPLACE ((SELECT campaign_id FROM {campaigns} "
            f"WHERE campaign_id NOT IN (SELECT campaign_id FROM {links}) LIMIT 1) AS campaign_id) FROM {links} "
            f"WHERE link_id = (SELECT mode(link_id) FROM '{parquet}/link_hits.parquet'))"
        )
        engine.execute(f"COPY links TO {links}")
    with source_on(parquet, tmp_path / "spill").open(AS_OF) as reading:
        found = accounting(reading, "duckdb", AS_OF)
    assert found.status["campaign_links"] == "unexplained"


@pytest.mark.release
def test_anomalies_that_exclude_no_row_are_counted(parquet: Path, tmp_path: Path) -> None:
    def change(engine: duckdb.DuckDBPyConnection, table: str, changes: str, rows: int) -> None:
        path = f"'{parquet}/{table}.parquet'"
        engine.execute(f"CREATE TABLE IF NOT EXISTS valid_{table} AS FROM {path}")
        engine.execute(f"CREATE OR REPLACE TABLE changed AS FROM {path}")
        engine.execute(
            f"INSERT INTO changed SELECT * REPLACE ({changes}) FROM valid_{table} WHERE campaign_id IS NOT NULL "
            f"AND campaign_id IN (SELECT campaign_id FROM '{parquet}/campaigns.parquet') ORDER BY ALL LIMIT {rows}"
        )
        engine.execute(f"COPY changed TO {path}")

    with closing(duckdb.connect()) as engine:
        change(engine, "outbound_messages", "NULL AS segment_count", 1)
        change(engine, "outbound_messages", "NULL AS unit_count", 2)
        change(engine, "outbound_messages", "NULL AS member_id", 3)
        change(engine, "inbound_messages", "NULL AS member_id", 4)
        change(engine, "inbound_messages", "NULL AS is_stop", 5)
        change(engine, "inbound_messages", "uuid() AS leader_id", 6)
        terms = f"'{parquet}/terms.parquet'"
        engine.execute(f"CREATE TABLE terms AS FROM {terms} LIMIT 0")
        engine.execute(f"COPY terms TO {terms}")
    with source_on(parquet, tmp_path / "spill").open(AS_OF) as reading:
        found = accounting(reading, "duckdb", AS_OF)
    assert set(found.status.values()) == {"proved"}
    assert found.anomalies == {
        "null_segment_count": 1,
        "null_unit_count": 2,
        "null_recipient": 3,
        "null_sender": 4,
        "null_is_stop": 5,
        "other_leader_of_reply": 6,
        "unknown_term": table_sizes(parquet)["member_term_accepts"],
    }
    assert len(list(accounting_warnings(found))) >= 7
