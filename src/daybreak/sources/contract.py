"""What a source must look like: its tables, and what its models give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.models import Model
from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.catalogue.source_tables import SOURCE_TABLES
from daybreak.domain.errors import SourceError

Columns = Sequence[tuple[str, str]]
"""(name, the engine's type name) in order."""

Accepted = Mapping[ColumnType, Sequence[str]]
"""Per type of ours, the engine's types that hold it, by the first part of their names."""

_UNTYPED = ('"NULL"', "void")
"""What DuckDB and Spark call the type of a column whose writer saw no value in it: good for any."""

_WAYS_OUT = (
    "Is this what source.location should name? A table with another name or other columns gets a view in front of it."
)


class ModelRefused(Exception):
    """The engine does not take a model's SQL; the text is its reason, in one line."""


def check_tables(source: str, found: Mapping[str, Columns], accepted: Accepted) -> None:
    """Raises SourceError that lists every fault of the thirteen tables; `source` begins it."""
    faults = _table_faults(found, accepted)
    if faults:
        raise SourceError(f"{source} is not as expected:\n  " + "\n  ".join(faults) + f"\n{_WAYS_OUT}")


def check_models(models: Mapping[str, Model], columns_of: Callable[[Model], Columns], accepted: Accepted) -> None:
    """Raises SourceError that lists every fault of the nine models.

    `columns_of` asks the engine for a model's columns without running it; it raises ModelRefused.
    """
    faults: list[str] = []
    for resource in RESOURCES:
        model = models[resource.name]
        try:
            got = columns_of(model)
        except ModelRefused as refusal:
            faults.append(f"{model.origin}: {refusal}")
        else:
            faults += model_faults(resource, model, got, accepted)
    if faults:
        raise SourceError("The models are not as expected:\n  " + "\n  ".join(faults))


def _table_faults(found: Mapping[str, Columns], accepted: Accepted) -> list[str]:
    """One line per missing table, missing column and wrong type; [] when all is there.

    `found` maps lower-case table names to their columns; an engine for which case is nothing gives lower-case names.
    """
    faults = []
    for table in SOURCE_TABLES:
        if table.name not in found:
            faults.append(f"table {table.name} is missing")
            continue
        types = dict(found[table.name])
        for column in table.columns:
            kind = types.get(column.name)
            if kind is None:
                faults.append(f"column {table.name}.{column.name} is missing{_spelt_otherwise(column, types)}")
            elif not _holds(kind, column, accepted):
                faults.append(
                    f"column {table.name}.{column.name} is {kind}, expected {column.type.value} "
                    f"({' or '.join(accepted[column.type])})"
                )
    return faults


def _spelt_otherwise(column: Column, types: Mapping[str, str]) -> str:
    """What to add about a missing column that is there in other letters; "" when it is not."""
    other = next((name for name in types if name.lower() == column.name), None)
    if other is None:
        return ""
    return f': there is "{other}", which is another name here; rename it, or put a view in front that does'


def model_faults(resource: Resource, model: Model, got: Columns, accepted: Accepted) -> list[str]:
    """One line per column of a model that is not as the catalogue has it: name, place or type."""
    faults = []
    expected_names = list(resource.column_names)
    got_names = [name for name, _ in got]
    types = dict(got)
    faults += [
        f"{model.origin}: column {name} is not part of {resource.name}"
        for name in got_names
        if name not in expected_names
    ]
    for column in resource.columns:
        if column.name not in types:
            faults.append(f"{model.origin}: column {column.name} is missing, expected {column.type.value}")
        elif not _holds(types[column.name], column, accepted):
            faults.append(
                f"{model.origin}: column {column.name}: expected {column.type.value} "
                f"({' or '.join(accepted[column.type])}), got {types[column.name]}"
            )
    if not faults and got_names != expected_names:
        for place, (expected, name) in enumerate(zip(expected_names, got_names, strict=True), start=1):
            if expected != name:
                faults.append(f"{model.origin}: column {name} stands at place {place}, expected {expected} there")
                break
    return faults


def _holds(kind: str, column: Column, accepted: Accepted) -> bool:
    return kind in _UNTYPED or any(kind == name or kind.startswith(name + "(") for name in accepted[column.type])
