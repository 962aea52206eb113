"""Formatting of numbers, sizes, times and durations for the reader of a page. None becomes an en dash."""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta

from daybreak.domain import display
from daybreak.domain.display import local, localized, zone_name
from daybreak.domain.visible_text import HIDDEN_CHARACTERS

EN_DASH = "\N{EN DASH}"

_PICTURES = {chr(code): chr(0x2400 + code) for code in range(0x20)} | {"\x7f": "\u2421"}
_BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def format_number(value: float | None) -> str:
    """Format `12345` as `12,345`."""
    return EN_DASH if value is None else localized(f"{value:,}")


def format_changes(inserted: int, deleted: int) -> str:
    """Format changed rows as `+120, \N{MINUS SIGN}40`, or `no change`."""
    parts = [f"+{format_number(inserted)}"] if inserted else []
    parts += [f"\N{MINUS SIGN}{format_number(deleted)}"] if deleted else []
    return ", ".join(parts) or "no change"


def format_size(size_bytes: int | None) -> str:
    """Format `1234567` as `1.2 MB`, in decimal units."""
    return EN_DASH if size_bytes is None else display.format_size(size_bytes)


def format_datetime(value: datetime | None) -> str:
    """Format as `22 Nov 2026, 03:12 UTC`."""
    return EN_DASH if value is None else f"{format_date(value)}, {format_time(value)}"


def format_time(value: datetime | None) -> str:
    """Format as `03:12 UTC`."""
    return EN_DASH if value is None else f"{local(value):%H:%M} {zone_name(value)}"


def format_date(value: date | None) -> str:
    """Format as `22 Nov 2026`. An instant has the day in the zone of the reader."""
    if isinstance(value, datetime):
        value = local(value)
    return EN_DASH if value is None else f"{value.day} {value:%b %Y}"


def format_recent_datetime(value: datetime, now: datetime) -> str:
    """Format as `today, 03:12 UTC`, `yesterday, 03:12 UTC` or `20 Nov, 03:12 UTC`."""
    day, today = local(value).date(), local(now).date()
    if day == today:
        return f"today, {format_time(value)}"
    if day == today - timedelta(days=1):
        return f"yesterday, {format_time(value)}"
    return f"{day.day} {day:%b}, {format_time(value)}"


def format_duration(value: timedelta | float | None) -> str:
    """Format a timedelta or a number of seconds as `6 h 12 min`, `48 s` or `3 days`."""
    return EN_DASH if value is None else display.format_duration(value)


def format_countdown(value: datetime, now: datetime) -> str:
    """Format the time left as `in 6 h 12 min` or `within a minute`."""
    minutes = int((value - now).total_seconds() // 60)
    if minutes < 1:
        return "within a minute"
    return "in " + (format_duration(minutes * 60.0) if minutes >= 10 else f"{minutes} min")


def format_ago(value: datetime | None, now: datetime) -> str:
    """Format as `just now`, `12 min ago` or `3 days ago`; None as `never`."""
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


def format_age(value: datetime, now: datetime) -> str:
    """Format the age of data as `38 h old` or `2 days old`."""
    return f"{format_ago(value, now).removesuffix(' ago')} old" if now - value >= timedelta(minutes=1) else "new"


def format_percentage(part: float, whole: float) -> str:
    """Format a share as `12.3 %`; an en dash if the whole is 0."""
    return EN_DASH if not whole else localized(f"{100 * part / whole:.1f} %")


def format_bar_width(part: float, maximum: float) -> str:
    """Format the width of a bar as an SVG percentage. A part above 0 stays visible."""
    if not maximum or part <= 0:
        return "0%"
    return f"{max(100 * part / maximum, 0.6):.2f}%"


def make_visible(text: str) -> str:
    """Replace hidden characters with visible ones, so that a value cannot hide or reorder text."""
    return HIDDEN_CHARACTERS.sub(
        lambda found: "".join(_PICTURES.get(each, "\N{REPLACEMENT CHARACTER}") for each in found[0]), text
    )


def make_lines_visible(text: str) -> str:
    """Do the same with a text of several lines, which keeps its line breaks."""
    return "\n".join(make_visible(line) for line in text.strip().splitlines())


def format_name(name: str) -> str:
    """Return a name on one line: line breaks and tabs become spaces, other control characters visible."""
    return make_visible(re.sub(r"[\t\r\n]+", " ", name))


def format_words(name: str) -> str:
    """Return a name in code as words: `opted_out` as `Opted out`."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def format_initials(name: str) -> str:
    """Return up to two initials; `?` if the name has no letter or digit."""
    letters = [word[0] for word in re.findall(r"[^\W_]+", name)]
    return "".join(letters[:1] + letters[-1:] if len(letters) > 1 else letters[:1]).upper() or "?"


def format_user_agent(user_agent: str) -> str:
    """Shorten a User-Agent header to `Chrome on Linux` or `curl/8.5.0`."""
    browser = next((name for sign, name in _BROWSERS if sign in user_agent), "")
    system = next((name for sign, name in _SYSTEMS if sign in user_agent), "")
    if browser:
        return f"{browser} on {system}" if system else browser
    product = user_agent.split(" ", 1)[0][:40]
    return make_visible(product) if product else "Unknown client"


TEMPLATE_FILTERS: Mapping[str, Callable[..., str]] = {
    "number": format_number,
    "changes": format_changes,
    "size": format_size,
    "datetime": format_datetime,
    "time": format_time,
    "date": format_date,
    "duration": format_duration,
    "localized": localized,
    "ago": format_ago,
    "percentage": format_percentage,
    "bar_width": format_bar_width,
    "visible": make_visible,
    "visible_lines": make_lines_visible,
    "name": format_name,
    "initials": format_initials,
}
