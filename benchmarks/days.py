"""Whole runs on following days: the same rows again, a tenth changed, and 100,000 Leaders next to 1,500."""

import argparse
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.job import Job, Section
from benchmarks.measure import ProcessUsage, run_program, summarize
from benchmarks.serving.attach import add_tokens
from benchmarks.serving.figures import get, link_path, percentile
from benchmarks.serving.load import Plan
from benchmarks.serving.servers import CLIENT_CORE, daybreak, run_client
from benchmarks.snapshot_run import Run, make_service, snapshot_run
from benchmarks.source import AS_OF, Shape, change_source, make_shape, make_source
from tests.parts.s3 import S3Bucket, running_s3

_DAY = timedelta(days=1)
_FULL, _SAME, _TENTH = "first day", "the same rows again", "rows of a tenth of the Leaders changed"
_PART = "rows of a hundredth of the Leaders changed"
_PROGRAM = str(Path(sys.executable).with_name("daybreakd"))
_LINKS_PER_SECOND, _LINK_SECONDS = 100.0, 10.0


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=2_000_000, help="Members")
    parser.add_argument("--leaders", type=int, default=1_500)


def _add_many_options(parser: argparse.ArgumentParser) -> None:
    _add_options(parser)
    parser.add_argument("--many", type=int, default=100_000, help="Leaders of the larger platform")


def _source(options: argparse.Namespace, leaders: int, *, changed: int = 0) -> Path:
    """Return a platform, in which the rows of every `changed`-th Leader are changed."""
    town = f"CASE WHEN leader % {changed} = 0 THEN 'New Town' ELSE 'Town ' || n % 307 END" if changed else None
    name = f"days-{options.rows}-{leaders}" + (f"-changed-{changed}" if changed else "")
    shape = Shape(
        name, f"{options.rows:,} Members of {leaders:,} Leaders",
        leaders, f"SELECT n, hash(n) % {leaders} AS leader FROM range({options.rows}) AS t(n)", town,
    )  # fmt: skip
    return make_shape(options.folder, shape)


def _measured(options: argparse.Namespace, days: dict[int, dict[str, Path]]) -> dict[tuple[int, str], list[Run]]:
    """Return the runs by number of Leaders and day. `days` has the source of each day."""
    # Files are deleted at the end: after deleting many, ext4 creates files more slowly for minutes.
    outs = options.folder / "out"
    shutil.rmtree(outs, ignore_errors=True)
    runs: dict[tuple[int, str], list[Run]] = defaultdict(list)
    for number in range(options.rounds):
        for leaders, sources in days.items():
            config = make_service(outs / f"{number}-{leaders}")
            for day, (name, source) in enumerate(sources.items()):
                run = snapshot_run(config, source, AS_OF + day * _DAY)
                runs[leaders, name].append(run)
                print(f"round {number + 1}, {leaders:,} Leaders, {name}: {run.usage.cpu_seconds:.1f} CPU s", flush=True)
    shutil.rmtree(outs)
    return runs


def _table(runs: dict[tuple[int, str], list[Run]], base: dict[str, tuple[int, str]]) -> str:
    """Return a table of all runs. `base` has for each day the runs that ratios compare it with."""
    lines = ["| Leaders | Day | Files written | Time, s | CPU, s | Time, ratio | CPU, ratio | MB |"]
    lines.append("|--:|---" + "|--:" * 6 + "|")
    for (leaders, name), some in runs.items():
        members = some[0].resources["members"]
        cells = [f"{leaders:,}", name, f"{2 * (members.leaders - members.carried):,}", *_usage(some, runs[base[name]])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _usage(runs: list[Run], base: list[Run]) -> Iterator[str]:
    figures = [
        ([run.usage.wall_seconds for run in each], [run.usage.cpu_seconds for run in each]) for each in (runs, base)
    ]
    yield from (summarize(values) for values in figures[0])
    yield from (f"{median(own) / median(other):.2f}" for own, other in zip(*figures, strict=True))
    yield f"{max(run.usage.peak_bytes for run in runs) / 1e6:,.0f}"


def _run_quiet(options: argparse.Namespace) -> Section:
    leaders = options.leaders
    same, changed = _source(options, leaders), _source(options, leaders, changed=10)
    runs = _measured(options, {leaders: {_FULL: same, _SAME: same, _TENTH: changed}})
    table = _table(runs, dict.fromkeys((_FULL, _SAME, _TENTH), (leaders, _FULL)))
    return Section(f"{_QUIET.format(rows=options.rows)}\n{table}", packages=("duckdb", "isal", "wasmtime"))


def _run_many(options: argparse.Namespace) -> Section:
    lines = ["| Leaders | Packs | Day | Files and packs | Time, s | CPU, s | Time, ratio | CPU, ratio | MB |"]
    lines.append("|--:|---|---" + "|--:" * 6 + "|")
    base: dict[str, list[Run]] = {}
    for leaders, packs in ((options.leaders, "yes"), (options.many, "no"), (options.many, "yes")):
        days = {_FULL: _source(options, leaders)}
        if packs == "yes":
            days |= {_SAME: days[_FULL], _PART: _source(options, leaders, changed=100)}
        for day, found in _packed_days(options, leaders, "64KB" if packs == "yes" else "0B", days):
            runs = [run for run, _ in found]
            cells = [f"{leaders:,}", packs, day, f"{found[0][1]:,}", *_usage(runs, base.setdefault(day, runs))]
            lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines)
    body = f"{_MANY.format(rows=options.rows)}\n{table}\n\n{_filled(options)}"
    return Section(body, packages=("duckdb", "isal", "wasmtime", "cryptography", "swift"))


