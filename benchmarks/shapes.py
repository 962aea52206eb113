"""Whole runs over platforms of different shapes, and over the day after: what a run, a file and a change cost."""

from __future__ import annotations

import argparse
import shutil
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median

from benchmarks.job import Job, Section
from benchmarks.measure import measure, spread
from benchmarks.picture import Bar, bars
from benchmarks.source import AS_OF, Shape, make_shape
from benchmarks.whole_run import Run, make_service, snapshot_run

_LEADERS = 5_000
_NOTHING = "nothing"
_TINY = ("tiny", "tinier")
_TINY_ROWS = 10.5
_DAY = timedelta(days=1)


def _tiny(leaders: int) -> Shape:
    return Shape(
        f"tiny-{leaders}", f"{leaders:,} Leaders with 1 to 20 Members", leaders,
        f"SELECT leader * 20 + n AS n, leader FROM range({leaders}) AS l(leader), range(1 + leader % 20) AS m(n)",
    )  # fmt: skip


def _even(name: str, rows: int, text: str | None = None) -> Shape:
    return Shape(
        f"{name}-{rows}", f"{rows:,} Members, {_LEADERS:,} Leaders of one size", _LEADERS,
        f"SELECT n, hash(n) % {_LEADERS} AS leader FROM range({rows}) AS t(n)", text=text,
    )  # fmt: skip


def _shapes(rows: int) -> dict[str, Shape]:
    return {
        _NOTHING: Shape(_NOTHING, "one Leader with one Member", 1, "SELECT 0 AS n, 0 AS leader"),
        "tiny": _tiny(5_000),
        "tinier": _tiny(20_000),
        "big": Shape(
            f"big-{rows}", f"{rows:,} Members, {_LEADERS:,} Leaders, one of them with 60 %", _LEADERS,
            f"SELECT n, CASE WHEN n % 10 < 6 THEN 0 ELSE 1 + hash(n) % {_LEADERS - 1} END AS leader "
            f"FROM range({rows}) AS t(n)",
        ),
        "even": _even("even", rows),
    }  # fmt: skip


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000, help="Members of the larger shapes")


def _run(options: argparse.Namespace) -> Section:
    sources = {name: make_shape(options.folder, shape) for name, shape in _shapes(options.rows).items()}
    # What one Leader in ten has is another town for each of its Members.
    moved = "CASE WHEN leader % 10 = 0 THEN 'New Town' ELSE 'Town ' || n % 307 END"
    changed = make_shape(options.folder, _even("changed", options.rows, moved))
    abouts = {name: shape.about for name, shape in _shapes(options.rows).items()}
    abouts |= {"same": "the same on the next day, nothing changed", "tenth": "the day after, a tenth changed"}
    found: dict[str, list[Run]] = defaultdict(list)
    exports: dict[str, list[float]] = defaultdict(list)
    # Nothing is removed before the end: ext4 takes longer to make files for minutes after many were removed.
    made = options.folder / "made"
    shutil.rmtree(made, ignore_errors=True)
    for number in range(options.rounds):
        for name, run in _round(made / f"{number}", sources, changed):
            found[name].append(run)
            print(f"round {number + 1}, {abouts[name]}: {run.used.wall_seconds:.1f} s", flush=True)
        for name in (_NOTHING, *_TINY):
            out = made / f"{number}" / f"export-{name}"
            out.mkdir(parents=True)
            exports[name].append(measure("daybreak", sources[name], out).wall_seconds)
    shutil.rmtree(made)
    picture = bars(
        "Whole runs: seconds on the wall",
        [Bar(abouts[name], _wall(runs), f"{_wall(runs):.1f} s", ours=True) for name, runs in found.items()],
    )
    parts = [_ABOUT, _table(found, exports, abouts), "", _UNITS, _units(found, options.rows), "", _SHOWN]
    body = "\n".join(parts)
    return Section(body, {"benchmarks-shapes": picture}, ("duckdb", "isal"))


