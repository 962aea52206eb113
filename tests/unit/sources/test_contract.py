"""Checks of a source against the catalogue."""

import pytest
import sqlglot

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.models import Model, load_models, required_tables
from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError
from daybreak.sources.contract import (
    Columns,
    ModelRejected,
    check_models,
    check_tables,
    check_terms,
    checked_leaders,
    usable_tables,
)

ACCEPTED = {kind: (kind.name, "ANY") for kind in ColumnType}


def tables(**changes: Columns | None) -> dict[str, Columns]:
    """Return the columns of all source tables. None omits a table."""
    found: dict[str, Columns] = {
        table.name: [(column.name, column.type.name) for column in table.columns] for table in SOURCE_TABLES
    }
    for name, columns in changes.items():
        if columns is None:
            del found[name]
        else:
            found[name] = columns
    return found


def test_own_model_removes_the_requirement_of_a_table() -> None:
    shipped = load_models()
    assert list(required_tables(shipped)) == list(SOURCE_TABLES)
    own = Model("member_term_accepts", "SELECT 1", "mine.sql")
    required = required_tables({**shipped, "member_term_accepts": own})
    assert {table.name for table in SOURCE_TABLES} - {table.name for table in required} == {
        "member_term_accepts", "terms"
    }  # fmt: skip
    other = tables(terms=None, member_term_accepts=[("other", "TEXT")])
    check_tables("The source", other, ACCEPTED, required)
    assert usable_tables(other, ACCEPTED) == list(required)
    with pytest.raises(SourceError, match="table terms is missing"):
        check_tables("The source", other, ACCEPTED, SOURCE_TABLES)


def test_required_tables_are_those_in_the_sql() -> None:
    for name, model in load_models().items():
        tree = sqlglot.parse_one(model.sql, read="duckdb")
        read = {table.name for table in tree.find_all(sqlglot.exp.Table)} & {table.name for table in SOURCE_TABLES}
        assert {table.name for table in required_tables({name: model})} == read | {"leaders"}


def columns_of(model: Model) -> list[tuple[str, str]]:
    return [(column.name, column.type.name) for column in resource_named(model.resource).columns]


def test_expected_tables_and_models_pass() -> None:
    check_tables("The source", tables(), ACCEPTED, SOURCE_TABLES)
    check_models(load_models(), columns_of, ACCEPTED)


def test_every_table_fault_is_listed() -> None:
    leaders = [("leader_id", "UUID"), ("Leader_Name", "TEXT"), ("parent_leader_id", "BLOB")]
    with pytest.raises(SourceError) as caught:
        check_tables("The source", tables(terms=None, leaders=leaders), ACCEPTED, SOURCE_TABLES)
    first, *faults, advice = caught.value.message.splitlines()
    assert first == "The source is not as expected:"
    assert [fault.strip() for fault in faults] == [
        (
            'column leaders.leader_name is missing. Column "Leader_Name" exists, but names are case-sensitive here: '
            "rename it, or create a view"
        ),
        "column leaders.parent_leader_id is BLOB, expected uuid (UUID or ANY)",
        "column leaders.billing_entity_leader_id is missing",
        "table terms is missing",
    ]
    assert "source.location" in advice


@pytest.mark.parametrize("kind", ["NULL", "ANY(10,2)", "UUID"])
def test_untyped_and_parametrized_types_are_accepted(kind: str) -> None:
    kind = '"NULL"' if kind == "NULL" else kind
    leaders = [(column, kind if column == "leader_id" else "ANY") for column, _ in tables()["leaders"]]
    check_tables("The source", tables(leaders=leaders), ACCEPTED, SOURCE_TABLES)


@pytest.mark.parametrize(
    ("columns", "faults"),
    [
        (
            [("COMMUNITY_ID", "UUID"), ("COMMUNITY_NAME", "TEXT"), ("LEADER_ID", "UUID"), ("MEMBER_COUNT", "DOUBLE")],
            ["column MEMBER_COUNT is DOUBLE, expected bigint (BIGINT or ANY)"],
        ),
        (
            [("COMMUNITY_ID", "UUID"), ("LEADER_ID", "UUID"), ("MEMBER_COUNT", "BIGINT"), ("NAME", "TEXT")],
            ["column NAME is not part of communities", "column COMMUNITY_NAME is missing, expected text"],
        ),
        (
            [("COMMUNITY_ID", "UUID"), ("LEADER_ID", "UUID"), ("COMMUNITY_NAME", "TEXT"), ("MEMBER_COUNT", "BIGINT")],
            ["column 2 is LEADER_ID, expected COMMUNITY_NAME"],
        ),
        (
            [
                ("COMMUNITY_ID", "UUID"), ("COMMUNITY_ID", "UUID"), ("COMMUNITY_NAME", "TEXT"), ("LEADER_ID", "UUID"),
                ("MEMBER_COUNT", "BIGINT"),
            ],
            ["column COMMUNITY_ID occurs more than once"],
        ),
    ],
    ids=["type", "name", "order", "repeated"],
)  # fmt: skip
def test_model_faults_are_listed_with_their_file(columns: list[tuple[str, str]], faults: list[str]) -> None:
    models = {**load_models(), "communities": Model("communities", "SELECT 1", "mine.sql")}

    def changed(model: Model) -> list[tuple[str, str]]:
        return columns if model.origin == "mine.sql" else columns_of(model)

    with pytest.raises(SourceError) as caught:
        check_models(models, changed, ACCEPTED)
    _, *lines, advice = caught.value.message.splitlines()
    assert [line.strip() for line in lines] == [f"mine.sql: {one}" for one in faults]
    assert "snapshot.models_dir" in advice


def test_rejected_models_are_all_named() -> None:
    def rejecting(_model: Model) -> Columns:
        raise ModelRejected("syntax error")

    with pytest.raises(SourceError) as caught:
        check_models(load_models(), rejecting, ACCEPTED)
    assert caught.value.message.count("syntax error") == len(RESOURCES)


@pytest.mark.parametrize(
    "parents",
    [
        [("a", "a")],
        [("a", "b"), ("b", "a")],
        [("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("y", None)],
    ],
)
def test_cycle_of_parents_is_rejected(parents: list[tuple[str, str | None]]) -> None:
    with pytest.raises(SourceError, match=r"cycle: .* -> ") as caught:
        checked_leaders(parents)
    assert "x" not in caught.value.message.split("cycle: ")[1].split(".")[0]


def test_chains_that_end_are_accepted() -> None:
    parents = [("e", "unknown"), ("b", "a"), ("c", "b"), (None, "a"), ("d", "b"), ("a", None)]
    assert checked_leaders(parents) == ["a", "b", "c", "d", "e"]


def test_repeated_leader_is_rejected() -> None:
    with pytest.raises(SourceError, match="two rows for leader_id a"):
        checked_leaders([("a", None), ("a", "b")])


def test_repeated_terms_are_rejected() -> None:
    check_terms(SOURCE_TABLES, lambda _: None)
    with pytest.raises(SourceError, match="two rows for term_id t"):
        check_terms(SOURCE_TABLES, lambda _: ("t",))
    check_terms([], lambda _: ("t",))  # no shipped model reads the table
