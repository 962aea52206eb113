"""Whole runs on following days: the same rows again, a tenth changed, and 100,000 Leaders next to 1,500."""

import argparse
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.job import Job, Section, table
from benchmarks.measure import ProcessUsage, run_program, summarize
from benchmarks.serving.attach import add_tokens
from benchmarks.serving.figures import get, link_path, percentile
from benchmarks.serving.load import Plan
from benchmarks.serving.servers import CLIENT_CORE, daybreak, run_client
from benchmarks.snapshot_run import DAYBREAKD, Run, cpus, make_service, peak_megabytes, snapshot_run, walls
from benchmarks.source import AS_OF, changed_copy, even_shape, make_shape, make_source
from tests.parts.s3 import S3Bucket, running_s3

_DAY = timedelta(days=1)
_FULL, _SAME, _TENTH = "first day", "the same rows again", "rows of a tenth of the Leaders changed"
_PART = "rows of a hundredth of the Leaders changed"
_LINKS_PER_SECOND, _LINK_SECONDS = 100.0, 10.0
_USAGE = ("Time, s", "CPU, s", "Time, ratio", "CPU, ratio", "MB")
# Tables with the id of the Leader, by which rows are changed.
_CHANGED_TABLES = ("members", "campaigns", "communities", "custom_field_values", "outbound_messages")


def _source(options: argparse.Namespace, leaders: int, *, changed: int = 0) -> Path:
    """Return a platform, in which the rows of every `changed`-th Leader are changed."""
    town = f"CASE WHEN leader % {changed} = 0 THEN 'New Town' ELSE 'Town ' || n % 307 END" if changed else None
    return make_shape(options.folder, even_shape(options.rows, leaders, f"days-{changed}", town))


def _usage(runs: list[Run], base: list[Run]) -> tuple[str, ...]:
    ratios = (f"{median(of(runs)) / median(of(base)):.2f}" for of in (walls, cpus))
    return summarize(walls(runs)), summarize(cpus(runs)), *ratios, peak_megabytes(runs)


def _run_quiet(options: argparse.Namespace) -> Section:
    same = _source(options, options.leaders)
    days = {_FULL: same, _SAME: same, _TENTH: _source(options, options.leaders, changed=10)}
    found = _packed_days(options, options.leaders, "64KB", days)
    runs = {name: [run for run, _ in some] for name, some in found}
    rows = []
    for name, some in runs.items():
        members = some[0].resources["members"]
        rows.append((name, f"{2 * (members.leaders - members.carried):,}", *_usage(some, runs[_FULL])))
    body = (
        f"{_QUIET.format(rows=options.rows, leaders=options.leaders)}\n{table(['Day', 'Files written', *_USAGE], rows)}"
    )
    return Section(body, packages=("duckdb", "isal", "wasmtime"))


def _run_many(options: argparse.Namespace) -> Section:
    rows: list[list[str]] = []
    base: dict[str, list[Run]] = {}
    for leaders, packs in ((options.leaders, "yes"), (options.many, "no"), (options.many, "yes")):
        days = {_FULL: _source(options, leaders)}
        if packs == "yes":
            days |= {_SAME: days[_FULL], _PART: _source(options, leaders, changed=100)}
        for day, found in _packed_days(options, leaders, "64KB" if packs == "yes" else "0B", days):
            runs = [run for run, _ in found]
            first = base.setdefault(day, runs)
            rows.append([f"{leaders:,}", packs, day, f"{found[0][1]:,}", *_usage(runs, first)])
    headings = ["Leaders", "Packs", "Day", "Files and packs", *_USAGE]
    body = f"{_MANY.format(rows=options.rows)}\n{table(headings, rows, 3)}\n\n{_filled(options)}"
    return Section(body, packages=("duckdb", "isal", "wasmtime", "cryptography", "swift"))