def _packed_days(
    options: argparse.Namespace, leaders: int, pack_below: str, days: dict[str, Path]
) -> Iterator[tuple[str, list[tuple[Run, int]]]]:
    """Yield the runs of each day, each with the number of inodes of files that the disk has after it."""
    found: dict[str, list[tuple[Run, int]]] = defaultdict(list)
    for number in range(options.rounds):
        config = make_service(options.folder / "out" / f"{number}-{leaders}-{pack_below}")
        before = 0
        for day, (name, source) in enumerate(days.items()):
            run = snapshot_run(config, source, AS_OF + day * _DAY, {"SNAPSHOT__PACK_BELOW": pack_below})
            inodes = _inodes(config.parent)
            found[name].append((run, inodes - before))
            before = inodes
            print(f"{leaders:,} Leaders, {pack_below}, {name}: {run.usage.cpu_seconds:.1f} CPU s", flush=True)
    shutil.rmtree(options.folder / "out")
    yield from found.items()


def _inodes(folder: Path) -> int:
    return len({one.inode() for one in _entries(folder)})


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for one in entries:
            if one.is_dir(follow_symlinks=False):
                yield from _entries(Path(one.path))
            else:
                yield one


def _filled(options: argparse.Namespace) -> str:
    """Return the table of a platform in which nearly all Leaders have rows of all nine resources."""
    many = options.many
    source = make_source(options.folder, 10 * many, many, 25 * many, "shuffled", even=True)
    days = {_FULL: source, _PART: change_source(source, 100)}
    folder = options.folder.absolute() / "out" / "filled"
    disk = _filled_days("local disk", folder, days, lambda: _inodes(folder / "files"))
    with running_s3() as server:
        bucket = S3Bucket(server, server.fresh_bucket())
        variables = {"FILES__URL": bucket.url, "FILES__ENDPOINT": server.endpoint, "FILES__PATH_STYLE": "true"}
        with patch.dict(os.environ, bucket.environment() | {f"DAYBREAK_{name}": variables[name] for name in variables}):
            objects = _filled_days("bucket", folder, days, lambda: sum(map(len, server.store(bucket.name).list())))
    shutil.rmtree(folder)
    lines = ["| Files in | Step | New files and packs | Time, s | CPU, s | MB |", "|---|---" + "|--:" * 4 + "|"]
    return "\n".join([_FILLED.format(leaders=many, rows=10 * many), *lines, *disk, *objects])


def _filled_days(store: str, folder: Path, days: dict[str, Path], count: Callable[[], int]) -> list[str]:
    """Return the rows of the table for a new service. `count` returns the number of its files and packs."""
    config = make_service(folder)
    runs: dict[str, Run] = {}
    rows: list[tuple[str, ...]] = []
    before = 0
    for number, (day, source) in enumerate(days.items()):
        runs[day] = run = snapshot_run(config, source, AS_OF + number * _DAY)
        after = count()
        rows.append((day, f"{after - before:,}", *_figures(run.usage)))
        before = after
        rows.append(("its publication", "", f"{run.publication_seconds:.1f}", "", ""))
    links = _link_times(folder, days[_FULL])
    forget = [_PROGRAM, "snapshot", "forget", runs[_FULL].snapshot_id, "--config", str(config)]
    deletion = run_program(forget)
    rows.append(("deletion of the first day", f"{count() - before:,}", *_figures(deletion)))
    p99 = percentile(links, 0.99)
    rows.append((f"file opened by link, p50 {percentile(links, 0.5):.1f} ms, p99 {p99:.1f} ms", *[""] * 4))
    print(f"{store}: {rows}", flush=True)
    return [f"| {store} | {' | '.join(cells)} |" for cells in rows]


def _figures(usage: ProcessUsage) -> tuple[str, str, str]:
    return f"{usage.wall_seconds:.1f}", f"{usage.cpu_seconds:.1f}", f"{usage.peak_bytes / 1e6:,.0f}"


def _link_times(service: Path, platform: Path) -> list[float]:
    """Return how long it takes to open links of some accounts, in milliseconds."""
    accounts = add_tokens(service, platform)
    with daybreak(service) as server:
        paths = [link_path(server, each.api_token, each.client_id, "members.csv.gz") for each in accounts]
        requests = tuple(get(server.port, path) for path in paths)
        plan = Plan(server.port, requests, _LINK_SECONDS, 32, _LINKS_PER_SECOND, core=CLIENT_CORE, real_time=True)
        return run_client(server, plan, expected=200).client.milliseconds


_QUIET = """Whole runs (`daybreakd snapshot run`) of {rows:,} Members on three days. Ratios compare with the first day.
Runs of later days also make deltas, and sign the statements of all accounts again. Other resources have no rows.
"""

_MANY = """The same {rows:,} Members in few and in many Leaders, and without packs. *Files and packs* are new ones on
the local disk, with those of the state database. Ratios compare with the first row of the same day. Other resources
have no rows.
"""

_FILLED = f"""{{leaders:,}} Leaders with {{rows:,}} Members and rows in all nine resources. The bucket is OpenStack
Swift on the same machine, whose CPU time is not included. Term acceptances contain the snapshot's instant, so that
their files change every day. Links are those of some accounts in turn, {_LINKS_PER_SECOND:.0f} per second.
"""

QUIET_DAYS = Job(
    "quiet-days",
    "Quiet days",
    "whole runs with the same rows again, and with a tenth changed",
    _add_options,
    _run_quiet,
)
MANY_LEADERS = Job(
    "many-leaders", "100,000 Leaders", "whole runs with 100,000 Leaders next to 1,500", _add_many_options, _run_many, 1
)
