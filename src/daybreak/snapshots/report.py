"""Figures from a run's report or progress: plain JSON values, any of which may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from daybreak.catalogue.resources import RESOURCES
from daybreak.domain.counts import format_count
from daybreak.proof.newest import stale_tables
from daybreak.proof.report import accounting_of


def resources_of(report: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """Return the report's figures by resource, in the order of the export."""
    return {name: section(figures) for name, figures in section(report.get("resources")).items()}


def section(value: object) -> Mapping[str, object]:
    """Return a part of a report that is itself a mapping, empty when it is missing."""
    return value if isinstance(value, Mapping) else {}


def figure(figures: Mapping[str, object], name: str) -> float:
    """Return one figure, such as seconds, 0 when it is missing."""
    value = figures.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def count(figures: Mapping[str, object], name: str) -> int:
    """Return one figure that is a count, such as rows, 0 when it is missing."""
    return int(figure(figures, name))


def format_share(share: float) -> str:
    """Format a share between 0 and 1 as `52 %`."""
    return f"{100 * share:.0f} %"


def source_warnings(report: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each deviation of the source from the catalogue that did not stop the run."""
    accounting = accounting_of(report)
    yield from stale_tables(report)
    if accounting is not None:
        yield from accounting.warnings()
    for resource in RESOURCES:
        figures = resources_of(report).get(resource.name, {})
        nulls, unexpected = section(figures.get("nulls")), section(figures.get("unexpected_values"))
        unknown_rows = count(figures, "unknown_leader_rows")
        if unknown_rows and (accounting is None or accounting.status.get(resource.name) == "unaccounted"):
            rows = format_count(unknown_rows, "row")
            yield f"{resource.name}: {rows} in no file, because the Leader is not in table leaders."
        for column in resource.columns:
            null_rows, other_rows = count(nulls, column.name), count(unexpected, column.name)
            if null_rows and not column.nullable:
                rows = format_count(null_rows, "row")
                yield f"{resource.name}: {column.name} is NULL in {rows}. The column is required."
            if other_rows:
                rows = format_count(other_rows, "row")
                fault = (
                    "has an unlisted value" if column.allowed else "is outside the years 1 to 9999, exported as NULL,"
                )
                yield f"{resource.name}: {column.name} {fault} in {rows}."
