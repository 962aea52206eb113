"""Figures of single rows, whose sums by Leader are the figures of written files, and counts of unexpected times."""

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.catalogue.key_sql import KEY_SQL, in_range
from daybreak.catalogue.resources import Resource
from daybreak.catalogue.written_sums import KEY_PARTS, SUMMED_COLUMNS
from daybreak.export.engine import ENGINE_TYPES
from daybreak.export.sql import identifier

TIMES = (ColumnType.DATE, ColumnType.TIMESTAMP)


def row_figures(resource: Resource) -> dict[str, str]:
    """Return SQL for the figures of a row by name, over the columns of a model. Each is a number of 64 bits.

    The first ones are summed to the figures of `catalogue.written_sums.figure_names`. Then there is one for each column
    of `times`: 1 if files cannot contain its value, else 0.
    """
    parts = [(column.type, cast_value(column)) for column in map(resource.column, KEY_PARTS.get(resource.name, ()))]
    key = [KEY_SQL["duckdb"].number(parts)] if parts else []
    counts = map(resource.column, SUMMED_COLUMNS.get(resource.name, ()))
    outside = (f"CAST(NOT {exported_in_range(resource.column(name))} AS BIGINT)" for name in times(resource))
    values = [*key, *(f"coalesce({value}, 0)" for value in (*map(cast_value, counts), *outside))]
    return {f"figure_{place}": value for place, value in enumerate(values)}


def times(resource: Resource) -> list[str]:
    """Return the columns of times whose values come from the source."""
    columns = (column for column in resource.columns if column.name not in resource.constants)
    return [column.name for column in columns if column.type in TIMES]


def cast_value(column: Column) -> str:
    """Return SQL for the value of a model's column in the type of the catalogue."""
    return f"CAST({identifier(column.name)} AS {ENGINE_TYPES[column.type]})"


def exported_in_range(column: Column) -> str:
    """Return a condition: the column of times has a value that files can contain."""
    return in_range(cast_value(column), ENGINE_TYPES[column.type])
