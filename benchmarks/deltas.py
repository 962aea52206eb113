"""CPU time that deltas add to a run when one row in a hundred has changed."""

import argparse
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median

from benchmarks.job import Job, Section, table
from benchmarks.measure import summarize
from benchmarks.snapshot_run import Run, cpus, make_service, snapshot_run, walls
from benchmarks.source import AS_OF, changed_copy, even_shape, make_shape, make_source

_HEADINGS = ("Platform", "Rows", "Deltas", "CPU without deltas, s", "CPU with deltas, s", "CPU added", "Time added")


def _run(options: argparse.Namespace) -> Section:
    rows = []
    for description, source in _sources(options):
        rows.append([description, *_cells(*_measured(options, source))])
        print(rows[-1], flush=True)
    return Section(f"{_INTRODUCTION}\n{table(_HEADINGS, rows)}", packages=("duckdb", "isal", "wasmtime"))


def _sources(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    leaders, messages = 1_500, 1_000_000
    yield (
        f"{options.all_rows:,} Members of {leaders:,} Leaders of very uneven size, all nine resources",
        make_source(options.folder, options.all_rows, leaders, messages, "shuffled"),
    )
    for leaders in (20, 500, 5_000):
        shape = even_shape(options.rows, leaders)
        yield shape.description, make_shape(options.folder, shape)


def _measured(options: argparse.Namespace, source: Path) -> tuple[list[Run], list[Run]]:
    """Return runs without and with deltas. Each run has one row in a hundred that differs from the run before."""
    sources = [source, changed_copy(source, "one-in-100", "hash(one) % 100 = 0")]
    runs: tuple[list[Run], list[Run]] = ([], [])
    services = [make_service(options.out / name) for name in ("without", "with")]
    for day in range(options.rounds + 1):
        for config, done, deltas in zip(services, runs, ("false", "true"), strict=True):
            settings = {"SNAPSHOT__DELTAS": deltas}
            done.append(snapshot_run(config, sources[day % 2], AS_OF + timedelta(days=day), settings))
            print(f"day {day + 1}, deltas {deltas}: {done[-1].usage.cpu_seconds:.1f} CPU seconds", flush=True)
    return runs[0][1:], runs[1][1:]


def _cells(without: list[Run], with_deltas: list[Run]) -> list[str]:
    changed = sum(one.leaders - one.carried for one in with_deltas[0].resources.values())
    added = [median(of(with_deltas)) / median(of(without)) - 1 for of in (cpus, walls)]
    cells = [f"{with_deltas[0].rows:,}", f"{changed:,}", summarize(cpus(without)), summarize(cpus(with_deltas))]
    return [*cells, *(f"{share:.0%}" for share in added)]


_INTRODUCTION = """Whole runs (`daybreakd snapshot run`) with and without `snapshot.deltas`, in turns. In each run, one
row in a hundred of each source table differs from the run before. "Deltas" are those of one run.
The fewer rows a Leader has, the more they cost in comparison. The platforms with Leaders of one size have only Members.
"""

JOB = Job(
    "deltas",
    "Deltas",
    "CPU time that deltas add to a run when one row in a hundred has changed",
    {
        "rows": (1_000_000, "Members of platforms with Leaders of one size"),
        "all-rows": (2_000_000, "Members of the platform with all resources"),
    },
    _run,
)
