"""How far a run is, while somebody watches: a moving bar on a terminal, elsewhere a line now and then."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from daybreak.cli.output import note, shown_bytes, shown_seconds
from daybreak.snapshots.report import count

_TOLD_EVERY_SECONDS = 10.0


class Watch(Protocol):
    """Takes what `Progress.as_json` of a run says."""

    def __call__(self, progress: Mapping[str, object], /) -> None: ...


@contextmanager
def watching_run(*, logged: bool = False) -> Iterator[Watch]:
    """Shows a run's progress on standard error until the context ends. `logged`: where no bar can move it goes into
    the log, because its lines stand among those of the log.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _NowAndThen(_log if logged else _write)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn

    console = Console(stderr=True, no_color="NO_COLOR" in os.environ)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TaskProgressColumn())
    with Progress(*columns, TextColumn("{task.fields[figures]}"), console=console, transient=True) as bars:
        task = bars.add_task("opening", total=None, figures="")

        def show(progress: Mapping[str, object]) -> None:
            share = progress.get("share")
            number, resources = count(progress, "resource_number"), max(count(progress, "resources"), 1)
            done = share if isinstance(share, float) else max(number - 1, 0) / resources
            bars.update(task, description=_what(progress), total=1.0, completed=done, figures=_figures(progress))

        yield show


class _NowAndThen:
    """Tells when the resource or phase changes, and every few seconds within a long one."""

    def __init__(self, tell: Watch) -> None:
        self._tell = tell
        self._said = ""
        self._said_at = 0.0

    def __call__(self, progress: Mapping[str, object], /) -> None:
        what, now = _what(progress), time.monotonic()
        if what != self._said or now >= self._said_at + _TOLD_EVERY_SECONDS:
            self._said, self._said_at = what, now
            self._tell(progress)


def _write(progress: Mapping[str, object]) -> None:
    note(f"{_what(progress)}: {_figures(progress)}")


def _log(progress: Mapping[str, object]) -> None:
    import structlog

    known = {name: value for name, value in progress.items() if value is not None}
    structlog.get_logger("daybreak.snapshots").info("run.progress", **known)


def _what(progress: Mapping[str, object]) -> str:
    resource = progress.get("resource")
    if resource:
        return f"{resource} ({count(progress, 'resource_number')}/{count(progress, 'resources')})"
    return str(progress.get("phase") or "opening")


def _figures(progress: Mapping[str, object]) -> str:
    parts = [
        f"{count(progress, 'rows'):,} rows",
        f"{count(progress, 'files'):,} files",
        shown_bytes(count(progress, "bytes")),
    ]
    rate, left = count(progress, "rows_per_second"), progress.get("seconds_left")
    if rate:
        parts.append(f"{rate:,} rows/s")
    if isinstance(left, int | float):
        parts.append(f"{shown_seconds(left)} left")
    return ", ".join(parts)
