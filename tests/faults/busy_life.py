"""The life of a service whose power is about to be cut: runs, publications and clean-ups, and people beside them.

Whatever was promised to anybody is written to a file on another disk, one JSON line each, the moment it was promised.
At every station the process stops itself, so that a test can look at what has reached the disk by then.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

from daybreak.domain.audit import AuditEvent
from daybreak.domain.errors import Unavailable
from daybreak.filestore.local_disk import LocalDisk
from daybreak.ports.files import FileSink
from daybreak.snapshots.publish import publish
from daybreak.snapshots.retention import LINK_MARGIN, clean
from daybreak.snapshots.run import run_by_hand, run_day
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import publication_of
from tests.configured import configured
from tests.small_platform import SmallSource, leader_ids, platform_of, write_platform


class Promises:
    """Tells what was promised, and stops the process at stations."""

    def __init__(self, told: Path) -> None:
        self._handle = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(self, kind: str, what: str) -> None:
        os.write(self._handle, f"{json.dumps([kind, what])}\n".encode())

    def station(self, name: str) -> None:
        self.tell("station", name)
        os.kill(os.getpid(), signal.SIGSTOP)


class WatchedDisk(LocalDisk):
    """A disk that tells when a run's files have been sealed."""

    def __init__(self, root: Path, on_sealed: Callable[[], None]) -> None:
        super().__init__(root)
        self._on_sealed = on_sealed

    def stage(self, snapshot_id: str) -> FileSink:
        sink = super().stage(snapshot_id)
        commit = sink.commit

        def sealing() -> None:
            commit()
            self._on_sealed()

        sink.commit = sealing  # type: ignore[method-assign]
        return sink


def live(context: RunContext, platform: Path, told: Path) -> None:
    """Two days of a service: each has a run by hand and a scheduled one with its publication."""
    promises = Promises(told)
    over = threading.Event()
    people = threading.Thread(target=_people, args=(context, promises, over))
    people.start()
    context = replace(
        context,
        store=WatchedDisk(platform.parent / "files", lambda: promises.station("sealed")),
        source=SmallSource(
            platform,
            on_resource=[lambda resource: promises.station("halfway") if resource == "members" else None],
        ),
        settings=configured(context.settings, snapshot={"keep": 1}, access={"link_lifetime": -LINK_MARGIN}),
    )
    first_day = context.clock().date() + timedelta(days=1)
    for day in range(2):
        # One Leader stays as it is, so that its files are carried over by a link.
        changed = platform_of(mark=f"day {day}")
        changed[leader_ids(3)[0]] = platform_of()[leader_ids(3)[0]]
        write_platform(platform, changed)
        done = run_by_hand(context)
        promises.tell("published", done.snapshot_id)
        promises.station("published by hand")
        made = run_day(context, first_day + timedelta(days=day))
        assert made is not None
        promises.station("complete")
        publication = publication_of(first_day + timedelta(days=day), context.settings.snapshot.publish_at)
        assert publish(context.state, made, publication)
        promises.tell("published", made.snapshot_id)
        promises.station("published by the schedule")
        clean(context.state, context.store, context.settings, context.clock() + timedelta(days=3))
        promises.station("cleaned")
    over.set()
    people.join()


def _people(context: RunContext, promises: Promises, over: threading.Event) -> None:
    """Somebody is told of one written event after the other."""
    for number in count():
        if over.is_set():
            return
        event = AuditEvent(context.clock(), "login", "ok", "someone@example.org", request_id=str(number))
        with suppress(Unavailable):
            context.state.write(lambda stores, event=event: stores.audit.append(event))  # type: ignore[misc]
            promises.tell("event", str(number))
