"""Dates and instants as the driver of PostgreSQL hands them over, and as they are meant.

It counts them from 1970 instead of 2000 without looking: infinities, and the last centuries of PostgreSQL's calendar,
wrap round to before that calendar begins.
"""

from __future__ import annotations

from daybreak.catalogue.columns import Column, ColumnType
from daybreak.export.engine import ENGINE_TYPES

_CALENDAR_BEGINS = "4714-11-24 (BC)"
_WRAPPED = {
    ColumnType.DATE: (("infinity", "5877612-06-21 (BC)"), ("-infinity", "5877612-06-22 (BC)")),
    ColumnType.TIMESTAMP: (
        ("infinity", "290279-12-22 (BC) 19:59:05.224191"),
        ("-infinity", "290279-12-22 (BC) 19:59:05.224192"),
    ),
}


def unwrapped(column: Column, value: str) -> str:
    """The engine's SQL for what is meant by `value`, SQL for a column's value in the engine's type. What cannot be told
    any more is an error of the engine.
    """
    if column.type not in _WRAPPED:
        return value
    kind = ENGINE_TYPES[column.type]
    infinite = " ".join(f"WHEN {kind} '{there}' THEN {kind} '{meant}'" for meant, there in _WRAPPED[column.type])
    refused = f"error('{column.name} holds a time that is too far ahead')"
    wrapped = f"CASE {value} {infinite} ELSE {refused} END"
    return f"CASE WHEN {value} < {kind} '{_CALENDAR_BEGINS}' THEN {wrapped} ELSE {value} END"
