"""The export on one and on all cores, the time with the interpreter's lock, and the speed that follows from both."""

import argparse
import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median

from benchmarks.job import Job, Section
from benchmarks.lock_time import LockSamples, measure_lock
from benchmarks.machine import cores
from benchmarks.measure import Measurement, measure_method, run_program, summarize
from benchmarks.members import METHODS
from benchmarks.snapshot_run import make_service
from benchmarks.source import AS_OF, make_source, read_once
from daybreak.domain.display import format_count

_METHODS = ("daybreak", "duckdb", "polars-6")
_COMPUTED_CORES = (4, 8, 16)
_PROGRAM = str(Path(sys.executable).with_name("daybreakd"))


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=4_000_000, help="Members")
    parser.add_argument("--leaders", type=int, default=5_000)


def _run(options: argparse.Namespace) -> Section:
    source = make_source(options.folder, options.rows, options.leaders, min(options.rows, 1_000_000), "shuffled")
    read_once(source)
    outs = options.folder / "out"
    shutil.rmtree(outs, ignore_errors=True)
    counts = sorted({1, cores()})
    measured: dict[tuple[str, int], list[Measurement]] = defaultdict(list)
    locks: list[LockSamples] = []
    for number in range(options.rounds):
        for method in _METHODS:
            for count in counts:
                out = outs / f"{number}-{method}-{count}"
                out.mkdir(parents=True)
                with _limited_to(count):
                    measured[method, count].append(measure_method(method, source, out))
        out = outs / f"{number}-lock"
        out.mkdir()
        locks.append(measure_lock("benchmarks.methods", ["daybreak", str(source), str(out)]))
        print(f"round {number + 1}: lock held {locks[-1].share:.1%}", flush=True)
    phases = _phases(outs / "run", source)
    shutil.rmtree(outs)
    walls = {key: [one.wall_seconds for one in rounds] for key, rounds in measured.items()}
    lines = ["| Method | " + " | ".join(f"{format_count(count, 'core')}, s" for count in counts) + " | Speed-up |"]
    lines.append("|---" + "|--:" * (len(counts) + 1) + "|")
    for method in _METHODS:
        cells = [summarize(walls[method, count]) for count in counts]
        speed_up = median(walls[method, 1]) / median(walls[method, counts[-1]])
        lines.append(f"| {METHODS[method]} | {' | '.join(cells)} | {speed_up:.2f} |")
    one_core = median(walls["daybreak", 1])
    held = median(lock.held_seconds for lock in locks)
    share = median(lock.share for lock in locks)
    facts = f"A thread of Daybreak held the lock for {held:.1f} s on {counts[-1]} cores, {share:.0%} of the time."
    parts = [_INTRODUCTION.format(rows=options.rows, leaders=options.leaders), *lines, "", facts]
    parts += ["", _COMPUTED, computed_table(one_core, held), "", _PHASES, phases]
    return Section("\n".join(parts), packages=("duckdb", "polars", "isal", "wasmtime"))


def computed_speed_ups(one_core_seconds: float, held_seconds: float, count: int) -> tuple[float, float]:
    """Return the lowest and the highest speed-up on `count` cores, if only the time with the lock is serial.

    It is lowest if nothing runs next to the thread with the lock, and highest if all other work does.
    """
    lowest = one_core_seconds / (held_seconds + (one_core_seconds - held_seconds) / count)
    return lowest, one_core_seconds / max(held_seconds, one_core_seconds / count)


def computed_table(one_core_seconds: float, held_seconds: float) -> str:
    """Return a table of the computed speed-ups."""
    lines = ["| Cores | Speed-up, at least | Speed-up, at most |", "|--:|--:|--:|"]
    for count in _COMPUTED_CORES:
        lowest, highest = computed_speed_ups(one_core_seconds, held_seconds, count)
        lines.append(f"| {count} (computed) | {lowest:.1f} | {highest:.1f} |")
    return "\n".join(lines)


def _phases(folder: Path, source: Path) -> str:
    """Return a table of the phases of a whole run, and the time with the lock in each."""
    config = str(make_service(folder))
    environment = {"DAYBREAK_SOURCE__LOCATION": str(source.absolute()), "DAYBREAK_LOG_LEVEL": "error"}
    arguments = ["snapshot", "run", "--config", config, "--as-of", AS_OF.isoformat()]
    lock = measure_lock("daybreak.cli.main", arguments, environment)
    listed = run_program([_PROGRAM, "snapshot", "list", "--limit", "1", "--config", config, "--json"])
    [found] = json.loads(listed.output)
    started = datetime.fromisoformat(found["started_at"]).timestamp()
    held = lock.by_phase({name: started + seconds for name, seconds in found["report"]["phases"].items()})
    lines = ["| Phase of a run | Lock held, s |", "|---|--:|"]
    return "\n".join([*lines, *(f"| {name} | {seconds:.2f} |" for name, seconds in held.items())])


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
    "cores", "Cores", "one core and all cores, the interpreter's lock, and the computed speed", _add_options, _run
)
