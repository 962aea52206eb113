"""Figures out of a run's report or progress: plain JSON values, of which any may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from daybreak.catalogue.resources import RESOURCES


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


def oddities_of(report: Mapping[str, object]) -> Iterator[str]:
    """What of the source was not as its schema says and passed all the same, a sentence each."""
    for resource in RESOURCES:
        figures = resources_of(report).get(resource.name, {})
        nulls, unexpected = part(figures.get("nulls")), part(figures.get("unexpected_values"))
        homeless = count(figures, "unknown_leader_rows")
        if homeless:
            yield f"{resource.name}: {homeless:,} rows are in no file, as table leaders does not have their Leader."
        for column in resource.columns:
            missing, others = count(nulls, column.name), count(unexpected, column.name)
            if missing and not column.nullable:
                yield f"{resource.name}: {column.name} is NULL in {missing:,} rows, where it should never be."
            if others:
                yield f"{resource.name}: {column.name} has a value that is not one of the listed in {others:,} rows."