def _round(services: Path, sources: dict[str, Path], changed: Path) -> Iterator[tuple[str, Run]]:
    for name, source in sources.items():
        config = make_service(services / name)
        yield name, snapshot_run(config, source, AS_OF)
    # The service of the last one, "even", goes on.
    yield "same", snapshot_run(config, sources["even"], AS_OF + _DAY)
    yield "tenth", snapshot_run(config, changed, AS_OF + 2 * _DAY)


def _table(found: dict[str, list[Run]], exports: dict[str, list[float]], abouts: dict[str, str]) -> str:
    idle = _wall(found[_NOTHING])
    full = found["even"]
    lines = [
        "| Members | Rows | Files | Written | Wall, s | CPU, s | µs a file | Export | Of a full run | CPU | Peak MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, runs in found.items():
        members = runs[0].resources["members"]
        written = 2 * (members.leaders - members.carried)
        each, export = "", ""
        if name in _TINY:
            each = f"{(_wall(runs) - idle) / written * 1e6:,.0f}"
            export = f"{(median(exports[name]) - median(exports[_NOTHING])) / written * 1e6:,.0f}"
        shares = ["", ""]
        if name in {"same", "tenth"}:
            shares = [f"{of(runs) / of(full):.2f}" for of in (_wall, _cpu)]
        lines.append(
            f"| {abouts[name]} | {members.rows:,} | {2 * members.leaders:,} | {written:,} "
            f"| {spread([run.used.wall_seconds for run in runs])} | {spread([run.used.cpu_seconds for run in runs])} "
            f"| {each} | {export} | {' | '.join(shares)} | {max(run.used.peak_bytes for run in runs) / 1e6:,.0f} |"
        )
    return "\n".join(lines)


def _units(found: dict[str, list[Run]], rows: int) -> str:
    """What a run costs by itself, for each Leader of a resource, and for each row: the three that explain the runs over
    nothing, over the two tiny platforms and over the even one.
    """
    lines = ["| Unit | Wall | CPU |", "|---|--:|--:|"]
    costs = []
    for of in (_wall, _cpu):
        nothing, tiny, tinier, even = (of(found[name]) for name in (_NOTHING, *_TINY, "even"))
        # A tiny Leader's rows come with it: taken out once a row's cost is known.
        leader_and_rows = (tinier - tiny) / 15_000
        row = (even - nothing - _LEADERS * leader_and_rows) / (rows - _LEADERS * _TINY_ROWS)
        costs.append((nothing, leader_and_rows - _TINY_ROWS * row, row))
    for name, wall, cpu in zip(
        ("a run by itself, s", "a Leader with rows in a resource, two files, µs", "a Member in two formats, µs"),
        *costs,
        strict=True,
    ):
        scale = 1 if name.endswith(" s") else 1e6
        lines.append(f"| {name} | {wall * scale:,.1f} | {cpu * scale:,.1f} |")
    return "\n".join(lines)


def _cpu(runs: list[Run]) -> float:
    return median(run.used.cpu_seconds for run in runs)


def _wall(runs: list[Run]) -> float:
    return median(run.used.wall_seconds for run in runs)


_ABOUT = """Whole `daybreakd snapshot run`s as the service makes them by itself: files on local disk, made, synced,
written down in SQLite, read back in full and published. Platforms have Members and nothing else, in no order. The
microseconds of a file are those of the run less those of the run over one Member, by files written; "export" is
the same of the files' making and sync, without the database, the reading back and the publication.
"""

_SHOWN = "![Seconds by shape](images/benchmarks-shapes.svg)"

_UNITS = """What explains these runs, and what [capacity](capacity.md) reckons with:
"""

JOB = Job(
    "shapes",
    "Whole runs: shapes of platforms, and the day after",
    "whole runs with one big Leader, thousands of tiny ones, nothing changed, a tenth changed",
    _add_options,
    _run,
)
