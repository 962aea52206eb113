"""Rows of an account's earlier file that are missing in a later one, and what they have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from daybreak.catalogue.columns import TIMES, Column
from daybreak.catalogue.resources import Resource
from daybreak.export.sql import identifier
from daybreak.insight.published_tables import PublishedTables

SAMPLE_ROWS = 10
_MAXIMUM_TRAITS = 8
_VALUES_PER_COLUMN = 3
_MAXIMUM_LENGTH = 200
# A value explains rows if it has this share of the missing rows, and that much more than of all rows before.
_LEAST_SHARE, _LEAST_EXCESS = 0.1, 0.1


@dataclass(frozen=True, slots=True)
class Trait:
    """A value, a day or a period of days of one column. `missing` rows have it now, `before` rows had it."""

    column: Column
    first: str
    last: str
    missing: int
    before: int


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Number of rows whose key is missing, rows before, what they have in common, and samples in column order."""

    total: int
    before: int
    traits: tuple[Trait, ...]
    sample: tuple[tuple[str, ...], ...]


def missing_rows(tables: PublishedTables, resource: Resource, *, is_absent: bool) -> MissingRows:
    """Compare the table `before` with that of the resource. `is_absent`: the account has no file now.

    Raises FileStoreError.
    """
    key = ", ".join(map(identifier, resource.key))
    remaining = "" if is_absent else f"ANTI JOIN {identifier(resource.name)} USING ({key})"
    tables.rows(f"CREATE TEMP TABLE missing AS SELECT before.* FROM before {remaining}")
    ((total,),), ((before,),) = tables.rows("SELECT COUNT(*) FROM missing"), tables.rows("SELECT COUNT(*) FROM before")
    columns = [column for column in resource.columns if column.name not in ("LEADER_ID", *resource.constants)]
    candidates = [found for column in columns if total for found in _candidates(tables, column, total)]
    traits = _counted(tables, candidates, total, before)
    sample = tables.rows(f"SELECT * FROM missing ORDER BY {key} LIMIT {SAMPLE_ROWS}")
    return MissingRows(total, before, traits, tuple(tuple(_text(value) for value in row) for row in sample))


def _candidates(tables: PublishedTables, column: Column, total: int) -> list[Trait]:
    """Return the most frequent values of the missing rows, and for times the period of all days."""
    value = _value(column)
    frequent = tables.rows(
        f"SELECT {value}, COUNT(*) FROM missing WHERE {value} IS NOT NULL GROUP BY 1 HAVING COUNT(*) >= $least "
        f"ORDER BY 2 DESC, 1 LIMIT {_VALUES_PER_COLUMN}",
        {"least": max(1, total * _LEAST_SHARE)},
    )
    found = [Trait(column, text, text, count, 0) for text, count in frequent]
    if column.type in TIMES:
        ((first, last, count),) = tables.rows(f"SELECT MIN({value}), MAX({value}), COUNT({value}) FROM missing")
        if count and first != last:
            found.append(Trait(column, first, last, count, 0))
    return found


def _counted(tables: PublishedTables, candidates: Sequence[Trait], total: int, before: int) -> tuple[Trait, ...]:
    """Count the rows before in one pass, and return what is more frequent in the missing rows."""
    if not candidates:
        return ()
    counts = ", ".join(
        f"COUNT(*) FILTER (WHERE {_value(each.column)} BETWEEN $first{number} AND $last{number})"
        for number, each in enumerate(candidates)
    )
    parameters = {f"first{number}": each.first for number, each in enumerate(candidates)}
    parameters |= {f"last{number}": each.last for number, each in enumerate(candidates)}
    (row,) = tables.rows(f"SELECT {counts} FROM before", parameters)
    counted = [replace(each, before=count) for each, count in zip(candidates, row, strict=True)]
    telling = [each for each in counted if each.missing / total - each.before / before >= _LEAST_EXCESS]
    return tuple(sorted(telling, key=lambda each: (-each.missing, each.before))[:_MAXIMUM_TRAITS])


def _value(column: Column) -> str:
    """Return SQL for the value of a column as text that sorts as the values do: times are days."""
    name = identifier(column.name)
    if column.type in TIMES:
        return f"strftime(CAST({name} AS DATE), '%Y-%m-%d')"
    return f"left(CAST({name} AS VARCHAR), {_MAXIMUM_LENGTH})"


def _text(value: object) -> str:
    if isinstance(value, date | datetime):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return "" if value is None else str(value)[:_MAXIMUM_LENGTH]
