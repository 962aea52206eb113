"""Broken models, shipped and the operator's own: each one holds the publication."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from daybreak.catalogue.models import Model, load_models
from daybreak.catalogue.resources import RESOURCE_NAMES
from daybreak.demo.plan import PlatformSizes
from daybreak.demo.platform import make_platform
from daybreak.domain.errors import SourceError
from daybreak.domain.run_report import Accounting, OwnRules
from daybreak.proof.model_rules import rules_of
from daybreak.proof.own_models import read_own_models
from daybreak.settings import GuardSettings
from daybreak.snapshots.guard import own_rule_findings, unexplained_findings
from daybreak.sources.duckdb import DuckdbSource
from tests.parts.export_rows import AS_OF
from tests.parts.row_faults import accounting, add_faults
from tests.parts.variants import some_of

GUARD = GuardSettings()
SWAPPED = (
    "    CASE WHEN member_id = max(member_id) OVER (PARTITION BY leader_id) THEN min(member_id) "
    "OVER (PARTITION BY leader_id) ELSE member_id END AS"
)
ONE_SWAPPED = (
    "    CASE member_id WHEN (SELECT max(member_id) FROM members) THEN (SELECT min(member_id) FROM members) "
    "ELSE member_id END AS"
)
BROKEN_MODELS = [
    ("members", "FROM members", "FROM members WHERE email IS NOT NULL"),
    ("members", "    member_id AS", ONE_SWAPPED),
    ("member_state_changes", "state_changed_at <= :as_of", "state_changed_at < :as_of"),
    ("member_term_accepts", "LEFT JOIN leaders AS p", "JOIN leaders AS p"),
    ("custom_member_data", "LEFT JOIN deleted", "JOIN deleted"),
    ("campaigns", "COALESCE(sent.segment_count, 0)", "0"),
    ("campaign_links", "WHERE hit_at <= :as_of", "WHERE hit_at <= :as_of AND member_id IS NOT NULL"),
    ("member_communities", "belonging.belongs = 1", "belonging.belongs >= 0"),
]  # fmt: skip
# `make test` does without these.
OTHER_BROKEN_MODELS = [
    ("members", "FROM members", "FROM members SEMI JOIN custom_field_values USING (member_id)"),
    ("members", "FROM members", "FROM members CROSS JOIN (VALUES (1), (2)) AS twice (n)"),
    # The first Member is exported in place of the last one.
    ("members", "    member_id AS", SWAPPED),
    ("member_state_changes", "state_changed_at <= :as_of", "state_changed_at <= :as_of OR state_changed_at IS NULL"),
    ("member_state_changes", "state_changed_at AS", "state_changed_at + INTERVAL 1 MICROSECOND AS"),
    ("member_term_accepts", "INTERVAL '90' DAY", "INTERVAL '89' DAY"),
    ("custom_member_data", "v.custom_field_name AS", "upper(v.custom_field_name) AS"),
    ("communities", "LEFT JOIN (", "JOIN ("),
    ("campaigns", "c.sent_at <= :as_of", "c.sent_at <= :as_of AND NOT c.is_test"),
    ("campaigns", "campaign_id IS NOT NULL AND sent_at <= :as_of", "segment_count < 3 AND sent_at <= :as_of"),
    ("campaigns", "campaign_id IS NOT NULL AND received_at <= :as_of", "NOT is_stop AND received_at <= :as_of"),
    ("outbound_message_type_usage", "WHERE sent_at <= :as_of", "WHERE sent_at <= :as_of AND campaign_id IS NOT NULL"),
    ("campaign_links", "WHERE c.sent_at <= :as_of", "WHERE c.sent_at <= :as_of AND cl.link_type = 'link'"),
]  # fmt: skip


# Accounting of the own models whose rows are not those of one table.
DECLARED = {
    "outbound_message_type_usage": """
        SELECT leader_id, CASE WHEN sent_at <= :as_of THEN NULL ELSE 'later or undated' END AS rule, count(*) AS rows
        FROM outbound_messages GROUP BY ALL
    """,
    "campaign_links": """
        SELECT leader_id, NULL AS rule, count(*) AS rows FROM (
            SELECT DISTINCT c.leader_id, c.campaign_id, l.link_type, l.link_url
            FROM campaign_links AS l JOIN campaigns AS c USING (campaign_id) WHERE c.sent_at <= :as_of
        ) GROUP BY leader_id
    """,
    "member_communities": """
        SELECT c.leader_id, CASE WHEN current THEN NULL ELSE 'left' END AS rule, count(*) AS rows FROM (
            SELECT community_id, member_id, bool_or(left_at IS NULL OR left_at > :as_of) AS current
            FROM community_memberships WHERE joined_at <= :as_of GROUP BY ALL
        ) JOIN communities AS c USING (community_id) GROUP BY ALL
    """,
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faulty")
    make_platform(folder, PlatformSizes(leaders=8, members=600, messages=3000), as_of=AS_OF)
    add_faults(folder, AS_OF, 7)
    return folder


def account_of(
    platform: Path, models: Mapping[str, Model], temp_dir: Path, resources: Sequence[str] = RESOURCE_NAMES
) -> Accounting:
    source = DuckdbSource(platform, models, memory_bytes=300_000_000, threads=1, temp_dir=temp_dir)
    with source.open(AS_OF) as reading:
        return accounting(reading, "duckdb", AS_OF, resources=resources)


def own_models() -> dict[str, Model]:
    """Return the shipped models as own ones."""
    models = {name: Model(name, model.sql, f"{name}.sql") for name, model in load_models().items()}
    for name, sql in DECLARED.items():
        models[name] = replace(models[name], account=Model(name, sql, f"{name}.account.sql"))
    return models


@pytest.fixture(scope="module")
def published(platform: Path, tmp_path_factory: pytest.TempPathFactory) -> Accounting:
    return account_of(platform, own_models(), tmp_path_factory.mktemp("spill"))


@pytest.mark.release
def test_valid_own_models_are_not_held(published: Accounting, platform: Path, tmp_path: Path) -> None:
    assert published.status == {name: "declared" if name in DECLARED else "derived" for name in RESOURCE_NAMES}
    assert own_rule_findings(published, published, GUARD) == []
    shipped = account_of(platform, load_models(), tmp_path)
    tables = {(each.resource, each.table): each for each in shipped.tables}
    for own in published.tables:
        other = tables[own.resource, own.table]
        assert own.exported == other.exported
        if own.resource not in DECLARED:
            assert own.source == other.source
            assert sum(own.excluded.values()) == sum(other.excluded.values())


@pytest.mark.parametrize(("resource", "text", "replacement"), some_of(BROKEN_MODELS, OTHER_BROKEN_MODELS))
def test_broken_model_is_held(
    published: Accounting, platform: Path, tmp_path: Path, resource: str, text: str, replacement: str
) -> None:
    for models in (dict(load_models()), own_models()):
        sql = models[resource].sql
        assert text in sql
        models[resource] = replace(models[resource], sql=sql.replace(text, replacement))
        found = account_of(platform, models, tmp_path / "spill", [resource])
        unexplained, rules = unexplained_findings(found), own_rule_findings(published, found, GUARD)
        assert {each.resource for each in (*unexplained, *rules)} == {resource}
        assert all(each.client_id and each.before != each.now for each in unexplained)
        # An operator's own query of the rows has no keys.
        if models[resource].account is None:
            assert all(re.search(r"\. [A-Z_]+ [0-9a-f-]+", each.detail) for each in unexplained), unexplained
        if models[resource].shipped:
            assert found.status[resource] == "unexplained"
        else:
            assert rules, "a changed model has a rule that is not approved"
            assert found.status[resource] != "proved"
            # Sums of other tables are not counted by account.
            named = [each for each in (*unexplained, *rules) if each.client_id and each.now != each.before]
            assert named or resource in {"campaigns", "campaign_links"}


def test_rows_that_cannot_be_counted_are_unaccounted(platform: Path, tmp_path: Path) -> None:
    members = Model("members", load_models()["members"].sql + "WHERE CAST(email AS INTEGER) > 0", "members.sql")
    source = DuckdbSource(platform, {"members": members}, memory_bytes=300_000_000, threads=1, temp_dir=tmp_path)
    with source.open(AS_OF) as reading:
        (own,) = read_own_models(reading, "duckdb", AS_OF, {}, lambda: None)
    assert (own.identity, own.rows) == (None, ())
    assert "Could not convert" in own.fault
    assert "WHERE CAST(email AS INT) > 0" in own.rules


@pytest.mark.parametrize(
    ("columns", "message"),
    [("'old' AS rule, -1 AS rows", "a negative number of rows"), ("repeat('a', 301) AS rule, 1 AS rows", "300 char")],
)
def test_invalid_own_accounting_is_refused(platform: Path, tmp_path: Path, columns: str, message: str) -> None:
    account = Model("members", f"SELECT leader_id, {columns} FROM members", "members.account.sql")
    members = Model("members", load_models()["members"].sql, "members.sql", account=account)
    source = DuckdbSource(platform, {"members": members}, memory_bytes=300_000_000, threads=1, temp_dir=tmp_path)
    with source.open(AS_OF) as reading, pytest.raises(SourceError, match=f"^members.account.sql has .*{message}"):
        list(read_own_models(reading, "duckdb", AS_OF, {}, lambda: None))


def test_approved_rules_replace_those_of_the_last_publication() -> None:
    rules = ("WHERE a", "WHERE b")
    now = Accounting(own_models={"members": OwnRules(rules)})
    approved = GuardSettings(approved_rules={"members": rules})
    assert own_rule_findings(Accounting(), now, approved) == []
    assert [each.column for each in own_rule_findings(Accounting(), now, GUARD)] == list(rules)
    (lost,) = own_rule_findings(now, Accounting(own_models={"members": OwnRules(rules[:1])}), approved)
    assert lost.detail == "members: the own model no longer has the rule WHERE b."


def test_keys_are_compared_unless_approved_rules_compute_them(platform: Path, tmp_path: Path) -> None:
    sql = load_models()["members"].sql.replace("    member_id AS", "    md5(member_id::VARCHAR)::UUID AS")
    models = {**load_models(), "members": Model("members", sql, "members.sql")}
    (rule,) = (rule for rule in rules_of(models["members"], "duckdb").rules if rule.startswith("MEMBER_ID"))
    source = DuckdbSource(platform, models, memory_bytes=300_000_000, threads=1, temp_dir=tmp_path)
    with source.open(AS_OF) as reading:
        for approved, figures in (([], {"rows", "keys"}), ([rule], {"rows"})):
            (own,) = read_own_models(reading, "duckdb", AS_OF, {"members": approved}, lambda: None)
            assert own.identity is not None
            assert {name for name, _ in own.identity.compared} == figures


@pytest.mark.parametrize(
    ("sql", "rules"),
    [
        ("SELECT a AS A FROM t WHERE (b = 1 AND (c OR d)) AND e", ["WHERE b = 1", "WHERE c OR d", "WHERE e"]),
        ("SELECT a FROM t LEFT JOIN u USING (a), v", ["JOIN v"]),
        ("SELECT DISTINCT a FROM (SELECT a, 1 AS b FROM t LIMIT 5)", ["LIMIT 5", "b: 1", "DISTINCT"]),
        ("SELECT a FROM t WHERE b <= :as_of UNION ALL SELECT a FROM u", ["UNION ALL", "WHERE b <= :as_of"]),
        ("SELECT (", ["SELECT ("]),
        ("SELECT a FROM t UNION ALL SELECT a FROM u LIMIT 5", ["UNION ALL", "LIMIT 5"]),
        ("SELECT a FROM ((SELECT a FROM t) LIMIT 5)", ["LIMIT 5"]),
        ("SELECT a FROM (t JOIN u USING (a))", ["FROM t JOIN u USING (a)"]),
    ],
)
def test_rules_are_named_by_their_sql(sql: str, rules: list[str]) -> None:
    assert list(rules_of(Model("members", sql, "members.sql"), "duckdb").rules) == rules


@pytest.mark.parametrize(
    ("engine", "item", "rule"),
    [
        ("duckdb", "t TABLESAMPLE bernoulli(10%)", "FROM t TABLESAMPLE BERNOULLI (10 PERCENT)"),
        ("duckdb", "t PIVOT (count(*) FOR b IN (1))", "FROM t PIVOT(COUNT(*) FOR b IN (1))"),
        ("postgresql", "ONLY t", "FROM ONLY t"),
        ("spark", "t VERSION AS OF 3", "FROM t VERSION AS OF 3"),
    ],
)
def test_part_of_a_table_is_a_rule_and_not_counted(engine: str, item: str, rule: str) -> None:
    """The rows of a part would agree with the file, and the others would be in no count."""
    found = rules_of(Model("members", f"SELECT LEADER_ID FROM {item}", "members.sql"), engine)
    assert (found.rules, found.counted) == ((rule,), None)


def test_semi_join_of_spark_is_a_rule() -> None:
    sql = "SELECT t.LEADER_ID FROM t LEFT SEMI JOIN u ON t.a = u.a"
    found = rules_of(Model("members", sql, "members.sql"), "spark")
    assert found.counted is not None
    assert found.rules == tuple(step.rule for step in found.counted.steps) == ("LEFT SEMI JOIN u ON t.a = u.a",)


@pytest.mark.parametrize("condition", [f"{'(' * 400}b{')' * 400}", " AND ".join(f"b <> {i}" for i in range(1000))])
def test_deeply_nested_sql_is_one_rule(condition: str) -> None:
    sql = f"SELECT a FROM t WHERE {condition}"
    (rule,) = rules_of(Model("members", sql, "members.sql"), "duckdb").rules
    assert rule.startswith(sql[:300])
