"""What the command prints: tables and a moving bar on a terminal, plain lines in a pipe."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from daybreak_client.copies import Tell
from daybreak_client.published import PublishedFile

# What a terminal would obey or hide instead of showing it.
_UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def say(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(shown(text) + "\n")


def note(text: str) -> None:
    """A line beside the output proper, on standard error."""
    sys.stderr.write(shown(text) + "\n")


def shown(text: str) -> str:
    r"""The text with what would not be seen written as an escape, such as `\x1b`: names come from anywhere."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[str] = frozenset()) -> None:
    """A table on a terminal, with `numbers` flush right; tab-separated lines with a header in a pipe."""
    if not _is_terminal(sys.stdout):
        for row in (columns, *rows):
            sys.stdout.write("\t".join(map(shown, row)) + "\n")
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", no_wrap=True, overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    Console(no_color="NO_COLOR" in os.environ).print(table)


@contextmanager
def watching() -> Iterator[Tell]:
    """Shows on a terminal how far the transfer of each file is, until the context ends."""
    if not _is_terminal(sys.stderr):
        yield lambda _file, _size_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(24), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True, no_color="NO_COLOR" in os.environ)
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[PublishedFile, TaskID] = {}

        def show(file: PublishedFile, size_bytes: int) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file.name, total=file.size_bytes)
            bars.update(tasks[file], completed=size_bytes)

        yield show


def shown_bytes(size_bytes: float) -> str:
    """`1.3 MB`: powers of ten, as disks and downloads are counted."""
    for unit in ("B", "kB", "MB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} GB"


def _is_terminal(stream: object) -> bool:
    is_a_tty = getattr(stream, "isatty", lambda: False)()
    return bool(is_a_tty) and os.environ.get("TERM") != "dumb"
