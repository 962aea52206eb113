"""Output of the commands: plain lines in a pipe, tables and colors on a terminal, and errors for operators."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from daybreak.domain.errors import CONNECTION_ADVICE, DaybreakError, InvalidRequest, first_line

# Characters that a terminal interprets or hides: control characters except tabs and line feeds, line separators,
# changes of direction, and surrogates.
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# A connection to PostgreSQL that was not established, in the words of its driver.
_NOT_CONNECTED = ("connection failed", "failed to resolve")


def print_text(text: str = "") -> None:
    """Write text to standard output, usually one line."""
    sys.stdout.write(escape_unprintable(text) + "\n")


def print_note(text: str) -> None:
    """Write text to standard error: progress, hints and errors."""
    write_to_standard_error(escape_unprintable(text) + "\n")


def write_to_standard_error(text: str) -> None:
    """Write text to standard error. A full disk or a closed pipe there loses the text, and ends no run or service."""
    # Looked up on each call, because tests replace it.
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def escape_unprintable(text: str) -> str:
    r"""Replace characters that a terminal interprets or hides by escapes such as `\x1b`. Names may contain any."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """Join the words of a text with single spaces."""
    return " ".join(text.split())


def print_json(value: Any) -> None:
    """Write a JSON document on one line to standard output."""
    import msgspec

    print_text(msgspec.json.encode(value).decode())


def fields_of(value: object, *names: str) -> dict[str, object]:
    """Return attributes of a value by name, to print as JSON."""
    return {name: getattr(value, name) for name in names}


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: frozenset[str] = frozenset()
) -> None:
    """Write a table on a terminal, tab-separated lines with a header in a pipe. Columns in `numbers` align right."""
    texts = [["" if cell is None else one_line(escape_unprintable(str(cell))) for cell in row] for row in rows]
    if not is_terminal():
        for line in ([*columns], *texts):
            print_text("\t".join(line))
        return
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    min_width = 2
    for column, cells in zip(columns, zip(*texts, strict=True) if texts else ((),) * len(columns), strict=True):
        # Lines break only between words, because a broken id or number cannot be copied or read.
        unbroken = column in numbers
        words = [cell_len(word) for cell in (column, *cells) for word in ([cell] if unbroken else cell.split() or [""])]
        min_width += max(words) + 3
        table.add_column(
            column,
            justify="right" if column in numbers else "left",
            min_width=max(words),
            no_wrap=unbroken or all(" " not in cell for cell in cells),
        )
    for line in texts:
        table.add_row(*(Text(cell) for cell in line))
    console = Console(no_color="NO_COLOR" in os.environ)
    # A narrower terminal wraps the lines itself.
    console.width = max(console.width, min_width)
    console.print(table)


def format_instant(instant: datetime | None) -> str:
    """Format a UTC instant as `2026-11-20 04:00:00`; empty for None."""
    return "" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}"


def describe_error(error: DaybreakError | OSError) -> str:
    """Return one or more lines. They include the cause, which users of the service never see."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}"
    text = error.message
    if isinstance(error, InvalidRequest):
        text += "".join(f"\n  {fault.pointer}: {fault.detail}" for fault in error.faults)
    cause = error.__cause__
    if error.code == "state_unavailable" and cause is not None:
        # The database driver's own message, if there is one.
        reason = first_line(getattr(cause, "orig", None) or cause)
        text += f"\n  state.url: {reason}" + (f". {CONNECTION_ADVICE}" if reason.startswith(_NOT_CONNECTED) else "")
    return text
