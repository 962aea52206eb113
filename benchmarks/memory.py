"""Peak memory of whole runs under `snapshot.memory_limit`, for different shapes of data."""

import argparse
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from benchmarks.job import Job, Section, table
from benchmarks.machine import cores
from benchmarks.measure import summarize
from benchmarks.snapshot_run import Run, cpus, make_service, peak_megabytes, snapshot_run, walls
from benchmarks.source import AS_OF, Shape, make_shape, make_source

_HEADINGS = ("Source", "Rows", "Files", "Time, s", "CPU, s", "Peak MB", "Within the limit")
_LIMIT_BYTES = 1_000_000_000
_ROW_GROUP_ROWS = 2_048
_ALL_RESOURCES = 8_000_000, 5_000, 1_000_000
"""Members, Leaders and messages."""
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


def _run(options: argparse.Namespace) -> Section:
    rows: list[Sequence[str]] = []
    folder, cases = options.folder / f"memory-{options.scale:g}", options.cases.split(",")
    for shape in _shapes(options.scale):
        if shape.name in cases:
            rows += _rows(options, shape.description, make_shape(folder, shape), days=1)
    if "all" in cases:
        members, leaders, messages = (max(1, round(number * options.scale)) for number in _ALL_RESOURCES)
        source = make_source(options.folder, members, leaders, messages, "shuffled")
        description = f"{members:,} Members of {leaders:,} Leaders, with all nine resources"
        rows += _rows(options, description, source, days=2)
    return Section(f"{_INTRODUCTION}\n{table(_HEADINGS, rows)}", packages=("duckdb",))


def _rows(options: argparse.Namespace, description: str, source: Path, *, days: int) -> list[Sequence[str]]:
    """Return a row for each day. Runs of later days make deltas."""
    descriptions = [f"{description}, the next day" if day else description for day in range(days)]
    runs: list[list[Run]] = [[] for _ in descriptions]
    try:
        for _ in range(options.rounds):
            config = make_service(options.out)
            for day, text in enumerate(descriptions):
                as_of = AS_OF + timedelta(days=day)
                run = snapshot_run(config, source, as_of, {"SNAPSHOT__MEMORY_LIMIT": "1GB"})
                runs[day].append(run)
                print(f"{text}: {run.usage.peak_bytes / 1e6:,.0f} MB, {run.usage.wall_seconds:.1f} s", flush=True)
    except subprocess.CalledProcessError as error:
        print(f"{description}: {error.stderr[-600:]}", flush=True)
        return [[description, *[""] * 5, "**the run failed**"]]
    return [_cells(text, of_day) for text, of_day in zip(descriptions, runs, strict=True)]


def _cells(description: str, runs: list[Run]) -> Sequence[str]:
    excess = max(run.usage.peak_bytes for run in runs) - _LIMIT_BYTES
    within = "yes" if excess <= 0 else f"**no**, over by {excess / 1e6:,.0f} MB"
    usage = summarize(walls(runs)), summarize(cpus(runs)), peak_megabytes(runs)
    return [description, f"{runs[-1].rows:,}", f"{runs[-1].files:,}", *usage, within]


_INTRODUCTION = f"""Whole runs (`daybreakd snapshot run`) with the default `snapshot.memory_limit` of 1 GB, and one
thread per core ({cores()} here). All platforms but the last have only Members.
"""

JOB = Job(
    "memory",
    "Memory limit",
    "peak memory of whole runs with one large Leader, many Leaders, large cells, wide rows, and all resources",
    {
        "scale": (1.0, "factor for all sizes; less than 1 to try the job"),
        "cases": ("one,many,cells,neighbors,parts,wide,all", "sources, separated by commas"),
    },
    _run,
    rounds=1,
)
