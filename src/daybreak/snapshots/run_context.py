"""Adapters, settings, clock and callbacks of a builder, in one frozen value."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from daybreak.domain.run_report import RunProgress
from daybreak.filestore.file_store import FileStore
from daybreak.settings import Settings
from daybreak.snapshots.disk_space import SpillFolder
from daybreak.snapshots.schedule import RunTimings
from daybreak.sources.reading import RowSource
from daybreak.state.stores import State

if TYPE_CHECKING:
    from daybreak.telemetry import Tracing


@dataclass(frozen=True, slots=True)
class RunContext:
    """Adapters and settings of a builder.

    `clock` returns aware UTC instants, `ticks` monotonic seconds, `new_id` lower-case UUID text. `builder` is the name
    of this process for operators. `spill` is the folder to which the engine spills, None if it spills on other
    machines. `stop` is set when the process must end. `watch` receives the progress, at most twice a second.
    `housekeeping` is called about once an hour.
    """

    state: State
    store: FileStore
    source: RowSource
    settings: Settings
    builder: str
    clock: Callable[[], datetime]
    ticks: Callable[[], float]
    new_id: Callable[[], str]
    timings: RunTimings = field(default_factory=RunTimings)
    spill: SpillFolder | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    watch: Callable[[RunProgress], object] = lambda _progress: None
    housekeeping: Callable[[datetime], object] = lambda _now: None
    tracing: Tracing | None = None
