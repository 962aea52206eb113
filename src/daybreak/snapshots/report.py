"""Sentences about a run's report."""

from collections.abc import Iterator

from daybreak.catalogue.resources import RESOURCES, Resource
from daybreak.domain.display import format_count
from daybreak.domain.run_report import Accounting, ResourceFigures, RunReport
from daybreak.proof.newest import stale_tables
from daybreak.proof.rules import ANOMALIES, RULES, faulty_rows


def format_share(share: float) -> str:
    """Format a share between 0 and 1 as `52 %`."""
    return f"{100 * share:.0f} %"


def source_warnings(report: RunReport) -> Iterator[str]:
    """Yield a sentence for each deviation of the source from the catalogue that did not stop the run."""
    accounting = report.accounting
    yield from stale_tables(report)
    if accounting is not None:
        yield from accounting_warnings(accounting)
    for resource in RESOURCES:
        figures = report.by_resource.get(resource.name)
        if figures is None:
            continue
        is_accounted = accounting is not None and accounting.status.get(resource.name) != "unaccounted"
        if figures.unknown_leader_rows and not is_accounted:
            rows = format_count(figures.unknown_leader_rows, "row")
            yield f"{resource.name}: {rows} in no file, because the Leader is not in table leaders."
        yield from _column_warnings(resource, figures)
    held = {finding.resource for finding in report.findings or () if finding.kind == "references"}
    for fault in report.references or ():
        if fault.check not in held:
            yield f"{fault.check}: violated by {format_count(fault.rows, 'row')}."


def accounting_warnings(accounting: Accounting) -> Iterator[str]:
    """Yield a sentence for each rule that excludes faulty rows, for each anomaly, and for each own model with rows that
    are not counted or rules that are not approved.
    """
    yield from (f"{text}. The rows are in no file." for text in accounting.malformed)
    for table in accounting.tables:
        for rule, rows in faulty_rows(table).items():
            yield f"{table.resource}: {format_count(rows, 'row')} of {table.table} in no file: {RULES[rule]}."
    for code, rows in accounting.anomalies.items():
        table_name, description = ANOMALIES[code]
        yield f"{table_name}: {format_count(rows, 'row')}: {description}."
    for resource, own in accounting.own_models.items():
        if accounting.status[resource] == "unaccounted":
            reason = own.fault or "each row of the model is not a row of one table."
            yield f"{resource}: the rows that the own model excludes are not counted: {reason}"
        if own.unapproved:
            rules = format_count(len(own.unapproved), "rule")
            yield f"{resource}: {rules} of the own model not approved. `daybreakd rules` lists them."


def _column_warnings(resource: Resource, figures: ResourceFigures) -> Iterator[str]:
    for column in resource.columns:
        null_rows, other_rows = figures.nulls.get(column.name), figures.unexpected_values.get(column.name)
        if null_rows and not column.nullable:
            rows = format_count(null_rows, "row")
            yield f"{resource.name}: {column.name} is NULL in {rows}. The column is required."
        if other_rows:
            rows = format_count(other_rows, "row")
            fault = "has an unlisted value" if column.allowed else "is outside the years 1 to 9999, exported as NULL,"
            yield f"{resource.name}: {column.name} {fault} in {rows}."
