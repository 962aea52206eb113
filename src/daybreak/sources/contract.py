"""What a source must look like: its tables, and what its models give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.models import Model
from daybreak.catalogue.resources import Resource
from daybreak.catalogue.source_tables import SOURCE_TABLES

Columns = Sequence[tuple[str, str]]
"""(name, the engine's type name) in order."""

Accepted = Mapping[ColumnType, Sequence[str]]
"""Per type of ours, the engine's types that hold it, by the first part of their names."""


def table_faults(found: Mapping[str, Columns], accepted: Accepted) -> list[str]:
    """One line per missing table, missing column and wrong type; [] when all is there.

    `found` maps lower-case table names to their columns; names are compared without case.
    """
    faults = []
    for table in SOURCE_TABLES:
        if table.name not in found:
            faults.append(f"table {table.name} is missing")
            continue
        types = {name.lower(): kind for name, kind in found[table.name]}
        for column in table.columns:
            kind = types.get(column.name)
            if kind is None:
                faults.append(f"column {table.name}.{column.name} is missing")
            elif not _holds(kind, column, accepted):
                faults.append(
                    f"column {table.name}.{column.name} is {kind}, expected {column.type.value} "
                    f"({' or '.join(accepted[column.type])})"
                )
    return faults


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
    return any(kind == name or kind.startswith(name + "(") for name in accepted[column.type])
