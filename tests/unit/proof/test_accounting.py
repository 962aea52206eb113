"""Row accounting in the embedded engine: every row of every table is exported or counted under its rule."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.models import load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.snapshots.guard import unexplained_findings
from daybreak.sources.duckdb import DuckdbSource
from tests.parts.export_rows import AS_OF
from tests.parts.row_faults import accounting, add_faults, excluded, table_sizes

ROWS = 7


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    folder = tmp_path / "platform"
    make_platform(folder, PlatformSizes(leaders=8, members=600, messages=3000), as_of=AS_OF)
    return folder


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faulty")
    make_platform(folder, PlatformSizes(leaders=8, members=600, messages=3000), as_of=AS_OF)
    add_faults(folder, AS_OF, ROWS)
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


SWAPPED = (
    "    CASE WHEN member_id = max(member_id) OVER (PARTITION BY leader_id) THEN min(member_id) "
    "OVER (PARTITION BY leader_id) ELSE member_id END AS"
)
BROKEN_MODELS = [
    ("members", "FROM members", "FROM members WHERE email IS NOT NULL"),
    ("members", "FROM members", "FROM members SEMI JOIN custom_field_values USING (member_id)"),
    ("members", "FROM members", "FROM members CROSS JOIN (VALUES (1), (2)) AS twice (n)"),
    # The first Member is exported in place of the last one.
    ("members", "    member_id AS", SWAPPED),
    ("member_state_changes", "state_changed_at <= :as_of", "state_changed_at < :as_of"),
    ("member_state_changes", "state_changed_at <= :as_of", "state_changed_at <= :as_of OR state_changed_at IS NULL"),
    ("member_state_changes", "state_changed_at AS", "state_changed_at + INTERVAL 1 MICROSECOND AS"),
    ("member_term_accepts", "INTERVAL '90' DAY", "INTERVAL '89' DAY"),
    ("member_term_accepts", "LEFT JOIN leaders AS p", "JOIN leaders AS p"),
    ("custom_member_data", "LEFT JOIN deleted", "JOIN deleted"),
    ("custom_member_data", "v.custom_field_name AS", "upper(v.custom_field_name) AS"),
    ("communities", "LEFT JOIN (", "JOIN ("),
    ("campaigns", "c.sent_at <= :as_of", "c.sent_at <= :as_of AND NOT c.is_test"),
    ("campaigns", "campaign_id IS NOT NULL AND sent_at <= :as_of", "segment_count < 3 AND sent_at <= :as_of"),
    ("campaigns", "campaign_id IS NOT NULL AND received_at <= :as_of", "NOT is_stop AND received_at <= :as_of"),
    ("outbound_message_type_usage", "WHERE sent_at <= :as_of", "WHERE sent_at <= :as_of AND campaign_id IS NOT NULL"),
    ("campaign_links", "WHERE hit_at <= :as_of", "WHERE hit_at <= :as_of AND member_id IS NOT NULL"),
    ("campaign_links", "WHERE c.sent_at <= :as_of", "WHERE c.sent_at <= :as_of AND cl.link_type = 'link'"),
    ("member_communities", "belonging.belongs = 1", "belonging.belongs >= 0"),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "text", "replacement"), BROKEN_MODELS)
def test_broken_model_is_unexplained(faulty: Path, tmp_path: Path, resource: str, text: str, replacement: str) -> None:
    models = dict(load_models())
    assert text in models[resource].sql
    models[resource] = replace(models[resource], sql=models[resource].sql.replace(text, replacement))
    source = DuckdbSource(faulty, models, memory_bytes=300_000_000, threads=2, temp_dir=tmp_path / "spill")
    with source.open(AS_OF) as reading:
        found = accounting(reading, "duckdb", AS_OF)
    assert found.status[resource] == "unexplained"
    findings = unexplained_findings(found)
    assert {each.resource for each in findings} == {resource}
    assert all(each.client_id and each.before != each.now for each in findings)


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
    assert len(list(found.warnings())) >= 7


def test_own_model_is_not_accounted_for(parquet: Path, tmp_path: Path) -> None:
    own = tmp_path / "models"
    own.mkdir()
    (own / "campaigns.sql").write_text(load_models()["campaigns"].sql)
    with source_on(parquet, tmp_path / "spill", own).open(AS_OF) as reading:
        found = accounting(reading, "duckdb", AS_OF)
    assert found.status == {name: "unaccounted" if name == "campaigns" else "proved" for name in RESOURCE_NAMES}
    assert "campaigns: rows are not accounted for" in " ".join(found.warnings())
