"""CREATE TABLE statements: complete, accepted by each parser, and executed where an engine can run."""

import subprocess
import sys

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from daybreak.catalogue.resources import RESOURCE_NAMES, RESOURCES, resource_named
from daybreak.catalogue.table_ddl import DIALECTS, create_tables

PARSERS = {"postgresql": "postgres"}
WITHOUT_TEXT_KEYS = {"outbound_message_type_usage", "campaign_links", "custom_member_data"}


def tables(dialect: str) -> dict[str, exp.Schema]:
    parsed = sqlglot.parse(create_tables(dialect), read=PARSERS.get(dialect, dialect))
    schemas = [statement.this for statement in parsed if isinstance(statement, exp.Create)]
    return {schema.this.name: schema for schema in schemas}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_statements_have_every_column(dialect: str) -> None:
    found = tables(dialect)
    assert tuple(found) == RESOURCE_NAMES
    for name, schema in found.items():
        columns = [column for column in schema.expressions if isinstance(column, exp.ColumnDef)]
        resource = resource_named(name)
        assert [column.name for column in columns] == list(resource.column_names)
        not_null = [bool(column.find(exp.NotNullColumnConstraint)) for column in columns]
        assert not_null == [not column.nullable for column in resource.columns]


@pytest.mark.parametrize(
    ("dialect", "keyless"),
    [
        ("duckdb", set()),
        ("snowflake", set()),
        ("bigquery", set()),
        ("redshift", set()),
        ("postgresql", {"campaign_links", "custom_member_data"}),
        ("mysql", WITHOUT_TEXT_KEYS),
        ("tsql", WITHOUT_TEXT_KEYS),
    ],
)
def test_unique_keys_are_primary_keys(dialect: str, keyless: set[str]) -> None:
    expected = {
        resource.name: ["LEADER_ID", *resource.key]
        for resource in RESOURCES
        if resource.key_is_unique and resource.name not in keyless
    }
    keys = {name: schema.find(exp.PrimaryKey) for name, schema in tables(dialect).items()}
    assert {name: [column.name for column in key.expressions] for name, key in keys.items() if key} == expected


def test_bigquery_keys_are_not_enforced() -> None:
    assert create_tables("bigquery").count("PRIMARY KEY") == create_tables("bigquery").count("NOT ENFORCED") == 7


def test_times_are_instants_and_texts_unbounded() -> None:
    assert '"SENT_AT" TIMESTAMPTZ' in create_tables("snowflake")
    assert "`SENT_AT` DATETIME(6)" in create_tables("mysql")
    assert "[SENT_AT] DATETIMEOFFSET" in create_tables("tsql")
    assert "[TEXT] NVARCHAR(MAX)" in create_tables("tsql")


def test_duckdb_accepts_the_statements() -> None:
    with duckdb.connect() as database:
        database.execute(create_tables("duckdb"))
        types = dict(
            database.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'campaigns'"
            ).fetchall()
        )
    assert types["CAMPAIGN_ID"] == "UUID"
    assert types["SENT_AT"] == "TIMESTAMP WITH TIME ZONE"


def test_other_dialects_are_unknown() -> None:
    with pytest.raises(KeyError):
        create_tables("oracle")


def test_sqlglot_is_loaded_on_demand() -> None:
    code = "import sys, daybreak.catalogue.table_ddl; print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