def _packed_days(
    options: argparse.Namespace, leaders: int, pack_below: str, days: dict[str, Path]
) -> Iterator[tuple[str, list[tuple[Run, int]]]]:
    """Yield the runs of each day, each with the number of inodes of files that the disk has after it."""
    found: dict[str, list[tuple[Run, int]]] = defaultdict(list)
    for number in range(options.rounds):
        config = make_service(options.out / f"{number}-{leaders}-{pack_below}")
        before = 0
        for day, (name, source) in enumerate(days.items()):
            run = snapshot_run(config, source, AS_OF + day * _DAY, {"SNAPSHOT__PACK_BELOW": pack_below})
            inodes = _inodes(config.parent)
            found[name].append((run, inodes - before))
            before = inodes
            print(f"{leaders:,} Leaders, {pack_below}, {name}: {run.usage.cpu_seconds:.1f} CPU s", flush=True)
    shutil.rmtree(options.out)
    yield from found.items()


def _inodes(folder: Path) -> int:
    return len({path.stat().st_ino for path in folder.rglob("*") if path.is_file()})


def _filled(options: argparse.Namespace) -> str:
    """Return the table of a platform in which nearly all Leaders have rows of all nine resources."""
    many = options.many
    source = make_source(options.folder, 10 * many, many, 25 * many, "shuffled", even=True)
    days = {_FULL: source, _PART: changed_copy(source, "changed-100", "hash(leader_id) % 100 = 0", _CHANGED_TABLES)}
    folder = options.out / "filled"
    disk = _filled_days("local disk", folder, days, lambda: _inodes(folder / "files"))
    with running_s3() as server:
        bucket = S3Bucket(server, server.fresh_bucket())
        variables = {"FILES__URL": bucket.url, "FILES__ENDPOINT": server.endpoint, "FILES__PATH_STYLE": "true"}
        with patch.dict(os.environ, bucket.environment() | {f"DAYBREAK_{name}": variables[name] for name in variables}):
            objects = _filled_days("bucket", folder, days, lambda: sum(map(len, server.store(bucket.name).list())))
    rows = table(("Files in", "Step", "New files and packs", "Time, s", "CPU, s", "MB"), [*disk, *objects], 2)
    return f"{_FILLED.format(leaders=many, rows=10 * many)}\n{rows}"


def _filled_days(store: str, folder: Path, days: dict[str, Path], count: Callable[[], int]) -> list[list[str]]:
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
    forget = [DAYBREAKD, "snapshot", "forget", runs[_FULL].snapshot_id, "--config", str(config)]
    deletion = run_program(forget)
    rows.append(("deletion of the first day", f"{count() - before:,}", *_figures(deletion)))
    p99 = percentile(links, 0.99)
    rows.append((f"file opened by link, p50 {percentile(links, 0.5):.1f} ms, p99 {p99:.1f} ms", *[""] * 4))
    print(f"{store}: {rows}", flush=True)
    return [[store, *cells] for cells in rows]


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


_QUIET = """Whole runs (`daybreakd snapshot run`) of {rows:,} Members of {leaders:,} Leaders on three days. Ratios
compare with the first day. Runs of later days also make deltas, and sign the statements of all accounts again. Other
resources have no rows.
"""

_MANY = """The same {rows:,} Members in few and in many Leaders, and without packs. *Files and packs* are new ones on
the local disk, with those of the state database. Ratios compare with the first row of the same day. Other resources
have no rows.
"""

_FILLED = f"""{{leaders:,}} Leaders with {{rows:,}} Members and rows in all nine resources. The bucket is OpenStack
Swift on the same machine, whose CPU time is not included. Term acceptances contain the snapshot's instant, so that
their files change every day. Links are those of some accounts in turn, {_LINKS_PER_SECOND:.0f} per second.
"""

_OPTIONS = {"rows": (2_000_000, "Members"), "leaders": (1_500, "Leaders of the smaller platform")}

QUIET_DAYS = Job(
    "quiet-days",
    "Quiet days",
    "whole runs with the same rows again, and with a tenth changed",
    _OPTIONS | {"leaders": (1_500, "Leaders")},
    _run_quiet,
)
MANY_LEADERS = Job(
    "many-leaders",
    "100,000 Leaders",
    "whole runs with 100,000 Leaders next to 1,500",
    _OPTIONS | {"many": (100_000, "Leaders of the larger platform")},
    _run_many,
    rounds=1,
)
