"""Progress of a run, as a bar on a terminal and otherwise a line every few seconds, and its report."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import UNSET, to_builtins

from daybreak.cli.output import print_note, print_table, print_text
from daybreak.domain.display import format_count, format_duration, format_size
from daybreak.domain.run_report import RunProgress, RunReport
from daybreak.domain.snapshot import Snapshot
from daybreak.snapshots.report import source_warnings

ProgressCallback = Callable[[RunProgress], None]
_INTERVAL_SECONDS = 10.0


@contextmanager
def run_progress(*, logged: bool = False) -> Iterator[ProgressCallback]:
    """Show a run's progress on standard error until the context ends.

    With `logged`, progress goes to the log if standard error is not a terminal, so that all its lines have one format.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _in_lines(_log_progress if logged else _print_progress)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    console = Console(stderr=True, no_color="NO_COLOR" in os.environ)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TaskProgressColumn())
    with Progress(*columns, TextColumn("{task.fields[figures]}"), console=console, transient=True) as bars:
        task = bars.add_task("opening", total=None, figures="")

        def show(progress: RunProgress) -> None:
            done = progress.share
            if done is UNSET:
                done = max(progress.resource_number - 1, 0) / max(progress.resources, 1)
            bars.update(task, description=_activity(progress), total=1.0, completed=done, figures=_figures(progress))

        yield show


def _in_lines(write: ProgressCallback) -> ProgressCallback:
    """Return a function that forwards progress when the resource or phase changes, and every few seconds."""
    written, written_at = "", 0.0

    def show(progress: RunProgress) -> None:
        nonlocal written, written_at
        activity, now = _activity(progress), time.monotonic()
        if activity != written or now >= written_at + _INTERVAL_SECONDS:
            written, written_at = activity, now
            write(progress)

    return show


def _print_progress(progress: RunProgress) -> None:
    print_note(f"{_activity(progress)}: {_figures(progress)}")


def _log_progress(progress: RunProgress) -> None:
    import structlog

    known = {name: value for name, value in to_builtins(progress).items() if value is not None}
    structlog.get_logger("daybreak.snapshots").info("run.progress", **known)


def _activity(progress: RunProgress) -> str:
    if progress.resource:
        return f"{progress.resource} ({progress.resource_number}/{progress.resources})"
    return progress.phase or "opening"


def _figures(progress: RunProgress) -> str:
    parts = [format_count(progress.rows, "row"), format_count(progress.files, "file"), format_size(progress.bytes)]
    if progress.inserted or progress.deleted:
        parts.append(f"+{progress.inserted:,} -{progress.deleted:,}")
    if progress.rows_per_second:
        parts.append(f"{progress.rows_per_second:,} rows/s")
    if progress.seconds_left is not UNSET:
        parts.append(f"{format_duration(progress.seconds_left)} left")
    return ", ".join(parts)


def print_report(snapshot: Snapshot) -> None:
    """Print the report, as far as the run made one."""
    report = snapshot.report
    if report.resources:
        print_text()
        print_table(
            ("RESOURCE", "ROWS", "LEADERS", "CARRIED", "SIZE", "TOOK"),
            [
                (name, f"{figures.rows:,}", figures.leaders, figures.carried, format_size(figures.bytes),
                 format_duration(figures.seconds))
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
             format_size(deltas.bytes))
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
