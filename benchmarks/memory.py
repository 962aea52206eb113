"""Peak memory of whole runs under `snapshot.memory_limit`, for different shapes of data."""

from __future__ import annotations

import argparse
import shutil
import subprocess

from benchmarks.job import Job, Section
from benchmarks.machine import cores
from benchmarks.measure import summarize
from benchmarks.snapshot_run import make_service, snapshot_run
from benchmarks.source import AS_OF, Shape, make_shape

_LIMIT_BYTES = 1_000_000_000
_ROW_GROUP_ROWS = 2_048
_TEN_MB = "repeat(md5('cell' || n), 312500)"


def _shapes(scale: float) -> list[Shape]:
    def scaled(number: int) -> int:
        return max(1, round(number * scale))

    rows, leaders, large = scaled(5_000_000), scaled(100_000), scaled(100_000)
    cells, parts, wide = scaled(20), scaled(100), scaled(100_000)
    return [
        Shape("one", f"one Leader with {rows:,} Members", 1, f"SELECT n, 0 AS leader FROM range({rows}) AS t(n)"),
        Shape(
            "many", f"{leaders:,} Leaders with 20 Members each", leaders,
            f"SELECT n, hash(n) % {leaders} AS leader FROM range({leaders * 20}) AS t(n)",
        ),
        Shape(
            "cells", f"{large:,} Members, one in a thousand with a cell of 10 MB", 10,
            f"SELECT n, hash(n) % 10 AS leader FROM range({large}) AS t(n)",
            text=f"CASE WHEN n % 1000 = 0 THEN {_TEN_MB} ELSE 'Town' END", row_group_rows=_ROW_GROUP_ROWS,
        ),
        Shape(
            "neighbors", f"{cells:,} adjacent Members, each with a cell of 10 MB", 10,
            f"SELECT n, n % 10 AS leader FROM range({cells}) AS t(n)", text=_TEN_MB,
            row_group_rows=_ROW_GROUP_ROWS,
        ),
        Shape(
            "parts", f"{parts:,} Members of one Leader, each with a cell of 10 MB, in files of five; ids as text", 1,
            f"SELECT n, 0 AS leader FROM range({parts}) AS t(n)", text=_TEN_MB, part_rows=5,
        ),
        Shape(
            "wide", f"{wide:,} Members with seven cells of 2 KB each", 100,
            f"SELECT n, hash(n) % 100 AS leader FROM range({wide}) AS t(n)", every_text="repeat(md5('wide' || n), 64)",
            row_group_rows=_ROW_GROUP_ROWS,
        ),
    ]  # fmt: skip


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=1.0, help="factor for all sizes; less than 1 to try the job")
    parser.add_argument("--cases", default="one,many,cells,neighbors,parts,wide")


def _run(options: argparse.Namespace) -> Section:
    lines = [
        "| Source | Rows | Files | Time, s | CPU, s | Peak MB | Within the limit |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for shape in _shapes(options.scale):
        if shape.name not in options.cases.split(","):
            continue
        source = make_shape(options.folder / f"memory-{options.scale:g}", shape)
        peaks, walls, cpus = [], [], []
        for _ in range(options.rounds):
            config = make_service(options.folder / "service")
            try:
                result = snapshot_run(config, source, AS_OF, {"SNAPSHOT__MEMORY_LIMIT": "1GB"})
            except subprocess.CalledProcessError as error:
                print(f"{shape.description}: {error.stderr[-600:]}", flush=True)
                lines.append(f"| {shape.description} | | | | | | **the run failed** |")
                break
            peaks.append(result.usage.peak_bytes)
            walls.append(result.usage.wall_seconds)
            cpus.append(result.usage.cpu_seconds)
            print(f"{shape.description}: {peaks[-1] / 1e6:,.0f} MB, {walls[-1]:.1f} s", flush=True)
        else:
            within = (
                "yes" if max(peaks) <= _LIMIT_BYTES else f"**no**, over by {(max(peaks) - _LIMIT_BYTES) / 1e6:,.0f} MB"
            )
            lines.append(
                f"| {shape.description} | {result.rows:,} | {result.files:,} | {summarize(walls)} | {summarize(cpus)} "
                f"| {max(peaks) / 1e6:,.0f} | {within} |"
            )
    shutil.rmtree(options.folder / "service", ignore_errors=True)
    return Section("\n".join([_INTRODUCTION, *lines]), packages=("duckdb",))


_INTRODUCTION = f"""Whole runs (`daybreakd snapshot run`) with the default `snapshot.memory_limit` of 1 GB, and one
thread per core ({cores()} here). The platforms have only Members.
"""

JOB = Job(
    "memory",
    "Memory limit",
    "peak memory of whole runs with one large Leader, many Leaders, large cells and wide rows",
    _add_options,
    _run,
    rounds=1,
)
