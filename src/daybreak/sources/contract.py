"""Checks a source against the catalogue: its tables, the columns of its models, its Leaders and terms."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from graphlib import CycleError, TopologicalSorter

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.models import ACCOUNT_COLUMNS, Model
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.catalogue.source_tables import SOURCE_TABLES, SourceTable
from daybreak.domain.errors import SourceError

Columns = Sequence[tuple[str, str]]
"""(name, the engine's type name) in order."""

AcceptedTypes = Mapping[ColumnType, Sequence[str]]
"""The engine's type names that hold each type of the catalogue, by the first part of the name."""

_UNTYPED = ('"NULL"', "void")
"""The type of a column without any value, in DuckDB and Spark. It fits every type."""

_ADVICE = (
    "Check that source.location names the platform's tables. For a table with another name or other columns, create a "
    "view."
)


_MODEL_ADVICE = (
    "Correct the files in snapshot.models_dir, or move one away to use the shipped model. Write names of columns in "
    'capitals and double quotes: AS "LEADER_ID".'
)


class ModelRejected(Exception):
    """The engine rejects a model's SQL. The text is its reason, in one line."""


def check_tables(
    source: str, tables: Mapping[str, Columns], accepted: AcceptedTypes, required: Collection[SourceTable]
) -> None:
    """Check the `required` source tables. `tables` maps lower-case table names to their columns. Column names are in
    lower case if the engine ignores case. Raises SourceError that lists every fault; `source` begins the message.
    """
    faults = [fault for table in required for fault in _table_faults(table, tables.get(table.name), accepted)]
    if faults:
        raise SourceError(f"{source} is not as expected:\n  " + "\n  ".join(faults) + f"\n{_ADVICE}")


def usable_tables(tables: Mapping[str, Columns], accepted: AcceptedTypes) -> list[SourceTable]:
    """Return the source tables that are as the catalogue declares. An operator's own model may read others as they are,
    if no shipped model requires them.
    """
    return [table for table in SOURCE_TABLES if not any(_table_faults(table, tables.get(table.name), accepted))]


def require_distinct(columns: Sequence[str]) -> None:
    """Raise SourceError when columns of a query under [directory] have the same name, in any case: one would win."""
    repeated = [name for name, times in Counter(map(str.lower, columns)).items() if times > 1]
    if repeated:
        raise SourceError(f"A query under [directory] returns a column twice: {', '.join(repeated)}. Name each once.")


def sample_query(model: Model, as_of: datetime, rows: int) -> str:
    """Return a query that computes every column of the first rows of a model."""
    sample = f"SELECT * FROM ({model.at(as_of)}) AS model LIMIT {rows}"
    # DISTINCT needs all columns, and count returns none of their values.
    return f"SELECT count(*) AS sampled FROM (SELECT DISTINCT * FROM ({sample}) AS sample) AS evaluated"


def check_models(models: Mapping[str, Model], columns_of: Callable[[Model], Columns], accepted: AcceptedTypes) -> None:
    """Check the columns of all models. `columns_of` returns a model's columns without running it, and raises
    ModelRejected. Raises SourceError that lists every fault.
    """
    faults: list[str] = []

    def check(model: Model, faults_of: Callable[[Columns], Iterable[str]]) -> None:
        try:
            columns = columns_of(model)
        except ModelRejected as rejection:
            faults.append(f"{model.origin}: {rejection}")
        else:
            faults.extend(f"{model.origin}: {fault}" for fault in faults_of(columns))

    for resource in RESOURCES:
        model = models[resource.name]
        check(model, partial(_model_faults, resource, accepted))
        if model.account is not None:
            check(model.account, _account_faults)
    if faults:
        advice = "" if all(model.shipped for model in models.values()) else f"\n{_MODEL_ADVICE}"
        raise SourceError("The models are not as expected:\n  " + "\n  ".join(faults) + advice)


# Acceptances never match a NULL term_id.
_REPEATED_TERMS = (
    "SELECT term_id FROM terms WHERE term_id IS NOT NULL GROUP BY term_id HAVING count(*) > 1 ORDER BY term_id LIMIT 1"
)


def check_terms(required: Collection[SourceTable], first_row: Callable[[str], Sequence[object] | None]) -> None:
    """Check that no term has two rows, if the table is required. `first_row` returns the first row of a query, or None.
    Raises SourceError that names the term.
    """
    is_required = any(table.name == "terms" for table in required)
    repeated = first_row(_REPEATED_TERMS) if is_required else None
    if repeated is not None:
        raise SourceError(
            f"Table terms has two rows for term_id {repeated[0]}: each acceptance would be exported twice. Remove one."
        )


def checked_leaders(parents: Iterable[Sequence[str | None]]) -> list[str]:
    """Return all Leaders, sorted, from their leader_id and parent_leader_id. Raises SourceError for a Leader with two
    rows and for a cycle of parents. Rows without a leader_id are only counted, by row accounting.
    """
    parent_of: dict[str, str | None] = {}
    for leader_id, parent_id in parents:
        if leader_id is None:
            continue
        if leader_id in parent_of:
            raise SourceError(f"Table leaders has two rows for leader_id {leader_id}. Remove one.")
        parent_of[leader_id] = parent_id
    try:
        TopologicalSorter({leader: [parent] for leader, parent in parent_of.items() if parent is not None}).prepare()
    except CycleError as error:
        # Its list goes from each parent to the child.
        cycle = " -> ".join(reversed(error.args[1]))
        raise SourceError(f"Table leaders: parent_leader_id forms a cycle: {cycle}. Correct one of them.") from None
    return sorted(parent_of)


def _table_faults(table: SourceTable, columns: Columns | None, accepted: AcceptedTypes) -> Iterator[str]:
    if columns is None:
        yield f"table {table.name} is missing"
        return
    types = dict(columns)
    for column in table.columns:
        kind = types.get(column.name)
        if kind is None:
            yield f"column {table.name}.{column.name} is missing{_other_case(column, types)}"
        elif not _accepts(kind, column, accepted):
            yield f"column {table.name}.{column.name} is {kind}, {_expected(column, accepted)}"


def _other_case(column: Column, types: Mapping[str, str]) -> str:
    """Return a hint about a missing column that exists in another case, "" if it does not exist."""
    other = next((name for name in types if name.lower() == column.name), None)
    if other is None:
        return ""
    return f'. Column "{other}" exists, but names are case-sensitive here: rename it, or create a view'


def _model_faults(resource: Resource, accepted: AcceptedTypes, columns: Columns) -> list[str]:
    names, types = [name for name, _ in columns], dict(columns)
    faults = [f"column {name} is not part of {resource.name}" for name in names if name not in resource.column_names]
    faults += (f"column {name} occurs more than once" for name, count in Counter(names).items() if count > 1)
    missing = [column for column in resource.columns if column.name not in types]
    faults += (f"column {column.name} is missing, expected {column.type.value}" for column in missing)
    faults += (
        f"column {column.name} is {types[column.name]}, {_expected(column, accepted)}"
        for column in resource.columns
        if column.name in types and not _accepts(types[column.name], column, accepted)
    )
    if not faults and tuple(names) != resource.column_names:
        places = enumerate(zip(resource.column_names, names, strict=True), start=1)
        position, (expected, name) = next(place for place in places if place[1][0] != place[1][1])
        faults.append(f"column {position} is {name}, expected {expected}")
    return faults


def _account_faults(columns: Columns) -> Iterator[str]:
    names = tuple(name.lower() for name, _ in columns)
    if names != ACCOUNT_COLUMNS:
        yield f"the columns are {', '.join(names)}, expected {', '.join(ACCOUNT_COLUMNS)}"


def _expected(column: Column, accepted: AcceptedTypes) -> str:
    return f"expected {column.type.value} ({' or '.join(accepted[column.type])})"


def _accepts(kind: str, column: Column, accepted: AcceptedTypes) -> bool:
    return kind in _UNTYPED or any(kind == name or kind.startswith(name + "(") for name in accepted[column.type])
