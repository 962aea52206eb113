"""Configuration of logging: JSON in a pipe or a file, aligned and colored on a terminal. No line contains a query
string or a secret.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from daybreak.cli.output import escape_unprintable, write_to_standard_error
from daybreak.credentials.redaction import redact, redact_values

if TYPE_CHECKING:
    from daybreak.settings import Settings
    from daybreak.telemetry import LogSender

Write = Callable[[str], object]
_ENCODER = msgspec.json.Encoder(enc_hook=repr)


class _Lines:
    """Writes each line with a single call, because several processes write to the same file."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def msg(self, line: str) -> None:
        self._write(line + "\n")

    debug = info = warning = warn = error = exception = critical = fatal = failure = err = log = msg


def configure_logging(settings: "Settings", file: Path | None = None, *, sent_by: str | None = None) -> None:
    """Configure structlog for this process and its forks.

    Lines go to standard error, or are appended to a file with mode 0600. `sent_by` is the name of a process that also
    sends the events of JSON lines to the collector, if there is one. Such a process has one more thread.
    """
    write = write_to_standard_error if file is None else _to_file(file)
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    terminal = file is None and sys.stderr.isatty()
    if settings.log_format == "console" or (settings.log_format == "auto" and terminal):
        colors = terminal and "NO_COLOR" not in os.environ
        processors: list[Any] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _redact_fields,
            _escape_fields,
            structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback),
        ]
        logger: type[Any] = structlog.make_filtering_bound_logger(level)
    else:
        sender = None
        if sent_by is not None and settings.telemetry.url:
            from daybreak.telemetry import LogSender

            sender = LogSender(settings, sent_by)
        processors, logger = [], _json_logger(write, level, sender)
    structlog.configure(
        processors=processors,
        wrapper_class=logger,
        logger_factory=lambda *_names: _Lines(write),
        cache_logger_on_first_use=True,
    )
    # Warnings and errors of libraries. They are not sent to the collector: those about the collector would never end.
    handler = logging.StreamHandler()
    handler.setFormatter(_LibraryFormatter(as_json=not processors))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class _LibraryFormatter(logging.Formatter):
    """Formats a record of a library without secrets, tracebacks included."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__("%(message)s" if as_json else "%(asctime)s %(name)s %(levelname)s %(message)s")
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        text = redact(super().format(record))
        if not self._as_json:
            return text
        level, now = record.levelname.lower(), datetime.now(UTC)
        fields = {"logger": record.name, "message": text, "event": "library", "level": level, "timestamp": now}
        return _json_line(fields).rstrip()


def _json_logger(write: Write, min_level: int, sender: "LogSender | None" = None) -> type[structlog.BoundLoggerBase]:
    """Return a logger class that formats an event in one step, because every request logs an event."""

    def method(level: str) -> Callable[..., None]:
        def logged(self: structlog.BoundLoggerBase, event: str, **fields: Any) -> None:
            fields = redact_values({**self._context, **fields})
            now = datetime.now(UTC)
            if sender is not None:
                sender.send(now, level, event, fields)
            fields["event"], fields["level"], fields["timestamp"] = event, level, now
            write(_json_line(fields))

        def ignored(self: structlog.BoundLoggerBase, event: str, **fields: Any) -> None: ...

        return logged if logging.getLevelNamesMapping()[level.upper()] >= min_level else ignored

    methods = {level: method(level) for level in ("debug", "info", "warning", "error", "critical")}
    return type("JsonLogger", (structlog.BoundLoggerBase,), methods)


def _json_line(fields: Mapping[str, Any]) -> str:
    """Format an event as one line of ASCII without control characters. Values without a JSON form become text."""
    with suppress(UnicodeEncodeError):
        line = _ENCODER.encode(fields)
        if line.isascii():
            return line.decode("ascii") + "\n"
    return json.dumps(msgspec.to_builtins(fields, enc_hook=repr), separators=(",", ":")) + "\n"


def _to_file(file: Path) -> Write:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(line: str) -> None:
        # A full disk loses the line, and ends no run or service.
        with suppress(OSError):
            os.write(handle, line.encode("utf-8", "backslashreplace"))

    return write


def _redact_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return redact_values(event)


def _escape_fields(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: escape_unprintable(value) if isinstance(value, str) else value for name, value in event.items()}
