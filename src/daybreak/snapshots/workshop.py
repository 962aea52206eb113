"""What a run works with: one frozen bundle, made by `bootstrap` and by tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from daybreak.ports.files import FileStore
from daybreak.ports.sources import RowSource
from daybreak.ports.state import State
from daybreak.snapshots.plan import RunPlan
from daybreak.snapshots.room import Scratch


def unwatched(_progress: Mapping[str, object]) -> None:
    """Nobody looks on."""


def _nothing_else(_now: datetime) -> None:
    """There is nothing else to tidy."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """Adapters, settings and the outside world of a builder.

    `clock` gives aware UTC instants, `ticks` monotonic seconds, `new_id` lower-case UUID text. `builder` names this
    process to operators. `scratch` is where the engine puts rows aside, None when that is elsewhere. `stop` is set when
    the process is to end. `watch` is told the progress, twice a second at most.
    `tidy` is called about once an hour: whatever else the service wants to be rid of.
    """

    state: State
    store: FileStore
    source: RowSource
    plan: RunPlan
    builder: str
    clock: Callable[[], datetime]
    ticks: Callable[[], float]
    new_id: Callable[[], str]
    scratch: Scratch | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    watch: Callable[[Mapping[str, object]], None] = unwatched
    tidy: Callable[[datetime], None] = _nothing_else
