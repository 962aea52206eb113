"""Counts in messages."""

from __future__ import annotations

from daybreak.domain.display import localized


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 row` or `1,200 rows`. The plural of the noun ends in `s`."""
    return f"{localized(f'{count:,}')} {noun}{'' if count == 1 else 's'}"
