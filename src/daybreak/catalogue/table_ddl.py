"""CREATE TABLE statements for the nine resources, in the SQL of several databases.

The statements declare primary keys, so that a loader can rely on them, but no foreign keys: files can then be loaded
and replaced in any order. A primary key starts with LEADER_ID, so that several accounts can share the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.catalogue.table_schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from sqlglot import exp

_TYPES: Mapping[ColumnType, str] = {
    ColumnType.UUID: "UUID",
    ColumnType.TEXT: "TEXT",
    ColumnType.BIGINT: "BIGINT",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMPTZ",
}


@dataclass(frozen=True, slots=True)
class _Dialect:
    """SQL of one database.

    `types` replaces types that sqlglot would choose. `key_texts` are the text columns that a primary key may contain:
    PostgreSQL indexes texts up to 2,704 bytes, so that only listed values are safe; MySQL and SQL Server need a maximum
    length, which the files do not have.
    """

    sqlglot_name: str
    types: Mapping[ColumnType, str] = field(default_factory=dict)
    key_texts: Literal["any", "listed", "none"] = "any"


_DIALECTS: Mapping[str, _Dialect] = {
    "postgresql": _Dialect("postgres", key_texts="listed"),
    "duckdb": _Dialect("duckdb"),
    "snowflake": _Dialect("snowflake", {ColumnType.UUID: "VARCHAR(36)"}),
    "bigquery": _Dialect("bigquery"),
    "redshift": _Dialect("redshift", {ColumnType.UUID: "VARCHAR(36)"}),
    "mysql": _Dialect(
        "mysql",
        {ColumnType.UUID: "CHAR(36)", ColumnType.TEXT: "LONGTEXT", ColumnType.TIMESTAMP: "DATETIME(6)"},
        key_texts="none",
    ),
    "tsql": _Dialect("tsql", {ColumnType.TEXT: "NVARCHAR(MAX)"}, key_texts="none"),
}
DIALECTS: tuple[str, ...] = tuple(_DIALECTS)


def create_tables(dialect: str) -> str:
    """Return the CREATE TABLE statements of the nine resources. Raises KeyError for another name than `DIALECTS`."""
    target = _DIALECTS[dialect]
    statements = [f"{_create_table(resource, target)};\n" for resource in RESOURCES]
    return "\n".join([f"-- Tables for the files of Daybreak, version {SCHEMA_VERSION} of the columns.\n", *statements])


def _create_table(resource: Resource, dialect: _Dialect) -> str:
    """Return one statement. Column names are quoted, because they are upper-case in the files."""
    # sqlglot is imported on demand: importing it takes longer than most requests.
    from sqlglot import exp

    columns: list[exp.Expression] = [
        exp.ColumnDef(
            this=exp.to_identifier(column.name, quoted=True),
            kind=_type(column, dialect),
            constraints=[] if column.nullable else [exp.ColumnConstraint(kind=exp.NotNullColumnConstraint())],
        )
        for column in resource.columns
    ]
    key = _primary_key(resource, dialect)
    if key:
        names = [exp.to_identifier(name, quoted=True) for name in key]
        # BigQuery accepts only keys that it does not enforce.
        options = ["NOT ENFORCED"] if dialect.sqlglot_name == "bigquery" else []
        columns.append(exp.PrimaryKey(expressions=names, options=options))
    table = exp.Schema(this=exp.to_table(resource.name), expressions=columns)
    return exp.Create(this=table, kind="TABLE").sql(dialect.sqlglot_name, pretty=True)


def _type(column: Column, dialect: _Dialect) -> exp.DataType:
    from sqlglot import exp

    replacement = dialect.types.get(column.type)
    if replacement is not None:
        return exp.DataType.build(replacement, dialect=dialect.sqlglot_name)
    return exp.DataType.build(_TYPES[column.type], dialect="duckdb")


def _primary_key(resource: Resource, dialect: _Dialect) -> tuple[str, ...]:
    """Return the columns of the primary key, () without one."""
    texts = [column for column in map(resource.column, resource.key) if column.type is ColumnType.TEXT]
    indexable = dialect.key_texts == "any" or all(
        dialect.key_texts == "listed" and bool(column.allowed) for column in texts
    )
    return ("LEADER_ID", *resource.key) if resource.key_is_unique and indexable else ()
