"""Referential checks: relations between resources, as the catalogue declares them."""

from collections.abc import Callable, Collection
from contextlib import closing
from typing import NamedTuple

from daybreak.catalogue.columns import TIMES, ColumnType
from daybreak.catalogue.resources import RESOURCES, Reference, Resource, RowCount
from daybreak.domain.run_report import ReferentialFault
from daybreak.export.engine import engine_faults
from daybreak.export.sql import identifier
from daybreak.export.work_tables import EmbeddedRows


class Check(NamedTuple):
    """A check of a relation. `text` states the relation. `query` returns the number of violations and one example, and
    depends only on the exported rows of `resources`. These are none for a key with a time, which a file may lack.
    """

    code: str
    text: str
    query: str
    resources: tuple[str, ...]


def referential_faults(
    rows: EmbeddedRows, resources: Collection[str], skipped: Collection[str] = ()
) -> list[ReferentialFault]:
    """Check the relations as `Reading.referential_faults` does."""

    def known_rows(resource: str) -> str:
        return (
            f"(SELECT r.* FROM ({rows.rows_query(resource)}) AS r "
            'JOIN known_leaders AS k ON k.leader_id = CAST(r."LEADER_ID" AS UUID))'
        )

    faults: list[ReferentialFault] = []
    with engine_faults("The referential checks"), closing(rows.cursor()) as connection:
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE known_leaders AS SELECT CAST(unnest($1) AS UUID) AS leader_id",
            [rows.leaders()],
        )
        for check in check_queries(known_rows, resources, skipped):
            [(count, example)] = connection.execute(check.query).fetchall()
            if count:
                faults.append(ReferentialFault(check.text, count, example, check.code))
    return faults


def check_queries(
    known_rows: Callable[[str], str], resources: Collection[str], skipped: Collection[str] = ()
) -> list[Check]:
    """Return the checks, except those whose code is `skipped`.

    `known_rows` returns a FROM item for a resource's rows of known Leaders. `resources` are the resources with such
    rows. The SQL runs in every engine.
    """
    checked = [resource for resource in RESOURCES if resource.name in resources]
    checks = [_unique_key(resource, known_rows) for resource in checked if resource.key_is_unique]
    for resource in checked:
        checks += (_reference(resource, reference, known_rows) for reference in resource.references)
        if resource.row_count is not None:
            checks.append(_row_count(resource, resource.row_count, known_rows))
    return [check for check in checks if check.code not in skipped]


def unique_code(resource: Resource) -> str:
    """Return the code of the check that the key of a resource is unique."""
    return f"unique:{resource.name}"


def reference_code(resource: Resource, reference: Reference) -> str:
    """Return the code of the check that the values of a reference exist."""
    return f"reference:{resource.name}.{reference.column}"


def row_count_code(resource: Resource, row_count: RowCount) -> str:
    """Return the code of the check that a column is the number of rows of another resource."""
    return f"row_count:{resource.name}.{row_count.column}"


def _example(column: str) -> str:
    """Return SQL for one value of a column as text, which is `NULL` if all are."""
    return f"coalesce(min(CAST({column} AS VARCHAR)), 'NULL')"


def _unique_key(resource: Resource, known_rows: Callable[[str], str]) -> Check:
    # An identifier is unique in the platform, not only among the rows of one Leader.
    has_identifier = resource.column(resource.key[0]).type is ColumnType.UUID
    grouped = resource.key if has_identifier else ("LEADER_ID", *resource.key)
    names = ", ".join(f"r.{identifier(column)}" for column in grouped)
    query = (
        f"SELECT count(*), {_example(f't.{identifier(resource.key[0])}')} FROM (SELECT {names} "
        f"FROM {known_rows(resource.name)} AS r GROUP BY {names} HAVING count(*) > 1) AS t"
    )
    *others, last = resource.key
    verb = "are unique together" if others else "is unique"
    text = f"{', '.join(others)}{' and ' if others else ''}{last} {verb} in {resource.name}"
    has_time = any(resource.column(name).type in TIMES for name in resource.key)
    return Check(unique_code(resource), text, query, () if has_time else (resource.name,))


def _reference(resource: Resource, reference: Reference, known_rows: Callable[[str], str]) -> Check:
    name = identifier(reference.column)
    query = (
        f"SELECT count(*), {_example(f'r.{name}')} FROM {known_rows(resource.name)} AS r "
        f"LEFT JOIN {known_rows(reference.resource)} AS target "
        f'ON target.{name} = r.{name} AND target."LEADER_ID" = r."LEADER_ID" WHERE target.{name} IS NULL'
    )
    text = f"{reference.column} of {resource.name} exists in {reference.resource}"
    return Check(reference_code(resource, reference), text, query, (resource.name, reference.resource))


def _row_count(resource: Resource, row_count: RowCount, known_rows: Callable[[str], str]) -> Check:
    name = identifier(row_count.match)
    query = (
        f"SELECT count(*), {_example(f'r.{name}')} FROM {known_rows(resource.name)} AS r "
        f"LEFT JOIN (SELECT {name}, count(*) AS counted FROM {known_rows(row_count.resource)} AS c GROUP BY {name}) "
        f"AS counts ON counts.{name} = r.{name} WHERE r.{identifier(row_count.column)} <> coalesce(counts.counted, 0)"
    )
    text = f"{row_count.column} of {resource.name} equals the rows of {row_count.resource}"
    return Check(row_count_code(resource, row_count), text, query, (resource.name, row_count.resource))
