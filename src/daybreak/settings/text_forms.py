"""Parsing and formatting of values in the configuration and on the command line.

Every `parse_` function raises ValueError for text that it does not accept: an InvalidValue if its message contains
the fix, a plain ValueError if the description of the type is enough.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MAX_WINDOW = timedelta(days=365)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
# Names of Spark's settings with a secret as value, but not those that refer to a secret of Kubernetes.
_SECRET_NAME = re.compile(r"password|token$|secret(?!s\.|KeyRef)|(account|access)[._]?key", re.IGNORECASE)
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
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


_CONTROL = re.compile("[\0-\x1f\x7f\ud800-\udfff]")


class InvalidValue(ValueError):
    """The text is not accepted. The message is a sentence with the fix."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `attempts` in any `window`."""

    attempts: int
    window: timedelta

    @property
    def window_seconds(self) -> int:
        """The window in whole seconds."""
        return int(self.window.total_seconds())


def require_one_line(text: str) -> str:
    """Return a text that is one line, without control characters and without bytes that are not UTF-8."""
    if _CONTROL.search(text):
        raise InvalidValue("Remove line breaks and other control characters, and use UTF-8.")
    return text


def require_trimmed(text: str) -> str:
    """Return a text that is one line without spaces around it: with them, it would name another file or server."""
    if text.strip(" ") != text:
        raise InvalidValue("Remove the spaces around it.")
    return require_one_line(text)


def resolve_path(path: Path, folder: Path) -> Path:
    """Return the absolute path of a file or folder. A relative one is resolved against `folder`."""
    try:
        return (folder / path.expanduser()).resolve()
    except RuntimeError:
        raise InvalidValue(
            "Use a path without the home folder of an unknown user and without a loop of links."
        ) from None


def parse_duration(text: str) -> timedelta:
    """Parse `90s`, `15m`, `1h30m`, `7d` or `2w`."""
    parts = re.findall(r"(\d+)([smhdw])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidValue('Use a duration such as "30s", "15m", "4h" or "7d".')
    try:
        return timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))
    except OverflowError:
        raise InvalidValue("Use a shorter duration.") from None


def format_duration(span: timedelta) -> str:
    """Format a duration in the largest unit that divides it: `15m`, `7d`."""
    seconds = int(span.total_seconds())
    unit = next(unit for unit in ("d", "h", "m", "s") if seconds % _SECONDS[unit] == 0)
    return f"{seconds // _SECONDS[unit]}{unit}"


def duration_in_words(span: timedelta) -> str:
    """Format a duration in words: `15 minutes`, `1 hour 30 minutes`."""
    rest, words = int(span.total_seconds()), []
    for unit, name in (("d", "day"), ("h", "hour"), ("m", "minute"), ("s", "second")):
        count, rest = divmod(rest, _SECONDS[unit])
        if count:
            words.append(f"{count} {name}" if count == 1 else f"{count} {name}s")
    return " ".join(words)


