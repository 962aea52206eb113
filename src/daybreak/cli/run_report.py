"""The report of a run, printed: figures by resource, row accounting, warnings and findings."""

from daybreak.cli.output import format_bytes, format_seconds, print_table, print_text
from daybreak.domain.snapshot import Snapshot
from daybreak.proof.report import accounting_of
from daybreak.snapshots.report import count, figure, resources_of, section, source_warnings


def print_report(snapshot: Snapshot) -> None:
    """Print the report, as far as the run made one."""
    resources = resources_of(snapshot.report)
    if resources:
        print_text()
        print_table(
            ("RESOURCE", "ROWS", "LEADERS", "CARRIED", "SIZE", "TOOK"),
            [
                (name, f"{count(figures, 'rows'):,}", figures.get("leaders"), figures.get("carried"),
                 format_bytes(count(figures, "bytes")), format_seconds(figure(figures, "seconds")))
                for name, figures in resources.items()
            ],
            numbers=frozenset({"ROWS", "LEADERS", "CARRIED", "SIZE", "TOOK"}),
        )  # fmt: skip
        _print_deltas(snapshot)
    _print_accounting(snapshot)
    for warning in source_warnings(snapshot.report):
        print_text(f"warning: {warning}")
    findings = snapshot.report.get("findings")
    if isinstance(findings, list):
        for finding in findings:
            print_text(f"finding: {finding.get('detail')}")


def _print_deltas(snapshot: Snapshot) -> None:
    """Print the changed rows by resource, or why the run made no deltas."""
    deltas = section(snapshot.report.get("deltas"))
    if deltas.get("reason"):
        print_text(f"\nno deltas: {deltas['reason']}")
    if not deltas.get("from"):
        return
    print_text()
    print_table(
        ("DELTAS", "INSERTED", "DELETED", "CHANGED", "FULL REQUIRED", "SIZE"),
        [
            (name, f"{count(found, 'inserted'):,}", f"{count(found, 'deleted'):,}", count(found, "changed"),
             count(found, "full_required"), format_bytes(count(found, "bytes")))
            for name, figures in resources_of(snapshot.report).items()
            for found in [section(figures.get("deltas"))]
        ],
        numbers=frozenset({"INSERTED", "DELETED", "CHANGED", "FULL REQUIRED", "SIZE"}),
    )  # fmt: skip


def _print_accounting(snapshot: Snapshot) -> None:
    """Print the rows of each source table: exported, and excluded by rule."""
    accounting = accounting_of(snapshot.report)
    if accounting is None:
        return
    print_text()
    print_table(
        ("SOURCE TABLE", "RESOURCE", "RULE", "ROWS", "OF NO ACCOUNT"),
        [
            (table.table, table.resource, rule, f"{rows:,}", f"{no_account:,}" if no_account else "")
            for table in accounting.tables
            for rule, rows, no_account in (
                ("exported", table.exported, 0),
                *((rule, rows, table.of_no_account.get(rule, 0)) for rule, rows in table.excluded.items()),
            )
        ],
        numbers=frozenset({"ROWS", "OF NO ACCOUNT"}),
    )
