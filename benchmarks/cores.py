"""The export on one and on all cores, the time with the interpreter's lock, and the speed that follows from both."""

import argparse
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median

from benchmarks.job import Job, Section, table
from benchmarks.lock_time import LockSamples, measure_lock
from benchmarks.machine import cores
from benchmarks.measure import Measurement, measure_method, run_program, summarize
from benchmarks.members import METHODS
from benchmarks.snapshot_run import DAYBREAKD, make_service, run_command
from benchmarks.source import AS_OF, make_source, read_once
from daybreak.domain.display import format_count

_METHODS = ("daybreak", "duckdb", "polars-6")
_COMPUTED_CORES = (4, 8, 16)


def _run(options: argparse.Namespace) -> Section:
    source = make_source(options.folder, options.rows, options.leaders, min(options.rows, 1_000_000), "shuffled")
    read_once(source)
    counts = sorted({1, cores()})
    measured: dict[tuple[str, int], list[Measurement]] = defaultdict(list)
    locks: list[LockSamples] = []
    for number in range(options.rounds):
        for method in _METHODS:
            for count in counts:
                out = options.out / f"{number}-{method}-{count}"
                out.mkdir(parents=True)
                with _limited_to(count):
                    measured[method, count].append(measure_method(method, source, out))
        out = options.out / f"{number}-lock"
        out.mkdir()
        locks.append(measure_lock("benchmarks.methods", ["daybreak", str(source), str(out)]))
        print(f"round {number + 1}: lock held {locks[-1].share:.1%}", flush=True)
    seconds = {key: [one.wall_seconds for one in rounds] for key, rounds in measured.items()}
    rows = []
    for method in _METHODS:
        speed_up = median(seconds[method, 1]) / median(seconds[method, counts[-1]])
        rows.append([METHODS[method], *(summarize(seconds[method, count]) for count in counts), f"{speed_up:.2f}"])
    headings = ["Method", *(f"{format_count(count, 'core')}, s" for count in counts), "Speed-up"]
    held = median(lock.held_seconds for lock in locks)
    share = median(lock.share for lock in locks)
    facts = f"A thread of Daybreak held the lock for {held:.1f} s on {counts[-1]} cores, {share:.0%} of the time."
    parts = [_INTRODUCTION.format(rows=options.rows, leaders=options.leaders), table(headings, rows), "", facts]
    parts += ["", _COMPUTED, computed_table(median(seconds["daybreak", 1]), held), ""]
    parts += [_PHASES, _phases(options.out / "run", source)]
    return Section("\n".join(parts), packages=("duckdb", "polars", "isal", "wasmtime"))


def computed_speed_ups(one_core_seconds: float, held_seconds: float, count: int) -> tuple[float, float]:
    """Return the lowest and the highest speed-up on `count` cores, if only the time with the lock is serial.

    It is lowest if nothing runs next to the thread with the lock, and highest if all other work does.
    """
    lowest = one_core_seconds / (held_seconds + (one_core_seconds - held_seconds) / count)
    return lowest, one_core_seconds / max(held_seconds, one_core_seconds / count)


def computed_table(one_core_seconds: float, held_seconds: float) -> str:
    """Return a table of the computed speed-ups."""
    rows = []
    for count in _COMPUTED_CORES:
        speed_ups = computed_speed_ups(one_core_seconds, held_seconds, count)
        rows.append([f"{count} (computed)", *(f"{each:.1f}" for each in speed_ups)])
    return table(["Cores", "Speed-up, at least", "Speed-up, at most"], rows)


def _phases(folder: Path, source: Path) -> str:
    """Return a table of the phases of a whole run, and the time with the lock in each."""
    config = make_service(folder)
    lock = measure_lock("daybreak.cli.main", *run_command(config, source, AS_OF))
    listed = run_program([DAYBREAKD, "snapshot", "list", "--limit", "1", "--config", str(config), "--json"])
    [found] = json.loads(listed.output)
    started = datetime.fromisoformat(found["started_at"]).timestamp()
    held = lock.by_phase({name: started + seconds for name, seconds in found["report"]["phases"].items()})
    rows = [(name, f"{seconds:.2f}") for name, seconds in held.items()]
    return table(["Phase of a run", "Lock held, s"], rows)


@contextmanager
def _limited_to(count: int) -> Iterator[None]:
    """Limit this process, and those that it starts, to some of its cores."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


_INTRODUCTION = """The export of {rows:,} Members of {leaders:,} Leaders, shuffled, with the process and its threads on
one core and on all cores of the machine. The time with the interpreter's lock is sampled a thousand times a second from
outside the process (`python -m benchmarks.lock_time`).
"""

_COMPUTED = """With more cores, the time with the lock is what remains. These figures are **computed** from it and from
the time on one core, and not measured. They assume that memory and disk keep up.
"""

_PHASES = """Of a whole run of the same Members:
"""

JOB = Job(
    "cores",
    "Cores",
    "one core and all cores, the interpreter's lock, and the computed speed",
    {"rows": (4_000_000, "Members"), "leaders": (5_000, "Leaders")},
    _run,
)
