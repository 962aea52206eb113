"""Corrects dates and timestamps that the PostgreSQL driver changes.

The driver converts the epoch from 2000 to 1970 without checking for overflow. Infinities, and the last centuries of
PostgreSQL's calendar, wrap around to instants before the start of that calendar.
"""

from __future__ import annotations

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.export.engine import ENGINE_TYPES
from daybreak.export.sql import literal

_CALENDAR_START = "4714-11-24 (BC)"
_WRAPPED_INFINITIES = {
    ColumnType.DATE: (("infinity", "5877612-06-21 (BC)"), ("-infinity", "5877612-06-22 (BC)")),
    ColumnType.TIMESTAMP: (
        ("infinity", "290279-12-22 (BC) 19:59:05.224191"),
        ("-infinity", "290279-12-22 (BC) 19:59:05.224192"),
    ),
}


def corrected_value(column: Column, value: str) -> str:
    """Return the engine's SQL for a column's value, from SQL for the received value. The engine reports an error for a
    wrapped value that cannot be recovered.
    """
    if column.type not in _WRAPPED_INFINITIES:
        return value
    kind = ENGINE_TYPES[column.type]
    cases = " ".join(
        f"WHEN {kind} {literal(wrapped)} THEN {kind} {literal(infinity)}"
        for infinity, wrapped in _WRAPPED_INFINITIES[column.type]
    )
    message = literal(f"{column.name} has a time after the last one that files support")
    recovered = f"CASE {value} {cases} ELSE error({message}) END"
    return f"CASE WHEN {value} < {kind} {literal(_CALENDAR_START)} THEN {recovered} ELSE {value} END"
