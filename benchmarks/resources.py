"""All nine resources in one whole run, each beside the compression of its own text."""

from __future__ import annotations

import argparse
import shutil
from datetime import timedelta
from statistics import median

from benchmarks.job import Job, Section
from benchmarks.measure import Measured, measure, spread
from benchmarks.picture import Bar, bars
from benchmarks.source import AS_OF, make_source
from benchmarks.whole_run import Run, make_service, snapshot_run
from daybreak.catalogue.resources import RESOURCE_NAMES


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="Members")
    parser.add_argument("--leaders", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=5_000_000, help="outbound messages")


def _run(options: argparse.Namespace) -> Section:
    source = make_source(options.folder, options.rows, options.leaders, options.messages, "shuffled")
    # Nothing is removed before the end: ext4 takes longer to make files for minutes after many were removed.
    made = options.folder / "made"
    shutil.rmtree(made, ignore_errors=True)
    runs: list[Run] = []
    next_days: list[Run] = []
    limits: list[Measured] = []
    for number in range(options.rounds):
        config = make_service(made / f"service-{number}")
        runs.append(snapshot_run(config, source, AS_OF))
        next_days.append(snapshot_run(config, source, AS_OF + timedelta(days=1)))
        out = made / f"out-{number}"
        out.mkdir(parents=True)
        limits.append(measure("limit-all", source, out))
        seconds = [runs[-1].used.wall_seconds, next_days[-1].used.wall_seconds, limits[-1].wall_seconds]
        print(f"round {number + 1}, run, next day, limit: {', '.join(f'{one:.1f} s' for one in seconds)}", flush=True)
    shutil.rmtree(made)
    took = {name: median(run.resources[name].seconds for run in runs) for name in RESOURCE_NAMES}
    picture = bars(
        "All nine resources: seconds on the wall, in one run",
        [Bar(name, took[name], f"{took[name]:.1f} s", ours=True) for name in RESOURCE_NAMES],
    )
    least = sum(median(_limit(one, name) for one in limits) for name in RESOURCE_NAMES)
    least_cpu = median(one.cpu_seconds for one in limits)
    body = (
        f"{options.rows:,} Members of {options.leaders:,} Leaders and {options.messages:,} outbound messages of the "
        f"demo's generator.\n\n{_table(runs, limits)}\n{_whole(runs, next_days, least, least_cpu)}\n"
        "![Seconds by resource](images/benchmarks-resources.svg)\n"
    )
    return Section(body, {"benchmarks-resources": picture}, ("duckdb", "isal", "nanoarrow"))


def _table(runs: list[Run], limits: list[Measured]) -> str:
    lines = [
        "| Resource | Rows | Leaders | MB | Wall, s | Rows a second | Compression alone, s | Times that |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in RESOURCE_NAMES:
        one = runs[0].resources[name]
        seconds = [run.resources[name].seconds for run in runs]
        least = median(_limit(each, name) for each in limits)
        lines.append(
            f"| {name} | {one.rows:,} | {one.leaders:,} | {one.bytes / 1e6:,.0f} | {spread(seconds)} "
            f"| {one.rows / median(seconds):,.0f} | {least:.2f} | {median(seconds) / least:.1f} |"
        )
    return "\n".join(lines)


def _whole(runs: list[Run], next_days: list[Run], least: float, least_cpu: float) -> str:
    walls = [run.used.wall_seconds for run in runs]
    cpus = [run.used.cpu_seconds for run in runs]
    made = [sum(one.seconds for one in run.resources.values()) for run in runs]
    return f"""
- The nine together: {spread(made)} s, {median(made) / least:.1f} times the sum of their compression alone.
- The whole run, with the checks across resources, the sync, the reading back of every file and the publication:
  {spread(walls)} s on the wall, {spread(cpus)} s on the cores ({median(cpus) / least_cpu:.1f} times the compression's),
  {runs[0].rows:,} rows in {runs[0].files:,} files, {runs[0].bytes / 1e6:,.0f} MB of them;
  peak {max(run.used.peak_bytes for run in runs) / 1e6:,.0f} MB.
- The next day over the same source: {spread([run.used.wall_seconds for run in next_days])} s on the wall,
  {spread([run.used.cpu_seconds for run in next_days])} s on the cores.
  Acceptances of terms name the snapshot's instant in every row and so are always written again; a few rows lie between
  the two days.
- "Compression alone" takes the finished text of both formats and compresses it with igzip level 2, a thread a core. It
  is no more than a floor: it neither reads, sums nor sorts.
"""


def _limit(measured: Measured, name: str) -> float:
    return float(measured.told["resources"][name]["wall_seconds"])


JOB = Job(
    "resources",
    "All nine resources",
    "one whole run of all nine resources, each beside its compression alone",
    _add_options,
    _run,
    rounds=2,
)
