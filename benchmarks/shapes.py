"""Whole runs on platforms of different shapes, and on the following days, to derive the cost of a run, file and row."""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median

from benchmarks.chart import Bar, bar_chart
from benchmarks.job import Job, Section, table
from benchmarks.measure import measure_method, summarize
from benchmarks.snapshot_run import Run, cpus, make_service, peak_megabytes, snapshot_run, walls
from benchmarks.source import AS_OF, Shape, even_shape, make_shape

_LEADERS = 5_000
_MINIMAL = "minimal"
_TINY = ("tiny", "many-tiny")
_TINY_ROWS = 10.5
_DAY = timedelta(days=1)


def _tiny(leaders: int) -> Shape:
    return Shape(
        f"tiny-{leaders}", f"{leaders:,} Leaders with 1 to 20 Members", leaders,
        f"SELECT leader * 20 + n AS n, leader FROM range({leaders}) AS l(leader), range(1 + leader % 20) AS m(n)",
    )  # fmt: skip


def _shapes(rows: int) -> dict[str, Shape]:
    return {
        _MINIMAL: Shape(_MINIMAL, "one Leader with one Member", 1, "SELECT 0 AS n, 0 AS leader"),
        "tiny": _tiny(5_000),
        "many-tiny": _tiny(20_000),
        "big": Shape(
            f"big-{rows}", f"{rows:,} Members, {_LEADERS:,} Leaders, one of them with 60 %", _LEADERS,
            f"SELECT n, CASE WHEN n % 10 < 6 THEN 0 ELSE 1 + hash(n) % {_LEADERS - 1} END AS leader "
            f"FROM range({rows}) AS t(n)",
        ),
        "even": even_shape(rows, _LEADERS),
    }  # fmt: skip


def _run(options: argparse.Namespace) -> Section:
    sources = {name: make_shape(options.folder, shape) for name, shape in _shapes(options.rows).items()}
    # Members of every tenth Leader have another town: one in a hundred, and all.
    few = _moved(options, "few", "leader % 10 = 0 AND n % 100 = 7")
    all_ = _moved(options, "changed", "leader % 10 = 0")
    descriptions = {name: shape.description for name, shape in _shapes(options.rows).items()}
    descriptions |= {
        "same": "the next day, nothing changed",
        "few": "a day later, one row in a hundred changed in a tenth of the Leaders",
        "tenth": "a day later, all rows changed in a tenth of the Leaders",
    }
    runs: dict[str, list[Run]] = defaultdict(list)
    exports: dict[str, list[float]] = defaultdict(list)
    for number in range(options.rounds):
        for name, run in _round(options.out / f"{number}", sources, few, all_):
            runs[name].append(run)
            print(f"round {number + 1}, {descriptions[name]}: {run.usage.wall_seconds:.1f} s", flush=True)
        for name in (_MINIMAL, *_TINY):
            out = options.out / f"{number}" / f"export-{name}"
            out.mkdir(parents=True)
            exports[name].append(measure_method("daybreak", sources[name], out).wall_seconds)
    seconds = {descriptions[name]: median(walls(each)) for name, each in runs.items()}
    bars = [Bar(text, value, f"{value:.1f} s", highlighted=True) for text, value in seconds.items()]
    chart = bar_chart("Whole runs: seconds", bars)
    parts = [_INTRODUCTION, _table(runs, exports, descriptions), "", _UNITS, _units(runs, options.rows), "", _CHART]
    return Section("\n".join(parts), {"benchmarks-shapes": chart}, ("duckdb", "isal"))


def _moved(options: argparse.Namespace, name: str, condition: str) -> Path:
    town = f"CASE WHEN {condition} THEN 'New Town' ELSE 'Town ' || n % 307 END"
    return make_shape(options.folder, even_shape(options.rows, _LEADERS, name, town))


def _round(services: Path, sources: dict[str, Path], few: Path, all_: Path) -> Iterator[tuple[str, Run]]:
    for name, source in sources.items():
        config = make_service(services / name)
        yield name, snapshot_run(config, source, AS_OF)
    # The next runs use the service of the last shape, "even".
    yield "same", snapshot_run(config, sources["even"], AS_OF + _DAY)
    yield "few", snapshot_run(config, few, AS_OF + 2 * _DAY)
    yield "tenth", snapshot_run(config, all_, AS_OF + 3 * _DAY)


def _table(runs_by_shape: dict[str, list[Run]], exports: dict[str, list[float]], descriptions: dict[str, str]) -> str:
    minimal = median(walls(runs_by_shape[_MINIMAL]))
    full = runs_by_shape["even"]
    rows = []
    for name, runs in runs_by_shape.items():
        members = runs[0].resources["members"]
        written = 2 * (members.leaders - members.carried)
        per_file = export = ""
        if name in _TINY:
            per_file = f"{(median(walls(runs)) - minimal) / written * 1e6:,.0f}"
            export = f"{(median(exports[name]) - median(exports[_MINIMAL])) / written * 1e6:,.0f}"
        shares = ["", ""]
        if name in {"same", "few", "tenth"}:
            shares = [f"{median(of(runs)) / median(of(full)):.2f}" for of in (walls, cpus)]
        cells = [descriptions[name], f"{members.rows:,}", f"{2 * members.leaders:,}", f"{written:,}"]
        usage = summarize(walls(runs)), summarize(cpus(runs))
        rows.append([*cells, *usage, per_file, export, *shares, peak_megabytes(runs)])
    headings = ["Members", "Rows", "Files", "Written", "Time, s", "CPU, s", "µs per file", "Export"]
    return table([*headings, "Time, full", "CPU, full", "MB"], rows)


def _units(runs: dict[str, list[Run]], rows: int) -> str:
    """Return the cost per run, per Leader and per row, from the minimal run, the two tiny ones and the even one."""
    costs = []
    for of in (walls, cpus):
        minimal, tiny, many_tiny, even = (median(of(runs[name])) for name in (_MINIMAL, *_TINY, "even"))
        # Includes the rows of a tiny Leader, which are subtracted below.
        leader_and_rows = (many_tiny - tiny) / 15_000
        row = (even - minimal - _LEADERS * leader_and_rows) / (rows - _LEADERS * _TINY_ROWS)
        costs.append((minimal, (leader_and_rows - _TINY_ROWS * row) * 1e6, row * 1e6))
    names = "one run, s", "one Leader with rows in a resource, two files, µs", "one Member in two formats, µs"
    lines = [(name, f"{wall:,.1f}", f"{cpu:,.1f}") for name, wall, cpu in zip(names, *costs, strict=True)]
    return table(("Unit", "Time", "CPU"), lines)


_INTRODUCTION = """Whole runs (`daybreakd snapshot run`) with default settings: files on local disk are written, synced,
recorded in SQLite, verified and published. The platforms have only Members, not sorted. "µs per file" is the time
beyond that of the run with one Member, per written file; "Export" is its part for writing and syncing, without
database, verification and publication. "Full" columns are shares of a full run. Runs of later days also make deltas.
"""

_CHART = "![Seconds by shape](../images/benchmarks-shapes.svg)"

_UNITS = """Cost per unit, derived from these runs. [Capacity](../how-to/capacity.md) uses such units.
"""

JOB = Job(
    "shapes",
    "Whole runs",
    "whole runs with one big Leader, thousands of tiny ones, no changes, and few changes",
    {"rows": (1_000_000, "Members of the larger shapes")},
    _run,
)
