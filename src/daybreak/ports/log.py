"""What the service tells its operators while it works: events, each with fields.

    log.info("run.started", snapshot_id=snapshot_id)

Where events go is settled once for a process, by `daybreak.cli.logs`; what happens before is told on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

Level = Literal["info", "warning", "error"]
Tell = Callable[[Level, str, dict[str, Any]], None]
"""Takes an event's level, its name, and its fields, which are its own to change."""


def _tell_as_it_is(level: Level, event: str, fields: dict[str, Any]) -> None:
    sys.stderr.write(f"{level} {event} {fields}\n")


class Log:
    """The events of this process and of those forked from it. `tell` is where they go."""

    __slots__ = ("tell",)

    def __init__(self) -> None:
        self.tell: Tell = _tell_as_it_is

    def info(self, event: str, /, **fields: Any) -> None:
        """Something went as it should."""
        self.tell("info", event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        """Something went otherwise, and the service goes on by itself."""
        self.tell("warning", event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        """Something failed that somebody should look at."""
        self.tell("error", event, fields)


log = Log()
