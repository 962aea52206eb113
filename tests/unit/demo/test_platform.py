"""The demo platform: schema, reproducibility and variety."""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import duckdb
import pytest

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import PlatformSummary, make_platform

AS_OF = datetime(2026, 11, 20, 4, tzinfo=UTC)
SQL_TYPES = {
    ColumnType.UUID: "UUID",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BIGINT: "BIGINT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> PlatformSummary:
    return make_platform(
        tmp_path_factory.mktemp("platform"), PlatformSizes(leaders=40, members=20_000, messages=60_000), as_of=AS_OF
    )


@pytest.fixture
def tables(platform: PlatformSummary) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table in platform.rows:
            connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{platform.folder}/{table}.parquet')"
            )
        yield connection


def count(tables: duckdb.DuckDBPyConnection, query: str) -> int:
    found = tables.execute(query).fetchone()
    assert found is not None
    return int(found[0])


def test_tables_have_the_columns_and_types_of_the_source_schema(tables: duckdb.DuckDBPyConnection) -> None:
    for table in SOURCE_TABLES:
        described = tables.execute(f"DESCRIBE {table.name}").fetchall()
        assert [(name, kind) for name, kind, *_ in described] == [(c.name, SQL_TYPES[c.type]) for c in table.columns]


def test_required_columns_have_no_nulls_and_keys_are_unique(tables: duckdb.DuckDBPyConnection) -> None:
    for table in SOURCE_TABLES:
        for column in table.columns:
            nulls = count(tables, f"SELECT count(*) FROM {table.name} WHERE {column.name} IS NULL")
            assert column.nullable or nulls == 0, (table.name, column.name)
        if table.primary_key:
            key = ", ".join(table.primary_key)
            assert count(tables, f"SELECT count(*) - count(DISTINCT ({key})) FROM {table.name}") == 0, table.name


@pytest.mark.release
def test_files_depend_on_the_seed_and_not_on_threads(tmp_path: Path) -> None:
    def digests(name: str, threads: int, seed: int) -> dict[str, str]:
        summary = make_platform(
            tmp_path / name,
            PlatformSizes(leaders=12, members=3_000, messages=9_000),
            seed=seed,
            as_of=AS_OF,
            threads=threads,
        )
        return {table: sha256((summary.folder / f"{table}.parquet").read_bytes()).hexdigest() for table in summary.rows}

    first = digests("one", 1, seed=3)
    assert digests("four", 4, seed=3) == first
    assert digests("other", 1, seed=4) != first


def test_every_reference_resolves(tables: duckdb.DuckDBPyConnection) -> None:
    for child, column, parent in [
        ("members", "leader_id", "leaders"),
        ("leaders", "parent_leader_id", "leaders"),
        ("campaigns", "leader_id", "leaders"),
        ("outbound_messages", "campaign_id", "campaigns"),
        ("inbound_messages", "campaign_id", "campaigns"),
        ("campaign_links", "campaign_id", "campaigns"),
        ("link_hits", "link_id", "campaign_links"),
        ("member_term_accepts", "term_id", "terms"),
        ("community_memberships", "community_id", "communities"),
    ]:
        key = column.replace("parent_", "")
        orphans = f"""
            SELECT count(*) FROM {child} c
            WHERE {column} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {parent} p WHERE p.{key} = c.{column})
        """
        assert count(tables, orphans) == 0, (child, column)
    for child in (
        "member_state_changes",
        "outbound_messages",
        "inbound_messages",
        "member_term_accepts",
        "custom_field_values",
    ):
        mismatches = f"""
            SELECT count(*) FROM {child} c LEFT JOIN members m USING (member_id)
            WHERE m.leader_id IS DISTINCT FROM c.leader_id
        """
        assert count(tables, mismatches) == 0, child


def test_leader_sizes_are_uneven_and_one_is_empty(platform: PlatformSummary, tables: duckdb.DuckDBPyConnection) -> None:
    assert platform.largest_leaders_share > 0.4
    assert count(tables, "SELECT count(*) FROM leaders WHERE leader_id NOT IN (SELECT leader_id FROM members)") == 1
    assert count(tables, "SELECT count(*) FROM leaders WHERE parent_leader_id IS NOT NULL") > 5


def test_platform_has_edge_cases_and_rows_after_as_of(tables: duckdb.DuckDBPyConnection) -> None:
    as_of = f"TIMESTAMPTZ '{AS_OF.isoformat()}'"
    for query in [
        "SELECT count(*) FROM campaigns WHERE contains(text, chr(10))",
        "SELECT count(*) FROM campaigns WHERE contains(text, '\"')",
        "SELECT count(*) FROM campaigns WHERE text IS NULL",
        "SELECT count(*) FROM campaigns WHERE text = ''",
        "SELECT count(*) FROM members WHERE email = ''",
        "SELECT count(*) FROM members WHERE subscription_state = 'deleted' AND last_name IS NOT NULL",
        f"SELECT count(*) FROM outbound_messages WHERE sent_at > {as_of}",
        f"SELECT count(*) FROM community_memberships WHERE left_at > {as_of}",
        f"SELECT count(*) FROM community_memberships WHERE joined_at > {as_of}",
        f"SELECT count(*) FROM member_term_accepts WHERE accepted_at = {as_of} - INTERVAL 90 DAY",
        f"SELECT count(*) FROM member_term_accepts WHERE accepted_at = {as_of}",
        "SELECT count(*) - count(DISTINCT (community_id, member_id)) FROM community_memberships",
        "SELECT count(*) - count(DISTINCT (campaign_id, link_type, link_url)) FROM campaign_links",
    ]:
        assert count(tables, query) > 0, query


def test_phone_numbers_are_e164(tables: duckdb.DuckDBPyConnection) -> None:
    assert (
        count(tables, r"SELECT count(*) FROM members WHERE NOT regexp_full_match(phone_number, '\+[1-9][0-9]{9,14}')")
        == 0
    )


def test_last_state_change_matches_the_member(tables: duckdb.DuckDBPyConnection) -> None:
    wrong = """
        SELECT count(*) FROM members JOIN (
            SELECT member_id, arg_max(subscription_state, state_changed_at) AS last_state
            FROM member_state_changes GROUP BY member_id
        ) USING (member_id) WHERE last_state <> subscription_state
    """
    assert count(tables, wrong) == 0


def test_progress_reports_each_table(tmp_path: Path) -> None:
    rows: dict[str, int] = {}
    sizes = PlatformSizes(leaders=1, members=1, messages=1)
    summary = make_platform(tmp_path, sizes, as_of=AS_OF, on_progress=rows.__setitem__)
    assert rows == summary.rows
    assert rows.keys() == {table.name for table in SOURCE_TABLES}
    assert {path.name for path in tmp_path.iterdir()} == {f"{table}.parquet" for table in rows}


def test_ctrl_c_during_a_query_stops_the_generator(tmp_path: Path) -> None:
    def interrupt(_table: str, _rows: int) -> None:
        raise RuntimeError("Query interrupted")

    with pytest.raises(KeyboardInterrupt):
        make_platform(tmp_path, PlatformSizes(leaders=2, members=10, messages=10), as_of=AS_OF, on_progress=interrupt)
    assert not (tmp_path / ".making").exists()
