"""What verbs print: plain lines in a pipe, tables and colours on a terminal that wants them."""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any


def say(text: str = "") -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """One line beside the output proper, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


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
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not is_terminal():
        for line in ([*columns], *texts):
            say("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in line))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for line in texts:
        table.add_row(*(Text(cell) for cell in line))
    Console(no_color="NO_COLOR" in os.environ).print(table)


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
