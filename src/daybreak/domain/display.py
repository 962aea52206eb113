"""Text forms of times, numbers, sizes and durations, in the time zone and number format of the seat that reads them.

By default, as in commands, files and the API, they are UTC and `1,234.5`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

if TYPE_CHECKING:
    from daybreak.domain.identity import Seat

DEFAULT_ZONE = "UTC"
_SEPARATORS: Mapping[str, tuple[str, str]] = {
    "1,234.5": (",", "."),
    "1.234,5": (".", ","),
    "1 234,5": ("\N{NARROW NO-BREAK SPACE}", ","),
    "1\N{RIGHT SINGLE QUOTATION MARK}234.5": ("\N{RIGHT SINGLE QUOTATION MARK}", "."),
}
"""Separators of thousands and of decimals by example."""
_SIZE_UNITS = ("bytes", "kB", "MB", "GB", "TB")
NUMBER_FORMATS = tuple(_SEPARATORS)
DEFAULT_NUMBER_FORMAT = NUMBER_FORMATS[0]


@dataclass(frozen=True, slots=True)
class Display:
    """Zone and number format of one reader."""

    zone: tzinfo = UTC
    number_format: str = DEFAULT_NUMBER_FORMAT


_DISPLAY: ContextVar[Display] = ContextVar("display", default=Display())  # noqa: B039 - frozen


@contextmanager
def display_for(seat: "Seat | None" = None) -> Iterator[None]:
    """Format times and numbers for a seat, or by default, in this block."""
    token = _DISPLAY.set(Display() if seat is None else _display_of(seat))
    try:
        yield
    finally:
        _DISPLAY.reset(token)


def set_display(seat: "Seat") -> None:
    """Format times and numbers for a seat in the rest of the block."""
    _DISPLAY.set(_display_of(seat))


def _display_of(seat: "Seat") -> Display:
    """Return the display of a seat. Values that this system does not know have the default."""
    try:
        zone: tzinfo = ZoneInfo(seat.time_zone) if seat.time_zone not in (None, DEFAULT_ZONE) else UTC
    except (ZoneInfoNotFoundError, ValueError):
        zone = UTC
    number_format = seat.number_format or ""
    return Display(zone, number_format if number_format in _SEPARATORS else DEFAULT_NUMBER_FORMAT)


@cache
def time_zones() -> tuple[str, ...]:
    """Return the names of the time zones that this system knows, UTC first."""
    # The other names are aliases, offsets with inverted signs, or files of the system.
    others = ("Etc/", "SystemV/", "US/", "posix/", "right/")
    names = (name for name in available_timezones() if "/" in name and not name.startswith(others))
    return (DEFAULT_ZONE, *sorted(names))


def local(instant: datetime) -> datetime:
    """Return an instant in the zone of the reader."""
    return instant.astimezone(_DISPLAY.get().zone)


def start_of(day: date) -> datetime:
    """Return when a day of the reader begins, in UTC."""
    return datetime.combine(day, time(0), _DISPLAY.get().zone).astimezone(UTC)


def zone_name(instant: datetime) -> str:
    """Return the abbreviation of the reader's zone at an instant, such as `CET` or `UTC+3`."""
    name = f"{local(instant):%Z}"
    return f"UTC{name}" if name[:1] in "+-" else name


def localized(number: str) -> str:
    """Return a number that is written as `1,234.5` in the format of the reader."""
    thousands, decimal = _SEPARATORS[_DISPLAY.get().number_format]
    return number.translate({ord(","): thousands, ord("."): decimal})


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun, such as `1 row` or `1,200 rows`. The plural of the noun ends in `s`."""
    return f"{localized(f'{count:,}')} {noun}{'' if count == 1 else 's'}"


def format_size(size_bytes: float) -> str:
    """Format `1234567` as `1.2 MB`, in decimal units."""
    amount = float(size_bytes)
    for unit in _SIZE_UNITS:
        if amount < 999.5 or unit == _SIZE_UNITS[-1]:
            break
        amount /= 1000
    if unit == "bytes":
        return format_count(round(amount), "byte")
    return localized(f"{amount:.1f} {unit}") if amount < 99.95 else f"{amount:.0f} {unit}"


def format_duration(value: timedelta | float) -> str:
    """Format a timedelta or a number of seconds as `6 h 12 min`, `48 s` or `3 days`."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0.95:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 else localized(f"{seconds:.1f} s")
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
