"""Workload of the power-cut test: runs, publications and clean-ups, with concurrent writes of audit events.

The workload appends each acknowledged operation to a log on another disk, one JSON line each, immediately after the
acknowledgment. At each crash point the process stops itself, so that the test can copy the disks.
"""

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
from daybreak.filestore.file_store import FileSink
from daybreak.filestore.local_disk import LocalDisk
from daybreak.snapshots.publish import publish
from daybreak.snapshots.retention import LINK_MARGIN, clean
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import publication_of
from tests.configured import configured
from tests.small_platform import SmallSource, leader_ids, platform_of, write_platform

_MAX_PAUSE_SECONDS = 0.05


class AcknowledgmentLog:
    """Log of acknowledged operations and of the crash points between them."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def record(self, kind: str, value: str) -> None:
        os.write(self._handle, f"{json.dumps([kind, value])}\n".encode())

    def crash_point(self, name: str) -> None:
        """Record a crash point and stop this process until SIGCONT."""
        self.record("crash_point", name)
        os.kill(os.getpid(), signal.SIGSTOP)


class ObservedDisk(LocalDisk):
    """Disk that calls `on_commit` after the files of a run are committed."""

    def __init__(self, root: Path, on_commit: Callable[[], None]) -> None:
        super().__init__(root)
        self._on_commit = on_commit

    def stage(self, snapshot_id: str) -> FileSink:
        sink = super().stage(snapshot_id)
        commit = sink.commit

        def commit_and_notify() -> None:
            commit()
            self._on_commit()

        sink.commit = commit_and_notify  # type: ignore[method-assign]
        return sink


def run_workload(context: RunContext, platform: Path, log_file: Path, days: int) -> None:
    """Run days of a service. Each day has a manual run and a scheduled run with its publication."""
    log = AcknowledgmentLog(log_file)
    finished = threading.Event()
    writer = threading.Thread(target=_append_events, args=(context, log, finished))
    writer.start()
    context = replace(
        context,
        store=ObservedDisk(platform.parent / "files", lambda: log.crash_point("files committed")),
        source=SmallSource(
            platform,
            on_resource=[lambda resource: log.crash_point("exporting members") if resource == "members" else None],
        ),
        settings=configured(context.settings, snapshot={"keep": 1}, access={"link_lifetime": -LINK_MARGIN}),
    )
    first_day = context.clock().date() + timedelta(days=1)
    for day in range(days):
        # The files of one unchanged Leader are reused through hard links.
        changed = platform_of(mark=f"day {day}")
        changed[leader_ids(3)[0]] = platform_of()[leader_ids(3)[0]]
        write_platform(platform, changed)
        manual = run_manually(context)
        log.record("published", manual.snapshot_id)
        log.crash_point("manual run published")
        scheduled = run_day(context, first_day + timedelta(days=day))
        assert scheduled is not None
        log.crash_point("scheduled run complete")
        publication = publication_of(first_day + timedelta(days=day), context.settings.snapshot.publish_at)
        assert publish(context.state, context.store, context.settings, scheduled, publication)
        log.record("published", scheduled.snapshot_id)
        log.crash_point("scheduled run published")
        clean(context.state, context.store, context.settings, context.clock() + timedelta(days=3))
        log.crash_point("cleaned")
    finished.set()
    writer.join()


def _append_events(context: RunContext, log: AcknowledgmentLog, finished: threading.Event) -> None:
    """Append audit events until `finished` is set, and record each one that the database acknowledged.

    SQLite polls for the lock of the file. With a pause as long as most writes, the run finds it free every other time.
    """
    for number in count():
        if finished.is_set():
            return
        began = context.ticks()
        event = AuditEvent(context.clock(), "login", "ok", "someone@example.org", request_id=str(number))
        with suppress(Unavailable):
            context.state.write(lambda stores, event=event: stores.audit.append(event))  # type: ignore[misc]
            log.record("event", str(number))
        # A write during which the process was stopped takes long.
        finished.wait(min(context.ticks() - began, _MAX_PAUSE_SECONDS))
