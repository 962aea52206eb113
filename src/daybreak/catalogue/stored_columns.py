"""Columns of stored files: a stored version keeps those that it was made with, which may not be the ones of today."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.resources import RESOURCES, Resource, resource_named

RecordedColumns = Mapping[str, Sequence[tuple[str, str, bool]]]
"""For each resource: name, type and whether it is nullable, of each column in the order of the files."""


def recorded_columns() -> RecordedColumns:
    """Return the columns of today, as a run records them."""
    return {
        resource.name: [(column.name, column.type.value, column.nullable) for column in resource.columns]
        for resource in RESOURCES
    }


def types_of(recorded: RecordedColumns) -> dict[str, list[tuple[str, str]]]:
    """Return names and types, which deltas need to be the same on both sides."""
    return {name: [(column[0], column[1]) for column in columns] for name, columns in recorded.items()}


def resource_at(name: str, recorded: RecordedColumns | None) -> Resource:
    """Return a resource with the columns that a run recorded. Runs of earlier versions of Daybreak recorded none.

    Raises KeyError for an unknown resource.
    """
    columns = () if recorded is None else recorded.get(name, ())
    if not columns:
        return resource_named(name)
    return _with_columns(name, tuple((each[0], each[1], each[2]) for each in columns))


def resource_with_header(resource: Resource, header: bytes) -> Resource:
    """Return a resource with the columns in the first line of a CSV file."""
    known = {column.name: column for column in resource.columns}
    names = header.decode("utf-8", "replace").strip().replace('"', "").split(",")
    found = (known.get(name) or Column(name, ColumnType.TEXT, nullable=True, description="") for name in names)
    return _with_columns(resource.name, tuple((column.name, column.type.value, column.nullable) for column in found))


@lru_cache(256)
def _with_columns(name: str, columns: tuple[tuple[str, str, bool], ...]) -> Resource:
    resource = resource_named(name)
    known = {column.name: column for column in resource.columns}
    found = tuple(
        replace(known[name], type=ColumnType(kind), nullable=nullable)
        if name in known
        else Column(name, ColumnType(kind), nullable, "")
        for name, kind, nullable in columns
    )
    return resource if found == resource.columns else replace(resource, columns=found)
