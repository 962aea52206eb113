"""Output of the command: tables and progress bars on a terminal, plain lines in a pipe."""

import json
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

from daybreak_client.folder import ProgressCallback
from daybreak_client.published import PublishedFile, PublishedSnapshot

# Characters that a terminal interprets or hides.
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# Characters between two columns of a table.
_COLUMN_GAP = 3


def print_text(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(escape_unprintable(text) + "\n")


def print_json(value: object) -> None:
    """Write a value as one line of JSON to standard output."""
    print_text(json.dumps(value))


def print_note(*lines: str) -> None:
    """Write lines to standard error. A line break in one, as in the name of a file, does not begin another."""
    sys.stderr.write("\n".join(map(escape_unprintable, lines)) + "\n")


def print_nothing(_text: str) -> None:
    """Take the place of `print_note` when a command is quiet."""


def sentence(text: str) -> str:
    """Return text with one full stop at its end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def escape_unprintable(text: str) -> str:
    r"""Replace characters that a terminal interprets or hides by escapes such as `\x1b`."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: frozenset[str] = frozenset(),
    *,
    continued: bool = False,
) -> None:
    """Write a table on a terminal, tab-separated lines with a header in a pipe. Columns in `numbers` align right.

    On a terminal, columns without any value are left out and long text wraps. Numbers are never cut. In a pipe, a table
    that is `continued` has no header.
    """
    if not is_terminal(sys.stdout):
        for row in rows if continued else (columns, *rows):
            sys.stdout.write("\t".join(map(escape_unprintable, row)) + "\n")
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(no_color="NO_COLOR" in os.environ)
    shown = [place for place in range(len(columns)) if not rows or any(row[place] for row in rows)]
    cells = {columns[place]: [escape_unprintable(row[place]) for row in rows] for place in shown}
    # Rich shrinks the columns that may wrap. If the single words of the others do not fit, only numbers stay whole.
    single = {name for name in cells if name in numbers or not any(" " in cell for cell in cells[name])}
    whole = single if _least_width(cells, single) <= console.width else numbers
    # Rich cuts lines that are wider than its console. A narrow terminal wraps them.
    console.width = max(console.width, _least_width(cells, whole))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in cells:
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        table.add_column(name, justify=justify, no_wrap=name in whole, overflow="fold")
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    console.print(table)


def _least_width(cells: Mapping[str, Sequence[str]], whole: Collection[str]) -> int:
    """Return the width of a table in which the columns in `whole` do not wrap, and the others have short words."""
    texts = ((name, *(column if name in whole else ())) for name, column in cells.items())
    return sum(max(map(len, each)) + _COLUMN_GAP for each in texts) + 1


@contextmanager
def download_progress(*, quiet: bool = False) -> Iterator[ProgressCallback]:
    """Show the progress of each download on a terminal until the context ends."""
    if quiet or not is_terminal(sys.stderr):
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
            bars.update(tasks[file], completed=size_bytes, visible=size_bytes < file.size_bytes)

        yield show


def format_count(count: int) -> str:
    """Format a number: with separators on a terminal, plain in a pipe."""
    return f"{count:,}" if is_terminal(sys.stdout) else str(count)


def format_size(size_bytes: float) -> str:
    """Format a size: in powers of ten on a terminal, such as `1.3 MB`, as a number of bytes in a pipe."""
    if not is_terminal(sys.stdout):
        return str(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size_bytes < 999.95:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} GB"


def freshness(published: PublishedSnapshot) -> str:
    """Return what the files describe, and when the next ones are expected."""
    as_of = f"Data as of {published.as_of:%Y-%m-%d %H:%M} UTC"
    if published.late:
        return f"{as_of}. New files are late. {published.reason or ''}".strip()
    return f"{as_of}, next files expected at {published.next_expected_at:%Y-%m-%d %H:%M} UTC."


def is_terminal(stream: object) -> bool:
    """Return whether a stream is a terminal that can show colors and bars."""
    is_a_tty = getattr(stream, "isatty", lambda: False)()
    return bool(is_a_tty) and os.environ.get("TERM") != "dumb"
