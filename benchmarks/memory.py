"""How much memory a whole run holds under `snapshot.memory_limit`, whatever the rows look like."""

from __future__ import annotations

import argparse
import shutil
import subprocess

from benchmarks.job import Job, Section
from benchmarks.machine import cores
from benchmarks.measure import spread
from benchmarks.source import AS_OF, Shape, make_shape
from benchmarks.whole_run import make_service, snapshot_run

_LIMIT_BYTES = 1_000_000_000
_ROW_GROUP_ROWS = 2_048
_TEN_MB = "repeat(md5('cell' || n), 312500)"


def _shapes(share: float) -> list[Shape]:
    def of(number: int) -> int:
        return max(1, round(number * share))

    rows, leaders, some, cells, wide = of(5_000_000), of(100_000), of(100_000), of(20), of(100_000)
    of_one = of(100)
    return [
        Shape("one", f"one Leader with {rows:,} Members", 1, f"SELECT n, 0 AS leader FROM range({rows}) AS t(n)"),
        Shape(
            "many", f"{leaders:,} Leaders with 20 Members each", leaders,
            f"SELECT n, hash(n) % {leaders} AS leader FROM range({leaders * 20}) AS t(n)",
        ),
        Shape(
            "cells", f"{some:,} Members, one in a thousand with a cell of 10 MB", 10,
            f"SELECT n, hash(n) % 10 AS leader FROM range({some}) AS t(n)",
            text=f"CASE WHEN n % 1000 = 0 THEN {_TEN_MB} ELSE 'Town' END", row_group_rows=_ROW_GROUP_ROWS,
        ),
        Shape(
            "neighbours", f"{cells:,} Members side by side, each with a cell of 10 MB", 10,
            f"SELECT n, n % 10 AS leader FROM range({cells}) AS t(n)", text=_TEN_MB,
            row_group_rows=_ROW_GROUP_ROWS,
        ),
        Shape(
            "parts", f"{of_one:,} Members of one Leader, each with a cell of 10 MB, in files of five; ids as text", 1,
            f"SELECT n, 0 AS leader FROM range({of_one}) AS t(n)", text=_TEN_MB, part_rows=5,
        ),
        Shape(
            "wide", f"{wide:,} Members with seven cells of 2 KB each", 100,
            f"SELECT n, hash(n) % 100 AS leader FROM range({wide}) AS t(n)", every_text="repeat(md5('wide' || n), 64)",
            row_group_rows=_ROW_GROUP_ROWS,
        ),
    ]  # fmt: skip


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--share", type=float, default=1.0, help="of the sizes; less than 1 to try the job out")
    parser.add_argument("--cases", default="one,many,cells,neighbours,parts,wide")


def _run(options: argparse.Namespace) -> Section:
    lines = [
        "| The source | Rows | Files | Wall, s | CPU, s | Peak MB | Under the limit |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for shape in _shapes(options.share):
        if shape.name not in options.cases.split(","):
            continue
        source = make_shape(options.folder / f"memory-{options.share:g}", shape)
        peaks, walls, cpus = [], [], []
        for _ in range(options.rounds):
            config = make_service(options.folder / "service")
            try:
                done = snapshot_run(config, source, AS_OF, {"SNAPSHOT__MEMORY_LIMIT": "1GB"})
            except subprocess.CalledProcessError as error:
                print(f"{shape.about}: {error.stderr[-600:]}", flush=True)
                lines.append(f"| {shape.about} | | | | | | **the run failed** |")
                break
            peaks.append(done.used.peak_bytes)
            walls.append(done.used.wall_seconds)
            cpus.append(done.used.cpu_seconds)
            print(f"{shape.about}: {peaks[-1] / 1e6:,.0f} MB, {walls[-1]:.1f} s", flush=True)
        else:
            holds = "yes" if max(peaks) <= _LIMIT_BYTES else f"**no**, by {(max(peaks) - _LIMIT_BYTES) / 1e6:,.0f} MB"
            lines.append(
                f"| {shape.about} | {done.rows:,} | {done.files:,} | {spread(walls)} | {spread(cpus)} "
                f"| {max(peaks) / 1e6:,.0f} | {holds} |"
            )
    shutil.rmtree(options.folder / "service", ignore_errors=True)
    return Section("\n".join([_ABOUT, *lines]), packages=("duckdb",))


_ABOUT = f"""Whole `daybreakd snapshot run`s with `snapshot.memory_limit` at its default of 1 GB and one
thread a core ({cores()} here), of platforms that have Members and nothing else.
"""

JOB = Job(
    "memory",
    "Memory under its limit",
    "the most memory a whole run holds, with one large Leader, very many, large cells and wide rows",
    _add_options,
    _run,
    rounds=1,
)
