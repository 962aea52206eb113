"""Progress of a run: a progress bar on a terminal, otherwise a line every few seconds."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from msgspec import UNSET, to_builtins

from daybreak.cli.output import format_bytes, format_seconds, print_note
from daybreak.domain.counts import format_count
from daybreak.domain.run_report import RunProgress

_INTERVAL_SECONDS = 10.0


class ProgressCallback(Protocol):
    """Receives a run's `Progress.as_json`."""

    def __call__(self, progress: RunProgress, /) -> None: ...


@contextmanager
def run_progress(*, logged: bool = False) -> Iterator[ProgressCallback]:
    """Show a run's progress on standard error until the context ends.

    With `logged`, progress goes to the log if standard error is not a terminal, so that all its lines have one format.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _ProgressLines(_log_progress if logged else _print_progress)
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


class _ProgressLines:
    """Forwards progress when the resource or phase changes, and every few seconds."""

    def __init__(self, write: ProgressCallback) -> None:
        self._write = write
        self._activity = ""
        self._written_at = 0.0

    def __call__(self, progress: RunProgress, /) -> None:
        activity, now = _activity(progress), time.monotonic()
        if activity != self._activity or now >= self._written_at + _INTERVAL_SECONDS:
            self._activity, self._written_at = activity, now
            self._write(progress)


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
    parts = [
        format_count(progress.rows, "row"),
        format_count(progress.files, "file"),
        format_bytes(progress.bytes),
    ]
    if progress.inserted or progress.deleted:
        parts.append(f"+{progress.inserted:,} -{progress.deleted:,}")
    if progress.rows_per_second:
        parts.append(f"{progress.rows_per_second:,} rows/s")
    if progress.seconds_left is not UNSET:
        parts.append(f"{format_seconds(progress.seconds_left)} left")
    return ", ".join(parts)
