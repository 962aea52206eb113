"""Makes processes to torment without starting Python anew for each: it loads everything once and forks.

Reads one JSON command a line, answers one JSON line each:

    {"start": "run" | "claim" | "build" | "live", "folder": ..., "full": bool, "day": ..., "barrier": ...,
     "count_from": {...}, "told": ...}
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
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from daybreak.snapshots.builder import run_builder, stop_on_signals
from daybreak.snapshots.run import run_by_hand, run_day
from tests.faults.busy_life import live
from tests.small_platform import QUICK, SmallSource, now, workshop_in


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
        "pwrite64": lambda: os.pwrite(null, b"x", 0),
        "fsync": refused(lambda: os.fsync(null)),
        "fdatasync": refused(lambda: os.fdatasync(null)),
        "syncfs": lambda: syncfs(-1),
        "rename": refused(lambda: Path("/nothing/here").rename("/nothing/there")),
        "mkdir": refused(lambda: Path("/").mkdir()),
        "unlink": refused(lambda: Path("/nothing/here").unlink()),
        "ftruncate": refused(lambda: os.ftruncate(null, 0)),
    }
    for name, times in calls.items():
        for _ in range(times):
            nothing[name]()
    os.close(null)


def child(order: dict[str, Any]) -> None:
    """One process's life: it ends here, whatever happens."""
    folder = Path(order["folder"])
    log = os.open(folder / "child.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    source = SmallSource(folder / "platform.json", pause_seconds=float(order.get("pause", 0)))
    plan = replace(
        QUICK,
        attempts=1,
        lease_seconds=int(order.get("lease", QUICK.lease_seconds)),
        heartbeat_seconds=float(order.get("heartbeat", 1)),
    )
    shop = workshop_in(folder, source=source, plan=plan, builder=f"builder {os.getpid()}")
    use_up(order.get("count_from", {}))
    if order["start"] == "run":
        stop_on_signals(shop.stop)
        run_by_hand(shop, full=order.get("full", False))
    elif order["start"] == "claim":
        while not Path(order["barrier"]).exists():
            time.sleep(0.002)
        done = run_day(shop, date.fromisoformat(order["day"]))
        (folder / f"{os.getpid()}.done").write_text("none" if done is None else done.snapshot_id)
    elif order["start"] == "live":
        live(shop, folder / "platform.json", Path(order["told"]))
    else:
        clock = folder / "clock"

        def shifted() -> datetime:
            with (folder / "looks").open("ab") as looks:
                looks.write(b".")
            return now() + timedelta(seconds=float(clock.read_text() or 0) if clock.exists() else 0)

        run_builder(replace(shop, clock=shifted))
    shop.state.close()


def main() -> None:
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
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
