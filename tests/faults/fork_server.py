"""Makes processes to torment without starting Python anew for each: it loads everything once and forks.

Reads one JSON command a line, answers one JSON line each. Its own output is a socket: sending is no call that a tracer
counts here.

    {"start": "run" | "publish" | "claim" | "build" | "live", "folder": ..., "formats": [...], "full": bool,
     "day": ..., "barrier": ..., "count_from": {...}, "told": ...}
        -> {"pid": ...}         the child's output goes to FOLDER/child.log, what came of a claim to FOLDER/<pid>.done
    {"wait": pid} -> {"status": exit status, or minus the signal that ended it}

Under `strace -f -e inject=CALL:...:when=HIGH`, which counts for each process anew, `count_from` makes a child use up so
many CALLs on nothing first: so one tracer lets each child meet its fault at a place of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from daybreak.domain.snapshot import SnapshotState
from daybreak.snapshots.builder import run_builder, stop_on_signals
from daybreak.snapshots.publish import publish
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run import run_by_hand, run_day
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import publication_of
from tests.configured import DEFAULTS, configured
from tests.faults.busy_life import live
from tests.small_platform import QUICK, SmallSource, context_in, now

# Every call by which a process changes what is on a disk, or makes it last.
CHANGING_CALLS = (
    "write", "writev", "pwrite64", "pwritev", "copy_file_range", "sendfile", "fallocate", "ftruncate", "fsync",
    "fdatasync", "syncfs", "rename", "link", "linkat", "mkdir", "unlink", "unlinkat", "rmdir",
)  # fmt: skip


def use_up(calls: dict[str, int]) -> None:
    """Makes so many system calls of each kind that do nothing."""
    null = os.open("/dev/null", os.O_RDWR)
    syncfs = ctypes.CDLL(None).syncfs

    def refused(call: Callable[[], object]) -> Callable[[], None]:
        def act() -> None:
            with contextlib.suppress(OSError):
                call()

        return act

    nothing: dict[str, Callable[[], object]] = {
        "write": lambda: os.write(null, b"x"),
        "writev": lambda: os.writev(null, [b"x"]),
        "pwrite64": lambda: os.pwrite(null, b"x", 0),
        "pwritev": refused(lambda: os.pwritev(null, [b"x"], 0)),
        "copy_file_range": refused(lambda: os.copy_file_range(null, null, 1)),
        "sendfile": refused(lambda: os.sendfile(null, null, 0, 1)),
        "fallocate": refused(lambda: os.posix_fallocate(null, 0, 1)),
        "ftruncate": refused(lambda: os.ftruncate(null, 0)),
        "fsync": refused(lambda: os.fsync(null)),
        "fdatasync": refused(lambda: os.fdatasync(null)),
        "syncfs": lambda: syncfs(-1),
        "rename": refused(lambda: Path("/nothing/here").rename("/nothing/there")),
        "link": refused(lambda: os.link("/nothing/here", "/nothing/there")),
        "linkat": refused(lambda: os.link("/nothing/here", "/nothing/there", follow_symlinks=False)),
        "mkdir": refused(lambda: Path("/").mkdir()),
        "unlink": refused(lambda: Path("/nothing/here").unlink()),
        "unlinkat": refused(lambda: os.unlink("nothing", dir_fd=null)),
        "rmdir": refused(lambda: Path("/nothing/here").rmdir()),
    }
    assert set(nothing) == set(CHANGING_CALLS)
    for name, times in calls.items():
        for _ in range(times):
            nothing[name]()
    os.close(null)


def publish_and_clean(context: RunContext) -> None:
    """What a builder does at four and after: the complete snapshot is published, and the one before it goes."""
    runs = context.state.read(lambda stores: stores.snapshots.recent())
    (made,) = [run for run in runs if run.state is SnapshotState.COMPLETE]
    assert made.day is not None
    four = publication_of(made.day, context.settings.snapshot.publish_at)
    assert publish(context.state, made, four)
    clean(context.state, context.store, configured(context.settings, snapshot={"keep": 1}), four + timedelta(days=1))


def child(order: dict[str, Any]) -> None:
    """One process's life: it ends here, whatever happens."""
    folder = Path(order["folder"])
    log = os.open(folder / "child.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    source = SmallSource(folder / "platform.json", pause_seconds=float(order.get("pause", 0)))
    settings = configured(snapshot={"formats": tuple(order.get("formats", DEFAULTS.snapshot.formats))})
    timings = replace(
        QUICK,
        attempts=1,
        lease_seconds=int(order.get("lease", QUICK.lease_seconds)),
        heartbeat_seconds=float(order.get("heartbeat", 1)),
    )
    context = context_in(folder, source=source, settings=settings, timings=timings, builder=f"builder {os.getpid()}")
    use_up(order.get("count_from", {}))
    if order["start"] == "run":
        stop_on_signals(context.stop)
        run_by_hand(context, full=order.get("full", False))
    elif order["start"] == "publish":
        publish_and_clean(context)
    elif order["start"] == "claim":
        while not Path(order["barrier"]).exists():
            time.sleep(0.002)
        done = run_day(context, date.fromisoformat(order["day"]))
        (folder / f"{os.getpid()}.done").write_text("none" if done is None else done.snapshot_id)
    elif order["start"] == "live":
        live(context, folder / "platform.json", Path(order["told"]))
    else:
        clock = folder / "clock"

        def shifted() -> datetime:
            with (folder / "looks").open("ab") as looks:
                looks.write(b".")
            return now() + timedelta(seconds=float(clock.read_text() or 0) if clock.exists() else 0)

        run_builder(replace(context, clock=shifted))
    context.state.close()


def main() -> None:
    answers = socket.socket(fileno=os.dup(1))
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            status = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
            answer = {"status": status}
        else:
            pid = os.fork()
            if pid == 0:
                try:
                    child(order)
                except BaseException:  # noqa: BLE001 - a child must never return into the server's loop
                    sys.excepthook(*sys.exc_info())
                    sys.stderr.flush()
                    os._exit(1)
                sys.stdout.flush()
                os._exit(0)
            answer = {"pid": pid}
        answers.sendall(f"{json.dumps(answer)}\n".encode())


if __name__ == "__main__":
    main()
