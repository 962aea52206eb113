"""A whole run of all nine resources, each compared with the compression of its text."""

import argparse
import shutil
from datetime import timedelta
from statistics import median

from benchmarks.chart import Bar, bar_chart
from benchmarks.job import Job, Section
from benchmarks.measure import Measurement, measure_method, summarize
from benchmarks.snapshot_run import Run, make_service, snapshot_run
from benchmarks.source import AS_OF, change_source, make_source
from daybreak.catalogue.resources import RESOURCE_NAMES


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="Members")
    parser.add_argument("--leaders", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=5_000_000, help="outbound messages")
    parser.add_argument("--changed", type=int, default=0, help="change rows of one in so many Leaders on the next day")


def _run(options: argparse.Namespace) -> Section:
    source = make_source(options.folder, options.rows, options.leaders, options.messages, "shuffled")
    next_source = change_source(source, options.changed) if options.changed else source
    # Files are deleted at the end: after deleting many, ext4 creates files more slowly for minutes.
    outs = options.folder / "out"
    shutil.rmtree(outs, ignore_errors=True)
    runs: list[Run] = []
    next_days: list[Run] = []
    limits: list[Measurement] = []
    for number in range(options.rounds):
        config = make_service(outs / f"service-{number}")
        runs.append(snapshot_run(config, source, AS_OF))
        next_days.append(snapshot_run(config, next_source, AS_OF + timedelta(days=1)))
        out = outs / f"files-{number}"
        out.mkdir(parents=True)
        limits.append(measure_method("limit-all", source, out))
        seconds = [runs[-1].usage.wall_seconds, next_days[-1].usage.wall_seconds, limits[-1].wall_seconds]
        print(f"round {number + 1}, run, next day, limit: {', '.join(f'{one:.1f} s' for one in seconds)}", flush=True)
    shutil.rmtree(outs)
    next_day = f"with changed rows of one in {options.changed:,} Leaders" if options.changed else "with the same source"
    seconds_by_resource = {name: median(run.resources[name].seconds for run in runs) for name in RESOURCE_NAMES}
    chart = bar_chart(
        "All nine resources: seconds in one run",
        [Bar(name, seconds, f"{seconds:.1f} s", highlighted=True) for name, seconds in seconds_by_resource.items()],
    )
    limit_seconds = sum(median(_limit(one, name) for one in limits) for name in RESOURCE_NAMES)
    limit_cpu = median(one.cpu_seconds for one in limits)
    summary = _summary(runs, next_days, limit_seconds, limit_cpu, next_day)
    body = (
        f"{options.rows:,} Members of {options.leaders:,} Leaders and {options.messages:,} outbound messages, "
        f"generated like the demo.\n\n{_table(runs, limits)}\n{summary}\n"
        "![Seconds by resource](../images/benchmarks-resources.svg)\n"
    )
    return Section(body, {"benchmarks-resources": chart}, ("duckdb", "isal", "nanoarrow"))


def _table(runs: list[Run], limits: list[Measurement]) -> str:
    lines = [
        "| Resource | Rows | Leaders | MB | Time, s | Rows per second | Compression only, s | Ratio |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in RESOURCE_NAMES:
        one = runs[0].resources[name]
        seconds = [run.resources[name].seconds for run in runs]
        limit = median(_limit(each, name) for each in limits)
        lines.append(
            f"| {name} | {one.rows:,} | {one.leaders:,} | {one.bytes / 1e6:,.0f} | {summarize(seconds)} "
            f"| {one.rows / median(seconds):,.0f} | {limit:.2f} | {median(seconds) / limit:.1f} |"
        )
    return "\n".join(lines)


def _summary(runs: list[Run], next_days: list[Run], limit_seconds: float, limit_cpu: float, next_day: str) -> str:
    walls = [run.usage.wall_seconds for run in runs]
    cpus = [run.usage.cpu_seconds for run in runs]
    exports = [sum(one.seconds for one in run.resources.values()) for run in runs]
    return f"""
- All nine resources: {summarize(exports)} s, {median(exports) / limit_seconds:.1f} times their compression only.
- The whole run, including checks across resources, sync, verification of every file, and publication:
  {summarize(walls)} s, {summarize(cpus)} CPU seconds ({median(cpus) / limit_cpu:.1f} times compression only). It wrote
  {runs[0].rows:,} rows in {runs[0].files:,} files, {runs[0].bytes / 1e6:,.0f} MB. Peak memory was
  {max(run.usage.peak_bytes for run in (*runs, *next_days)) / 1e6:,.0f} MB.
- The next day {next_day}: {summarize([run.usage.wall_seconds for run in next_days])} s,
  {summarize([run.usage.cpu_seconds for run in next_days])} CPU seconds. Term acceptances contain the snapshot's
  instant, so their files change every day. The second day has a few more rows.
- "Compression only" takes the finished text of both formats and compresses it with igzip level 2, one thread per core.
  It is a lower bound: it does not read, sort or compute digests.
"""


def _limit(measurement: Measurement, name: str) -> float:
    return float(measurement.reported["resources"][name]["wall_seconds"])


JOB = Job(
    "resources",
    "All nine resources",
    "a whole run of all nine resources, compared with compression only",
    _add_options,
    _run,
    rounds=2,
)
