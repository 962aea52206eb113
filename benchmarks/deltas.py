"""CPU time that deltas add to a run when one row in a hundred has changed."""

import argparse
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median

from benchmarks.job import Job, Section
from benchmarks.measure import summarize
from benchmarks.snapshot_run import Run, make_service, snapshot_run
from benchmarks.source import AS_OF, Shape, changed_copy, make_shape, make_source

_DAY = timedelta(days=1)
_CHANGED_SHARE = 0.01
_CHANGES = {
    "members": ("city", "'New Town'"),
    "member_state_changes": ("state_changed_at", "state_changed_at + INTERVAL 1 MICROSECOND"),
    "campaigns": ("campaign_name", "'New name'"),
    "outbound_messages": ("segment_count", "segment_count + 1"),
    "campaign_links": ("link_url", "'https://example.org/new'"),
    "member_term_accepts": ("was_checked", "NOT was_checked"),
    "custom_field_values": ("custom_field_value", "'New value'"),
    "communities": ("community_name", "'New name'"),
    "community_memberships": ("joined_at", "joined_at + INTERVAL 1 MICROSECOND"),
}
"""A column and its new value, by table."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="Members of platforms with Leaders of one size")
    parser.add_argument("--all-rows", type=int, default=2_000_000, help="Members of the platform with all resources")


def _run(options: argparse.Namespace) -> Section:
    lines = [
        "| Platform | Rows | Deltas | CPU without deltas, s | CPU with deltas, s | CPU added | Time added |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for description, source in _sources(options):
        without, with_deltas = _measured(options, source)
        lines.append(_line(description, without, with_deltas))
        print(lines[-1], flush=True)
    return Section("\n".join([_INTRODUCTION, *lines]), packages=("duckdb", "isal", "wasmtime"))


def _sources(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    leaders, messages = 1_500, 1_000_000
    yield (
        f"{options.all_rows:,} Members of {leaders:,} Leaders of very uneven size, all nine resources",
        make_source(options.folder, options.all_rows, leaders, messages, "shuffled"),
    )
    for leaders in (20, 500, 5_000):
        shape = Shape(
            f"even-{options.rows}-{leaders}", f"{options.rows:,} Members of {leaders:,} Leaders of one size", leaders,
            f"SELECT n, hash(n) % {leaders} AS leader FROM range({options.rows}) AS t(n)",
        )  # fmt: skip
        yield shape.description, make_shape(options.folder, shape)


def _measured(options: argparse.Namespace, source: Path) -> tuple[list[Run], list[Run]]:
    """Return runs without and with deltas. Each run has one row in a hundred that differs from the run before."""
    sources = [source, changed_copy(source, _CHANGES, _CHANGED_SHARE)]
    # Files are deleted at the end: after deleting many, ext4 creates files more slowly for minutes.
    outs = options.folder / "out"
    shutil.rmtree(outs, ignore_errors=True)
    runs: tuple[list[Run], list[Run]] = ([], [])
    services = [make_service(outs / name) for name in ("without", "with")]
    for day in range(options.rounds + 1):
        for config, done, deltas in zip(services, runs, ("false", "true"), strict=True):
            settings = {"SNAPSHOT__DELTAS": deltas}
            done.append(snapshot_run(config, sources[day % 2], AS_OF + day * _DAY, settings))
            print(f"day {day + 1}, deltas {deltas}: {done[-1].usage.cpu_seconds:.1f} CPU seconds", flush=True)
    shutil.rmtree(outs)
    return runs[0][1:], runs[1][1:]


def _line(description: str, without: list[Run], with_deltas: list[Run]) -> str:
    cpu = [[run.usage.cpu_seconds for run in runs] for runs in (without, with_deltas)]
    wall = [median(run.usage.wall_seconds for run in runs) for runs in (without, with_deltas)]
    changed = sum(one.leaders - one.carried for one in with_deltas[0].resources.values())
    return (
        f"| {description} | {with_deltas[0].rows:,} | {changed:,} | {summarize(cpu[0])} | {summarize(cpu[1])} "
        f"| {median(cpu[1]) / median(cpu[0]) - 1:.0%} | {wall[1] / wall[0] - 1:.0%} |"
    )


_INTRODUCTION = """Whole runs (`daybreakd snapshot run`) with and without `snapshot.deltas`, in turns. In each run, one
row in a hundred of each source table differs from the run before. "Deltas" are those of one run.
The fewer rows a Leader has, the more they cost in comparison. The platforms with Leaders of one size have only Members.
"""

JOB = Job(
    "deltas",
    "Deltas",
    "CPU time that deltas add to a run when one row in a hundred has changed",
    _add_options,
    _run,
)
