"""Malformed rows of a source: a value that the type of its column cannot hold, such as a text that is not a UUID, or
a count that is out of range or has a fraction.

They are in no file. Without a count of them the engine would stop at the first one, and delay all accounts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.source_tables import MAX_COUNT, SourceTable
from daybreak.domain.display import format_count
from daybreak.domain.errors import SourceError

MalformedPolicy = Literal["refuse", "fail"]
"""What a run does with malformed rows: refuse them, or fail."""

# A malformed key may be a text of megabytes, and is repeated in the report, the log and mails.
_MAX_KEY_LENGTH = 80


@dataclass(frozen=True, slots=True)
class MalformedRows:
    """Malformed rows of a table, counted at the first malformed column. `key` identifies one of them."""

    table: str
    column: str
    rows: int
    key: str

    @property
    def text(self) -> str:
        """The rows as a sentence without its end."""
        return f"{self.table}: {self.column} is malformed in {format_count(self.rows, 'row')}, such as {self.key}"


def count_conditions(table: SourceTable) -> dict[str, str]:
    """Return the condition of each integer column, in the SQL of every engine, that its value is not a whole number in
    the range. NULL is valid. `round` also makes decimals with 38 digits comparable.
    """
    return {
        column.name: f"coalesce(round({column.name}) NOT BETWEEN 0 AND {MAX_COUNT} OR {column.name} % 1 <> 0, FALSE)"
        for column in table.columns
        if column.type is ColumnType.BIGINT
    }


def find_malformed(
    table: SourceTable, conditions: Mapping[str, str], item: str, rows_of: Callable[[str], Sequence[Sequence[object]]]
) -> list[MalformedRows]:
    """Count the malformed rows of a table by column. `conditions` are those of malformed values by column, `item` is
    the table in SQL, and `rows_of` runs a query.
    """
    if not conditions:
        return []
    first = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in conditions.items())
    key = (*table.primary_key, table.columns[0].name)[0]
    found = rows_of(
        f"SELECT malformed_column, count(*), min(row_key) FROM (SELECT CASE {first} END AS malformed_column, "
        f"substr(CAST({key} AS VARCHAR), 1, {_MAX_KEY_LENGTH}) AS row_key FROM {item}) AS checked "
        "WHERE malformed_column IS NOT NULL "
        "GROUP BY malformed_column ORDER BY malformed_column"
    )
    return [MalformedRows(table.name, str(name), int(str(rows)), f"{key} {example!r}") for name, rows, example in found]


def apply_policy(policy: MalformedPolicy, found: Iterable[MalformedRows]) -> None:
    """Raise SourceError that names every malformed column, if a run must fail."""
    texts = [each.text for each in found]
    if policy == "fail" and texts:
        raise SourceError(
            "The source has malformed rows. Correct them, or set source.malformed_rows to refuse.\n  "
            + "\n  ".join(texts)
        )
