"""What kinds of values settings take: how each is written, read from text or TOML, and shown."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LONGEST_WINDOW = timedelta(days=365)
_USUAL_PORTS = {"http": ":80", "https": ":443"}
_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


class BadValue(ValueError):
    """A value is not of its kind; the message says what to write instead."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value. `read` takes the TOML or text value and the folder that relative paths start from.

    `written` says in the reference how it is written; `show` gives a value back in that form.
    """

    written: str
    read: Callable[[object, Path], T]
    show: Callable[[T], str]


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `attempts` in any `window`."""

    attempts: int
    window: timedelta


def _text(raw: object, _folder: Path) -> str:
    if not isinstance(raw, str):
        raise BadValue("write it as text in quotes")
    return raw


def _boolean(raw: object, _folder: Path) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in {"true", "false"}:
        return raw.lower() == "true"
    raise BadValue("write true or false")


def _path(raw: object, folder: Path) -> Path:
    text = _text(raw, folder)
    if not text:
        raise BadValue("write a path")
    return (folder / Path(text).expanduser()).resolve()


def duration(text: str) -> timedelta:
    """`90s`, `15m`, `1h30m`, `7d`, `2w` as a time span. Raises BadValue."""
    parts = re.findall(r"(\d+)([smhdw])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BadValue('write a duration such as "30s", "15m", "4h" or "7d"')
    try:
        return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))
    except OverflowError:
        raise BadValue("that is longer than a calendar holds") from None


def show_duration(span: timedelta) -> str:
    """A time span in the largest unit that divides it: `15m`, `7d`."""
    seconds = int(span.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def _duration(raw: object, folder: Path) -> timedelta:
    return duration(_text(raw, folder))


def _size_bytes(raw: object, _folder: Path) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B|B)", raw) if isinstance(raw, str) else None
    if match is None:
        raise BadValue('write a size such as "512MB", "1GB" or "2GiB"')
    return int(float(match[1]) * _BYTES[match[2]])


def _show_size(size_bytes: int) -> str:
    for unit in ("TB", "GB", "MB", "KB"):
        if size_bytes and size_bytes % _BYTES[unit] == 0:
            return f"{size_bytes // _BYTES[unit]}{unit}"
    return f"{size_bytes}B"


def _time_of_day(raw: object, _folder: Path) -> time:
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", raw) if isinstance(raw, str) else None
    if match is None:
        raise BadValue('write a UTC time of day such as "04:00"')
    return time(int(match[1]), int(match[2]))


def _rate(raw: object, folder: Path) -> Rate:
    match = re.fullmatch(r"(\d+)/(\w+)", _text(raw, folder))
    if match is None or int(match[1]) < 1:
        raise BadValue('write attempts per time, such as "10/5m"')
    window = duration(match[2])
    if not timedelta(seconds=1) <= window <= _LONGEST_WINDOW:
        raise BadValue(f'write attempts per time, from "1s" to "{show_duration(_LONGEST_WINDOW)}", such as "10/5m"')
    return Rate(int(match[1]), window)


def _show_rate(rate: Rate) -> str:
    return f"{rate.attempts}/{show_duration(rate.window)}"


def _network(raw: object, folder: Path) -> IPv4Network | IPv6Network:
    try:
        return ip_network(_text(raw, folder))
    except ValueError:
        raise BadValue('write an address or a network such as "10.0.0.0/8"') from None


def _web_address(raw: object, folder: Path) -> str:
    text = _text(raw, folder).rstrip("/")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise BadValue('write the address users reach the service at, such as "https://export.example.org"')
    if parts.query or parts.fragment or parts.username is not None or not text.isascii() or re.search(r"\s", text):
        raise BadValue("leave out user, query, fragment and spaces, and write other scripts as punycode")
    if "csv" in text.lower():
        raise BadValue(
            'choose an address without "csv" in it: consumers replace "csv" by "json" in the links they get, '
            "and that must change nothing but the format"
        )
    # As browsers name it: they compare it with where a form comes from.
    place = parts.netloc.lower().removesuffix(_USUAL_PORTS[parts.scheme]).removesuffix(":")
    return f"{parts.scheme}://{place}{parts.path}"


def _listen(raw: object, folder: Path) -> str:
    host, _, port = _text(raw, folder).rpartition(":")
    if not host or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise BadValue('write host and port, such as "127.0.0.1:8400" or "[::]:8400"')
    return f"{host}:{int(port)}"


def _state_url(raw: object, folder: Path) -> str:
    text = _text(raw, folder)
    if text.startswith("sqlite:///"):
        file = text.removeprefix("sqlite:///")
        if file:
            return f"sqlite:///{(folder / file).resolve()}"
    elif text.startswith(("postgresql://", "postgres://")):
        try:
            database = urlsplit(text).path.strip("/")
        except ValueError:
            database = ""
        # With an at sign it is the rest of a password, in which a plain slash ended the part with the host.
        if not database or "@" in database:
            raise BadValue(
                'write "postgresql://user@host/database", and %-codes for other letters in names and passwords'
            )
        return "postgresql://" + text.partition("://")[2]
    raise BadValue('write "sqlite:///state.db" (a file) or "postgresql://user@host/database"')


