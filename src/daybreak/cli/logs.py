"""Where log lines go: JSON in a pipe, aligned and coloured on a terminal. No line holds a query string or a secret."""

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daybreak.settings import Settings


class _StandardError:
    """Writes whole lines to standard error as it is at that moment, one write each: processes share it."""

    def __init__(self, *_names: object) -> None: ...

    def msg(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    debug = info = warning = warn = error = exception = critical = fatal = failure = err = log = msg


def configure_logging(settings: "Settings") -> None:
    """Sets structlog up for this process and those forked from it; lines go to standard error."""
    import structlog

    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if console:
        colors = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        last: list[Any] = [
            structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
        ]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_StandardError,
        cache_logger_on_first_use=True,
    )
    # Libraries that log by themselves: only what goes wrong, as plain lines.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
