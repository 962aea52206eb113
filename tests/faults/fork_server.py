"""Server that forks processes for fault tests, which is faster than starting Python for each of them.

It reads one JSON command per line and answers each with one JSON line. It answers through a socket, because the tests
count `write` calls but not `sendto` calls.

    {"start": "run" | "publish" | "claim" | "erase" | "build" | "workload", "folder": ..., "formats": [...],
     "pack_below": ..., "full": bool, "day": ..., "barrier": ..., "initial_calls": {...}, "log_file": ...}
        -> {"pid": ...}
    {"wait": pid} -> {"status": exit status, or minus the signal that ended it}

The output of the child is in FOLDER/child.log, the result of a claim in FOLDER/<pid>.result.

`strace -f -e inject=CALL:...:when=NUMBER` counts the calls of each process separately. With `initial_calls` a child
first makes that many calls without effect, so that under one tracer each child has its fault at a different call.
"""

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
from daybreak.snapshots.erase import erase_member
from daybreak.snapshots.publish import publish
from daybreak.snapshots.retention import clean
from daybreak.snapshots.run import run_day, run_manually
from daybreak.snapshots.run_context import RunContext
from daybreak.snapshots.schedule import publication_of
from tests.configured import DEFAULTS, configured
from tests.faults.power_cut_workload import run_workload
from tests.small_platform import QUICK, SmallSource, context_in, now

# System calls that change files or make changes durable.
CHANGING_CALLS = (
    "write", "writev", "pwrite64", "pwritev", "copy_file_range", "sendfile", "fallocate", "ftruncate", "fsync",
    "fdatasync", "syncfs", "rename", "link", "linkat", "mkdir", "unlink", "unlinkat", "rmdir",
)  # fmt: skip


def make_initial_calls(calls: dict[str, int]) -> None:
    """Make the given number of system calls of each kind, without any effect."""
    null = os.open("/dev/null", os.O_RDWR)
    syncfs = ctypes.CDLL(None).syncfs

    def failing(call: Callable[[], object]) -> Callable[[], None]:
        def attempt() -> None:
            with contextlib.suppress(OSError):
                call()

        return attempt

    ineffective: dict[str, Callable[[], object]] = {
        "write": lambda: os.write(null, b"x"),
        "writev": lambda: os.writev(null, [b"x"]),
        "pwrite64": lambda: os.pwrite(null, b"x", 0),
        "pwritev": failing(lambda: os.pwritev(null, [b"x"], 0)),
        "copy_file_range": failing(lambda: os.copy_file_range(null, null, 1)),
        "sendfile": failing(lambda: os.sendfile(null, null, 0, 1)),
        "fallocate": failing(lambda: os.posix_fallocate(null, 0, 1)),
        "ftruncate": failing(lambda: os.ftruncate(null, 0)),
        "fsync": failing(lambda: os.fsync(null)),
        "fdatasync": failing(lambda: os.fdatasync(null)),
        "syncfs": lambda: syncfs(-1),
        "rename": failing(lambda: Path("/nothing/here").rename("/nothing/there")),
        "link": failing(lambda: os.link("/nothing/here", "/nothing/there")),
        "linkat": failing(lambda: os.link("/nothing/here", "/nothing/there", follow_symlinks=False)),
        "mkdir": failing(lambda: Path("/").mkdir()),
        "unlink": failing(lambda: Path("/nothing/here").unlink()),
        "unlinkat": failing(lambda: os.unlink("nothing", dir_fd=null)),
        "rmdir": failing(lambda: Path("/nothing/here").rmdir()),
    }
    assert set(ineffective) == set(CHANGING_CALLS)
    for name, times in calls.items():
        for _ in range(times):
            ineffective[name]()
    os.close(null)


def publish_and_clean(context: RunContext) -> None:
    """Publish the complete snapshot at its publication time, and delete the previous one, as a builder does."""
    runs = context.state.read(lambda stores: stores.snapshots.recent())
    (complete,) = [run for run in runs if run.state is SnapshotState.COMPLETE]
    assert complete.day is not None
    publication = publication_of(complete.day, context.settings.snapshot.publish_at)
    assert publish(context.state, context.store, context.settings, complete, publication)
    clean(
        context.state,
        context.store,
        configured(context.settings, snapshot={"keep": 1}),
        publication + timedelta(days=1),
    )


def run_child(command: dict[str, Any]) -> None:
    """Run a command in the forked process."""
    folder = Path(command["folder"])
    log = os.open(folder / "child.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    source = SmallSource(folder / "platform.json", pause_seconds=float(command.get("pause", 0)))
    own = {"formats": tuple(command.get("formats", DEFAULTS.snapshot.formats))}
    settings = configured(snapshot=own | {"pack_below": command.get("pack_below", DEFAULTS.snapshot.pack_below)})
    timings = replace(
        QUICK,
        attempts=1,
        lease_seconds=int(command.get("lease", QUICK.lease_seconds)),
        heartbeat_seconds=float(command.get("heartbeat", 1)),
    )
    context = context_in(folder, source=source, settings=settings, timings=timings, builder=f"builder {os.getpid()}")
    make_initial_calls(command.get("initial_calls", {}))
    if command["start"] == "run":
        stop_on_signals(context.stop)
        run_manually(context, full=command.get("full", False))
    elif command["start"] == "publish":
        publish_and_clean(context)
    elif command["start"] == "claim":
        while not Path(command["barrier"]).exists():
            time.sleep(0.002)
        done = run_day(context, date.fromisoformat(command["day"]))
        (folder / f"{os.getpid()}.result").write_text("none" if done is None else done.snapshot_id)
    elif command["start"] == "erase":
        erase_member(context, command["member"], "test", lambda _: None)
    elif command["start"] == "workload":
        run_workload(context, folder / "platform.json", Path(command["log_file"]), command["days"])
    else:
        clock = folder / "clock"

        def shifted_clock() -> datetime:
            with (folder / "clock_reads").open("ab") as clock_reads:
                clock_reads.write(b".")
            return now() + timedelta(seconds=float(clock.read_text() or 0) if clock.exists() else 0)

        run_builder(replace(context, clock=shifted_clock))
    context.state.close()


def main() -> None:
    answers = socket.socket(fileno=os.dup(1))
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            status = os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1])
            answer = {"status": status}
        else:
            pid = os.fork()
            if pid == 0:
                try:
                    run_child(command)
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
