"""A whole run of all nine resources, each compared with the compression of its text."""

import argparse
from datetime import timedelta
from statistics import median

from benchmarks.chart import Bar, bar_chart
from benchmarks.job import Job, Section, table
from benchmarks.measure import Measurement, measure_method, summarize
from benchmarks.snapshot_run import Run, cpus, make_service, peak_megabytes, snapshot_run, walls
from benchmarks.source import AS_OF, make_source
from daybreak.catalogue.resources import RESOURCE_NAMES


def _run(options: argparse.Namespace) -> Section:
    source = make_source(options.folder, options.rows, options.leaders, options.messages, "shuffled")
    runs: list[Run] = []
    next_days: list[Run] = []
    limits: list[Measurement] = []
    for number in range(options.rounds):
        config = make_service(options.out / f"service-{number}")
        runs.append(snapshot_run(config, source, AS_OF))
        next_days.append(snapshot_run(config, source, AS_OF + timedelta(days=1)))
        out = options.out / f"files-{number}"
        out.mkdir(parents=True)
        limits.append(measure_method("limit-all", source, out))
        seconds = [runs[-1].usage.wall_seconds, next_days[-1].usage.wall_seconds, limits[-1].wall_seconds]
        print(f"round {number + 1}, run, next day, limit: {', '.join(f'{one:.1f} s' for one in seconds)}", flush=True)
    seconds_by_resource = {name: median(run.resources[name].seconds for run in runs) for name in RESOURCE_NAMES}
    chart = bar_chart(
        "All nine resources: seconds in one run",
        [Bar(name, seconds, f"{seconds:.1f} s", highlighted=True) for name, seconds in seconds_by_resource.items()],
    )
    body = (
        f"{options.rows:,} Members of {options.leaders:,} Leaders and {options.messages:,} outbound messages, "
        f"generated like the demo.\n\n{_table(runs, limits)}\n{_summary(runs, next_days, limits)}\n"
        "![Seconds by resource](../images/benchmarks-resources.svg)\n"
    )
    return Section(body, {"benchmarks-resources": chart}, ("duckdb", "isal", "nanoarrow"))


def _table(runs: list[Run], limits: list[Measurement]) -> str:
    rows = []
    for name in RESOURCE_NAMES:
        one = runs[0].resources[name]
        seconds = [run.resources[name].seconds for run in runs]
        limit = median(_limit(each, name) for each in limits)
        cells = [name, f"{one.rows:,}", f"{one.leaders:,}", f"{one.bytes / 1e6:,.0f}", summarize(seconds)]
        rows.append([*cells, f"{one.rows / median(seconds):,.0f}", f"{limit:.2f}", f"{median(seconds) / limit:.1f}"])
    headings = ("Resource", "Rows", "Leaders", "MB", "Time, s", "Rows per second", "Compression only, s", "Ratio")
    return table(headings, rows)


def _summary(runs: list[Run], next_days: list[Run], limits: list[Measurement]) -> str:
    limit_seconds = sum(median(_limit(one, name) for one in limits) for name in RESOURCE_NAMES)
    limit_cpu = median(one.cpu_seconds for one in limits)
    exports = [sum(one.seconds for one in run.resources.values()) for run in runs]
    return f"""
- All nine resources: {summarize(exports)} s, {median(exports) / limit_seconds:.1f} times their compression only.
- The whole run, including checks across resources, sync, verification of every file, and publication:
  {summarize(walls(runs))} s, {summarize(cpus(runs))} CPU seconds ({median(cpus(runs)) / limit_cpu:.1f} times
  compression only). It wrote {runs[0].rows:,} rows in {runs[0].files:,} files, {runs[0].bytes / 1e6:,.0f} MB. Peak
  memory was {peak_megabytes([*runs, *next_days])} MB.
- The next day with the same source: {summarize(walls(next_days))} s, {summarize(cpus(next_days))} CPU seconds. Term
  acceptances contain the snapshot's instant, so their files change every day. The second day has a few more rows.
- "Compression only" takes the finished text of both formats and compresses it with igzip level 2, one thread per core.
  It is a lower bound: it does not read, sort or compute digests.
"""


def _limit(measurement: Measurement, name: str) -> float:
    return float(measurement.reported["resources"][name]["wall_seconds"])


JOB = Job(
    "resources",
    "All nine resources",
    "a whole run of all nine resources, compared with compression only",
    {
        "rows": (1_000_000, "Members"),
        "leaders": (5_000, "Leaders"),
        "messages": (5_000_000, "outbound messages"),
    },
    _run,
    rounds=2,
)
