"""Where log lines go: JSON in a pipe or a file, aligned and coloured on a terminal. No line holds a query string or a
secret.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from daybreak.ports.log import Level, Tell, log

if TYPE_CHECKING:
    from daybreak.settings import Settings

Write = Callable[[str], object]
_ENCODER = msgspec.json.Encoder(enc_hook=repr)
_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
# What a terminal is told to show them in.
_BRIGHT, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_COLORS = {"info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m"}
_NAME, _VALUE = "\x1b[36m", "\x1b[35m"


def configure_logging(settings: "Settings", file: Path | None = None) -> None:
    """Settles where the log of this process and of those forked from it goes: to standard error, or to the end of a
    file that its owner alone may read.
    """
    write = _to_standard_error if file is None else _to_file(file)
    terminal = file is None and sys.stderr.isatty()
    if settings.log_format == "console" or (settings.log_format == "auto" and terminal):
        tell = _lines_for_people(write, colors=terminal and "NO_COLOR" not in os.environ)
    else:
        tell = _lines_of_json(write)
    log.tell = _from_level(_LEVELS[settings.log_level], tell)
    # Libraries that log by themselves: only what goes wrong, as plain lines.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")


def _from_level(least: int, tell: Tell) -> Tell:
    def tell_some(level: Level, event: str, fields: dict[str, Any]) -> None:
        if _LEVELS[level] >= least:
            tell(level, event, fields)

    return tell_some


def _lines_for_people(write: Write, *, colors: bool) -> Tell:
    """Aligned, one line an event; nothing that an event holds is obeyed by the terminal."""

    def part(code: str, text: str) -> str:
        return f"{code}{text}{_PLAIN}" if colors else text

    def tell(level: Level, event: str, fields: dict[str, Any]) -> None:
        instant = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        known = (f"{part(_NAME, name)}={part(_VALUE, _shown(value))}" for name, value in fields.items())
        head = f"{part(_DIM, instant)} [{part(_COLORS[level], f'{level:7}')}] {part(_BRIGHT, f'{event:22}')}"
        write(" ".join([head, *known]).rstrip() + "\n")

    return tell


def _shown(value: object) -> str:
    """A text of one plain word as it is, everything else as Python writes it, which shows what cannot be seen."""
    if isinstance(value, str) and value.isprintable() and not set(value) & {" ", '"', "'", "="}:
        return value
    return repr(value)


def _lines_of_json(write: Write) -> Tell:
    """One line an event, in one step: every request writes one."""

    def tell(level: Level, event: str, fields: dict[str, Any]) -> None:
        fields["event"], fields["level"], fields["timestamp"] = event, level, datetime.now(UTC)
        write(_json_line(fields))

    return tell


def _json_line(fields: Mapping[str, Any]) -> str:
    """An event in one line of plain ASCII, which no terminal obeys; what JSON has no form for, as its text."""
    with suppress(UnicodeEncodeError):
        line = _ENCODER.encode(fields)
        if line.isascii():
            return line.decode("ascii") + "\n"
    return json.dumps(msgspec.to_builtins(fields, enc_hook=repr), separators=(",", ":")) + "\n"


def _to_standard_error(line: str) -> None:
    # As it is at that moment: a test or a shell may have put another in its place.
    sys.stderr.write(line)
    sys.stderr.flush()


def _to_file(file: Path) -> Write:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return lambda line: os.write(handle, line.encode("utf-8", "backslashreplace"))
