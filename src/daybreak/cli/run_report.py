"""The report of a run, printed: figures by resource, row accounting, warnings and findings."""

from daybreak.cli.output import format_bytes, format_seconds, print_table, print_text
from daybreak.domain.run_report import RunReport
from daybreak.domain.snapshot import Snapshot
from daybreak.snapshots.report import source_warnings


def print_report(snapshot: Snapshot) -> None:
    """Print the report, as far as the run made one."""
    report = snapshot.report
    if report.resources:
        print_text()
        print_table(
            ("RESOURCE", "ROWS", "LEADERS", "CARRIED", "SIZE", "TOOK"),
            [
                (name, f"{figures.rows:,}", figures.leaders, figures.carried, format_bytes(figures.bytes),
                 format_seconds(figures.seconds))
                for name, figures in report.resources.items()
            ],
            numbers=frozenset({"ROWS", "LEADERS", "CARRIED", "SIZE", "TOOK"}),
        )  # fmt: skip
        _print_deltas(report)
    _print_accounting(report)
    for warning in source_warnings(report):
        print_text(f"warning: {warning}")
    for finding in report.findings or ():
        print_text(f"finding: {finding.detail}")


def _print_deltas(report: RunReport) -> None:
    """Print the changed rows by resource, or why the run made no deltas."""
    if report.deltas is not None and report.deltas.reason:
        print_text(f"\nno deltas: {report.deltas.reason}")
    if report.deltas is None or report.deltas.base is None:
        return
    print_text()
    print_table(
        ("DELTAS", "INSERTED", "DELETED", "CHANGED", "FULL REQUIRED", "SIZE"),
        [
            (name, f"{deltas.inserted:,}", f"{deltas.deleted:,}", deltas.changed, deltas.full_required,
             format_bytes(deltas.bytes))
            for name, figures in report.by_resource.items()
            if (deltas := figures.deltas) is not None
        ],
        numbers=frozenset({"INSERTED", "DELETED", "CHANGED", "FULL REQUIRED", "SIZE"}),
    )  # fmt: skip


def _print_accounting(report: RunReport) -> None:
    """Print the rows of each source table: exported, and excluded by rule."""
    if report.accounting is None:
        return
    print_text()
    print_table(
        ("SOURCE TABLE", "RESOURCE", "RULE", "ROWS", "OF NO ACCOUNT"),
        [
            (table.table, table.resource, rule, f"{rows:,}", f"{no_account:,}" if no_account else "")
            for table in report.accounting.tables
            for rule, rows, no_account in (
                ("exported", table.exported, 0),
                *((rule, rows, table.of_no_account.get(rule, 0)) for rule, rows in table.excluded.items()),
            )
        ],
        numbers=frozenset({"ROWS", "OF NO ACCOUNT"}),
    )
