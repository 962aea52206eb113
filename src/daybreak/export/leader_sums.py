"""Sums over a resource's rows by Leader, for row accounting, and counts of times that files cannot contain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from daybreak.catalogue.columns import ColumnType
from daybreak.catalogue.key_sql import KEY_SQL
from daybreak.catalogue.written_sums import KEY_PARTS, SUMMED_COLUMNS
from daybreak.export.sql import identifier
from daybreak.export.survey import SUM_MODULUS
from daybreak.export.work_tables import WorkTables, exported_in_range


@dataclass(frozen=True, slots=True)
class LeaderSums:
    """The sums of `catalogue.written_sums.figure_names` by known Leader, modulo 2^64. `out_of_range` counts times that
    are exported as NULL, by column.
    """

    by_leader: Mapping[str, tuple[int, ...]]
    out_of_range: Mapping[str, int]


def leader_sums(tables: WorkTables, known: Collection[str]) -> LeaderSums:
    """Read the rows once more, only the columns of the sums."""
    resource = tables.resource
    parts = [(resource.column(name).type, identifier(name)) for name in KEY_PARTS.get(resource.name, ())]
    sums = [KEY_SQL["duckdb"].sum(parts)] if parts else []
    sums += [f"coalesce(sum({identifier(name)}), 0)" for name in SUMMED_COLUMNS.get(resource.name, ())]
    # Numbers of 64 bits are converted several times as fast as larger ones.
    sums = [f"CAST((({one}) % {SUM_MODULUS} + {SUM_MODULUS}) % {SUM_MODULUS} AS UBIGINT)" for one in sums]
    times = [
        column.name
        for column in resource.columns
        if column.type in (ColumnType.TIMESTAMP, ColumnType.DATE) and column.name not in resource.constants
    ]
    outside = [f"count({identifier(name)}) FILTER (NOT {exported_in_range(resource.column(name))})" for name in times]
    found = tables.connection.execute(
        f'SELECT CAST("LEADER_ID" AS VARCHAR), {", ".join([*sums, *outside])} FROM {tables.all_values} '
        'GROUP BY "LEADER_ID"'
    ).fetchall()
    by_leader = [row for row in found if row[0] in known]
    totals = [sum(row[1 + len(sums) + place] for row in by_leader) for place in range(len(times))]
    return LeaderSums(
        {row[0]: row[1 : 1 + len(sums)] for row in by_leader},
        {name: total for name, total in zip(times, totals, strict=True) if total},
    )
