"""Figures out of a run's report or progress: plain JSON values, of which any may be missing."""

from __future__ import annotations

from collections.abc import Mapping


def resources_of(report: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The report's figures by resource, in the order they were made."""
    return {name: part(figures) for name, figures in part(report.get("resources")).items()}


def part(value: object) -> Mapping[str, object]:
    """A part of a report that has names itself; empty when it is not there."""
    return value if isinstance(value, Mapping) else {}


def figure(figures: Mapping[str, object], name: str) -> float:
    """One figure, such as seconds; 0 when it is not there."""
    value = figures.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def count(figures: Mapping[str, object], name: str) -> int:
    """One figure that counts something, such as rows."""
    return int(figure(figures, name))
