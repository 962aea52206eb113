"""How values are written for people: numbers, sizes, instants, spans, changes and sparklines.

Everything is UTC and English; nothing here knows HTML or HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

_CONTROL = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
_CONTROL |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F], "\N{REPLACEMENT CHARACTER}")
_SIZES = ("bytes", "kB", "MB", "GB", "TB")


def number(value: float | None) -> str:
    """`12345` to `12,345`; an en dash when there is none."""
    return "\N{EN DASH}" if value is None else f"{value:,}"


def size(bytes_count: int | None) -> str:
    """`1234567` bytes to `1.2 MB` (decimal units, as browsers show downloads)."""
    if bytes_count is None:
        return "\N{EN DASH}"
    amount = float(bytes_count)
    for unit in _SIZES:
        if amount < 999.5 or unit == _SIZES[-1]:
            break
        amount /= 1000
    if unit == "bytes":
        return f"{bytes_count} bytes" if bytes_count != 1 else "1 byte"
    return f"{amount:.1f} {unit}" if amount < 99.95 else f"{amount:.0f} {unit}"


def instant(value: datetime | None) -> str:
    """`22 Nov 2026, 03:12 UTC`."""
    return "\N{EN DASH}" if value is None else f"{value.day} {value:%b %Y, %H:%M} UTC"


def clock(value: datetime | None) -> str:
    """`03:12 UTC`."""
    return "\N{EN DASH}" if value is None else f"{value:%H:%M} UTC"


def day(value: date | None) -> str:
    """`22 Nov 2026`."""
    return "\N{EN DASH}" if value is None else f"{value.day} {value:%b %Y}"


def day_and_clock(value: datetime, now: datetime) -> str:
    """`03:12 UTC` on the day of `now`, `yesterday, 03:12 UTC`, else with the date."""
    if value.date() == now.date():
        return clock(value)
    if value.date() == now.date() - timedelta(days=1):
        return f"yesterday, {clock(value)}"
    return f"{value.day} {value:%b}, {clock(value)}"


def span(value: timedelta | float | None) -> str:
    """A length of time (timedelta or seconds): `6 h 12 min`, `48 s`, `3 days`."""
    if value is None:
        return "\N{EN DASH}"
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0.95:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    if seconds < 600:
        whole, rest = divmod(round(seconds), 60)
        return f"{whole} min {rest} s" if rest else f"{whole} min"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{round(hours / 24)} days"


def until(value: datetime, now: datetime) -> str:
    """How long until then, in whole minutes: `in 6 h 12 min`, `now`."""
    minutes = int((value - now).total_seconds() // 60)
    if minutes < 1:
        return "within a minute"
    return "in " + (span(minutes * 60.0) if minutes >= 10 else f"{minutes} min")


def ago(value: datetime | None, now: datetime) -> str:
    """`just now`, `12 min ago`, `3 days ago`; `never` when there is none."""
    if value is None:
        return "never"
    seconds = (now - value).total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min ago"
    if seconds < 48 * 3600:
        return f"{int(seconds // 3600)} h ago"
    return f"{int(seconds // 86400)} days ago"


def visible(text: str) -> str:
    """Text with its control and direction-override characters made visible, so that no cell can
    hide or reorder what stands beside it.
    """
    return text.translate(_CONTROL)


def one_line(name: str) -> str:
    """A name as it reads: line breaks and tabs in it are spaces, all else that hides is made visible."""
    return visible(re.sub(r"[\t\r\n]+", " ", name))


def initials(name: str) -> str:
    """Up to two first letters for an account's mark; `?` when the name has none."""
    letters = [word[0] for word in re.findall(r"[^\W_]+", name)]
    return "".join(letters[:1] + letters[-1:] if len(letters) > 1 else letters[:1]).upper() or "?"


_BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def agent(user_agent: str) -> str:
    """A user agent in a few words: `Chrome on Linux`, `curl/8.5.0`."""
    browser = next((name for sign, name in _BROWSERS if sign in user_agent), "")
    system = next((name for sign, name in _SYSTEMS if sign in user_agent), "")
    if browser:
        return f"{browser} on {system}" if system else browser
    first = user_agent.split(" ", 1)[0][:40]
    return visible(first) if first else "Unknown client"


@dataclass(frozen=True, slots=True)
class Change:
    """A figure against the one before: `direction` is `up`, `down`, `same` or `none`."""

    text: str
    direction: str


def change(value: int, before: int | None) -> Change:
    """Rows against the previous snapshot: `+120 (+1.2 %)`, `no change`, `first snapshot`."""
    if before is None:
        return Change("first snapshot", "none")
    moved = value - before
    if moved == 0:
        return Change("no change", "same")
    sign = "+" if moved > 0 else "\N{MINUS SIGN}"
    share = f" ({sign}{abs(moved) / before:.1%})".replace("%", " %") if before else ""
    return Change(f"{sign}{abs(moved):,}{share}", "up" if moved > 0 else "down")


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A line in a box of 100 x 30: `line` and `area` are SVG point lists, `label` says it."""

    line: str
    area: str
    label: str


def sparkline(values: Sequence[int]) -> Sparkline | None:
    """Rows over the kept snapshots, oldest first; None when there are fewer than two."""
    if len(values) < 2:
        return None
    low, high = min(values), max(values)
    # A scale that starts near the lowest value shows change; a flat series stays in the middle.
    reach = max(high - low, 0)
    step = 100 / (len(values) - 1)
    points = [
        (index * step, 15.0 if reach == 0 else 27 - 24 * (value - low) / reach) for index, value in enumerate(values)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    label = f"Rows over {len(values)} snapshots: from {values[0]:,} to {values[-1]:,}, lowest {low:,}, highest {high:,}"
    return Sparkline(line, f"0,30 {line} 100,30", label)


def share(part: float, whole: float) -> str:
    """A share as a percentage: `12.3 %`; an en dash when there is no whole."""
    return "\N{EN DASH}" if not whole else f"{100 * part / whole:.1f} %"


def width(part: float, most: float) -> str:
    """The width of a bar as an SVG percentage, never quite invisible when there is something."""
    if not most or part <= 0:
        return "0%"
    return f"{max(100 * part / most, 0.6):.2f}%"