def parse_size(text: str) -> int:
    """Parse `512MB`, `1GB` or `2GiB` into bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B|B)", text)
    if match is None:
        raise ValueError
    return int(Decimal(match[1]) * _BYTES[match[2]])


def format_size(size_bytes: int) -> str:
    """Format bytes in the largest decimal unit that divides them: `200MB`."""
    for unit in ("TB", "GB", "MB", "KB"):
        if size_bytes and size_bytes % _BYTES[unit] == 0:
            return f"{size_bytes // _BYTES[unit]}{unit}"
    return f"{size_bytes}B"


def parse_time_of_day(text: str) -> time:
    """Parse `04:00`."""
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", text)
    if match is None:
        raise ValueError
    return time(int(match[1]), int(match[2]))


def parse_rate(text: str) -> Rate:
    """Parse `10/5m`: ten attempts in any five minutes."""
    match = re.fullmatch(r"(\d+)/(\w+)", text)
    if match is None or int(match[1]) < 1:
        raise ValueError
    window = parse_duration(match[2])
    if not timedelta(seconds=1) <= window <= _MAX_WINDOW:
        raise InvalidValue(f'Use a window from "1s" to "{format_duration(_MAX_WINDOW)}", such as "10/5m".')
    return Rate(int(match[1]), window)


def parse_base_url(text: str) -> str:
    """Parse the public URL of the service.

    The result is normalized as browsers do: lower-case host, no default port, no final slash.
    """
    text = require_trimmed(text).rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError
    if parts.query or parts.fragment or parts.username is not None or not text.isascii() or " " in text:
        raise InvalidValue("Remove the user, query, fragment and spaces, and write international names as punycode.")
    if "csv" in text.lower():
        raise InvalidValue(
            'Use a URL without "csv" in it: consumers replace "csv" by "json" in download links, '
            "and the replacement must only change the format."
        )
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme]).removesuffix(":")
    return f"{parts.scheme}://{host}{parts.path}"


def parse_issuer(text: str) -> str:
    """Parse the issuer of an OpenID Connect provider, which is compared exactly and therefore not normalized.

    Plain http is accepted on the loopback only.
    """
    if not text:
        return text
    parts = urlsplit(require_trimmed(text))
    if parts.scheme not in {"http", "https"} or not parts.hostname or not text.isascii() or " " in text:
        raise ValueError
    if parts.query or parts.fragment or parts.username is not None:
        raise InvalidValue("Remove the user, query and fragment.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        raise InvalidValue("Use https: over plain HTTP, an attacker on the network could sign in as any user.")
    return text


def parse_listen(text: str) -> str:
    """Parse `host:port` or `unix:/path`."""
    return require_trimmed(text) if text.startswith("unix:/") else parse_host_and_port(text)


def parse_host_and_port(text: str) -> str:
    """Parse `host:port`."""
    host, _, port = require_trimmed(text).rpartition(":")
    # With a slash, it is a URL.
    if not host or "/" in host or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError
    return f"{host}:{int(port)}"


def parse_state_url(text: str, folder: Path) -> str:
    """Parse the URL of a state database. A relative SQLite file is resolved against `folder`."""
    require_trimmed(text)
    if text.startswith("sqlite:///"):
        file = text.removeprefix("sqlite:///")
        if file:
            return f"sqlite:///{resolve_path(Path(file), folder)}"
    elif text.startswith(("postgresql://", "postgres://")):
        try:
            database = urlsplit(text).path.strip("/")
        except ValueError:
            database = ""
        # An at sign here belongs to a password whose unescaped slash ended the host part.
        if not database or "@" in database:
            raise InvalidValue(
                'Use "postgresql://user@host/database", with %-codes for special characters in names and passwords.'
            )
        return "postgresql://" + text.partition("://")[2]
    raise InvalidValue('Use "sqlite:///state.db" (a file) or "postgresql://user@host/database".')


def require_no_secrets(table: Mapping[str, str]) -> Mapping[str, str]:
    """Return session settings of Spark, none of which is a secret: pyspark passes them as arguments of a program."""
    for name in table:
        if _SECRET_NAME.search(name):
            raise InvalidValue(
                f'"{name}" is visible in the process list. Set it in spark-defaults.conf, in the folder SPARK_CONF_DIR.'
            )
    return table


def parse_files_url(text: str, folder: Path) -> str:
    """Parse a bucket URL, or a folder, which becomes a `file://` URL resolved against `folder`."""
    require_trimmed(text)
    scheme, separator, rest = text.partition("://")
    if separator and scheme in {"s3", "gs", "az"} and urlsplit(text).netloc:
        if re.search(r"[?#]|/\.{0,2}/", f"{rest.rstrip('/')}/"):
            raise InvalidValue('Remove "?", "#", and empty and dot segments from the prefix.')
        return text.rstrip("/")
    if separator and scheme == "file" and rest.startswith("/"):
        return f"file://{resolve_path(Path(rest), folder)}"
    # `s3:/bucket` is a mistyped bucket, not a folder.
    if text and not re.match(r"\w+:", text):
        return f"file://{resolve_path(Path(text), folder)}"
    raise ValueError


def parse_mail_url(text: str) -> str:
    """Parse the URL of a mail server, which must not contain credentials."""
    if not text:
        return text
    parts = urlsplit(require_trimmed(text))
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname or parts.port == 0 or re.search(r"\s", text):
        raise ValueError
    if parts.username is not None or parts.password is not None:
        raise InvalidValue("Remove the user and the password. Set mail.username and DAYBREAK_MAIL__PASSWORD.")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidValue("Remove the path and the query.")
    return f"{parts.scheme}://{parts.netloc}"
