"""The query that streams a resource's lines, and how many rows a batch of it takes."""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.catalogue.resources import Resource
from daybreak.export.lines import cells, csv_line, drafts, json_line, quoted
from daybreak.export.survey import Survey

_BATCH_BYTES = 6 << 20
FEWEST_ROWS = 2048
MOST_ROWS = 131_072


def row_order(resource: Resource) -> str:
    """What follows the Leader in ORDER BY: the key, then what parts rows with an equal key."""
    return ", ".join(f"{quoted(name)} NULLS FIRST" for name in (*resource.key, *resource.tie_break))


def rows_per_batch(resource: Resource, found: Survey) -> int:
    """Rows whose lines take about `_BATCH_BYTES` in CSV and JSON together, were all of them as wide
    as those of the Leader with the widest."""
    names = sum(len(column.name) + 4 for column in resource.columns)
    line = 2 * found.widest_row_bytes + names + 2 * 20 * len(resource.columns)
    return max(FEWEST_ROWS, min(MOST_ROWS, _BATCH_BYTES // max(line, 1)))


def line_query(relation: str, resource: Resource, columns: Sequence[str], filled: frozenset[str]) -> str:
    """Ordered lines: (ordinal, one line column per kind of line).

    Rows are put in order by typed values, which is cheaper than by text, and made into lines
    after.
    """
    makers = {"csv": csv_line(resource), "json": json_line(resource, filled)}
    lines = ", ".join(makers[column] for column in columns)
    return (
        f"SELECT ordinal, {lines} "
        f"FROM (SELECT *, {drafts(resource, filled)} AS csv_draft "
        f"FROM (SELECT ordinal, {cells(resource)} "
        f"FROM (SELECT ordinal, rows.* FROM {relation} AS rows "
        f'JOIN wanted_leaders ON wanted_leaders.leader_id = rows."LEADER_ID" '
        f"ORDER BY ordinal, {row_order(resource)})))"
    )
