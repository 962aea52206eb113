"""What verbs print: plain lines in a pipe, tables and colours on a terminal that wants them."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

# What a terminal would obey or hide instead of showing it: control characters but for line ends and tabs, line
# separators, changes of direction, halves of surrogate pairs.
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def say(text: str = "") -> None:
    """Text on standard output, mostly one line."""
    sys.stdout.write(shown(text) + "\n")


def note(text: str) -> None:
    """Text beside the output proper, on standard error."""
    sys.stderr.write(shown(text) + "\n")
    sys.stderr.flush()


def shown(text: str) -> str:
    r"""The text with what would not be seen written as an escape, such as `\x1b`: names come from anywhere."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """The text on one line of a list."""
    return " ".join(text.split())


def say_json(value: Any) -> None:
    """One JSON document on one line."""
    import msgspec

    say(msgspec.json.encode(value).decode())


def is_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def say_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: frozenset[str] = frozenset()
) -> None:
    """A table on a terminal; tab-separated lines with a header in a pipe. `numbers` are flush right."""
    texts = [["" if cell is None else one_line(shown(str(cell))) for cell in row] for row in rows]
    if not is_terminal():
        for line in ([*columns], *texts):
            say("\t".join(line))
        return
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    least = 2
    for column, cells in zip(columns, zip(*texts, strict=True) if texts else ((),) * len(columns), strict=True):
        # An id or a password that is broken in two cannot be copied, a number not read: only words are parted.
        whole = column in numbers
        words = [cell_len(word) for cell in (column, *cells) for word in ([cell] if whole else cell.split() or [""])]
        least += max(words) + 3
        table.add_column(
            column,
            justify="right" if column in numbers else "left",
            min_width=max(words),
            no_wrap=whole or all(" " not in cell for cell in cells),
        )
    for line in texts:
        table.add_row(*(Text(cell) for cell in line))
    console = Console(no_color="NO_COLOR" in os.environ)
    # On a terminal that is too narrow even so, the terminal wraps the lines.
    console.width = max(console.width, least)
    console.print(table)


def shown_instant(instant: datetime | None) -> str:
    """`2026-11-20 04:00:00` in UTC, empty for None."""
    return "" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}"


def shown_bytes(size_bytes: float) -> str:
    """`1.3 MB`: powers of ten, as disks and downloads are counted."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"


def shown_seconds(seconds: float) -> str:
    """`48 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