def _files_url(raw: object, folder: Path) -> str:
    text = _text(raw, folder)
    scheme, separator, rest = text.partition("://")
    if separator and scheme in {"s3", "gs", "az"} and rest.strip("/"):
        return text.rstrip("/")
    if separator and scheme == "file" and rest.startswith("/"):
        return f"file://{Path(rest).resolve()}"
    # `s3:/bucket` is a slip of the pen and no folder.
    if text and not re.match(r"\w+:", text):
        return f"file://{(folder / Path(text).expanduser()).resolve()}"
    raise BadValue('write a folder, or "s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix"')


def choice(*allowed: str) -> Kind[str]:
    """One of a few words."""

    def read(raw: object, _folder: Path) -> str:
        if raw not in allowed:
            raise BadValue("write " + " or ".join(f'"{word}"' for word in allowed))
        return str(raw)

    return Kind(" or ".join(f'`"{word}"`' for word in allowed), read, _quoted)


def whole(minimum: int, maximum: int) -> Kind[int]:
    """A whole number between two bounds, both allowed."""

    def read(raw: object, _folder: Path) -> int:
        number = int(raw) if isinstance(raw, str) and re.fullmatch(r"-?\d{1,12}", raw) else raw
        if isinstance(number, bool) or not isinstance(number, int) or not minimum <= number <= maximum:
            raise BadValue(f"write a whole number from {minimum} to {maximum}")
        return number

    return Kind(f"number, {minimum} to {maximum}", read, str)


def _share(raw: object, _folder: Path) -> float:
    if isinstance(raw, str) and re.fullmatch(r"\d*\.?\d+", raw):
        raw = float(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
        raise BadValue("write a share from 0 to 1, such as 0.2 for a fifth")
    return float(raw)


def between(kind: Kind[timedelta], shortest: timedelta, longest: timedelta) -> Kind[timedelta]:
    """A duration between two bounds, both allowed."""

    def read(raw: object, folder: Path) -> timedelta:
        span = kind.read(raw, folder)
        if not shortest <= span <= longest:
            raise BadValue(f'write a duration from "{show_duration(shortest)}" to "{show_duration(longest)}"')
        return span

    return Kind(f'{kind.written}, "{show_duration(shortest)}" to "{show_duration(longest)}"', read, kind.show)


def at_least(kind: Kind[int], least: int) -> Kind[int]:
    """A size from a bound on, which is allowed."""

    def read(raw: object, folder: Path) -> int:
        size = kind.read(raw, folder)
        if size < least:
            raise BadValue(f"write a size of at least {kind.show(least)}")
        return size

    return Kind(f"{kind.written}, at least {kind.show(least)}", read, kind.show)


def list_of(kind: Kind[T], *, least: int = 0) -> Kind[tuple[T, ...]]:
    """Several values, at least so many: a TOML array, or one text with commas in a variable."""

    def read(raw: object, folder: Path) -> tuple[T, ...]:
        if isinstance(raw, str):
            raw = [part.strip() for part in raw.split(",") if part.strip()]
        if not isinstance(raw, list):
            raise BadValue("write a list in brackets")
        values = tuple(kind.read(each, folder) for each in raw)
        if len(set(values)) != len(values):
            raise BadValue("write each entry once")
        if len(values) < least:
            raise BadValue(f"write a list of at least {least}")
        return values

    written = f"list of {kind.written}" + (f", at least {least}" if least else "")
    return Kind(written, read, lambda values: "[" + ", ".join(map(kind.show, values)) + "]")


def optional(kind: Kind[T]) -> Kind[T | None]:
    """A value that may be left out."""
    return Kind(kind.written, kind.read, lambda value: "" if value is None else kind.show(value))


def _table(raw: object, folder: Path) -> tuple[tuple[str, str], ...]:
    if not isinstance(raw, dict):
        raise BadValue("write a table of texts")
    return tuple((str(key), _text(value, folder)) for key, value in raw.items())


def _quoted(value: object) -> str:
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


TEXT = Kind("text", _text, _quoted)
BOOLEAN = Kind("`true` or `false`", _boolean, lambda value: str(value).lower())
PATH = Kind("path", _path, _quoted)
DURATION = Kind("duration", _duration, lambda span: _quoted(show_duration(span)))
SIZE = Kind("size", _size_bytes, lambda size: _quoted(_show_size(size)))
TIME_OF_DAY = Kind("UTC time of day", _time_of_day, lambda at: _quoted(f"{at:%H:%M}"))
SHARE = Kind("share, 0 to 1", _share, lambda share: f"{share:g}")
RATE = Kind("attempts per time", _rate, lambda rate: _quoted(_show_rate(rate)))
NETWORK = Kind("address or network", _network, _quoted)
WEB_ADDRESS = Kind("http or https address", _web_address, _quoted)
LISTEN = Kind("host:port", _listen, _quoted)
STATE_URL = Kind("database address", _state_url, _quoted)
FILES_URL = Kind("folder or bucket address", _files_url, _quoted)
TABLE = Kind(
    "table of texts", _table, lambda rows: "{" + ", ".join(f"{_quoted(k)} = {_quoted(v)}" for k, v in rows) + "}"
)
