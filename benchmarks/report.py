"""The table and the picture."""

from __future__ import annotations

import os
import platform
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.measure import Measured

_MB = 1_000_000
_BAR_HEIGHT = 26
_LABEL_WIDTH = 330
_BARS_WIDTH = 460


def table(measured: list[Measured]) -> str:
    """Markdown: seconds, memory, bytes and how many times longer than Daybreak each way took."""
    ours = next((one for one in measured if one.way.startswith("daybreak")), measured[0])
    lines = [
        "| Way | Wall, s | Both cores, CPU s | Times ours, wall | Times ours, CPU | Peak MB | Output MB | Output |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    lines += [
        f"| {one.name}{f' (1/{one.scale} done, multiplied)' if one.scale > 1 else ''} "
        f"| {one.wall_seconds:.1f} | {one.cpu_seconds:.1f} "
        f"| {one.wall_seconds / ours.wall_seconds:.2f} | {one.cpu_seconds / ours.cpu_seconds:.2f} "
        f"| {one.peak_bytes / _MB:,.0f} | {one.output_bytes / _MB:,.0f} | {one.check} |"
        for one in measured
    ]
    return "\n".join(lines)


def write(docs: Path, title: str, measured: list[Measured], now: datetime) -> None:
    """`docs/benchmarks.md` and `docs/images/benchmarks.svg`, with machine, versions, load and date."""
    (docs / "images").mkdir(parents=True, exist_ok=True)
    (docs / "images" / "benchmarks.svg").write_text(picture(measured), "utf-8")
    packages = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "polars", "isal", "zlib-ng", "nanoarrow"))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    (docs / "benchmarks.md").write_text(
        f"""# Benchmarks

Made by `make bench BENCH_ARGS="members --write"` on {now:%Y-%m-%d %H:%M} UTC. Each way runs in a process of its own,
start-up included; its files are read to the end and their rows counted afterwards. The job: one gzip CSV and one gzip
JSON file per Leader, from shuffled (or clustered) Parquet.

**{title}**

{table(measured)}

![Seconds on the cores](images/benchmarks.svg)

- Machine: {_machine()}, Python {platform.python_version()}.
- Versions: {packages}.
- Load average when the last way ended: {load}. On a machine that does other work too, seconds on the wall say more
  about the others than about the way; seconds on the cores are what a way used itself.
- "Compression alone" takes the finished text and compresses it with igzip level 2 in two threads: the floor under
  every way that writes the same bytes.
- "A tenth changed": fingerprints of nine in ten Leaders match, so their files would be carried over.
- Daybreak's seconds include the survey of the rows (fingerprints, NULLs, unexpected values), SHA-256 of file and
  content, and one sync of everything at the end. The others neither sum nor sync.
- DuckDB, Polars and plain Python write one JSON record a line where Daybreak writes an array; DuckDB and Polars quote
  a little differently. The rows are the same.
""",
        "utf-8",
    )


def picture(measured: list[Measured]) -> str:
    """Bars of CPU seconds, shortest first."""
    shown = sorted(measured, key=lambda one: one.cpu_seconds)
    longest = max(one.cpu_seconds for one in shown)
    height = _BAR_HEIGHT * len(shown) + 20
    width = _LABEL_WIDTH + _BARS_WIDTH + 70
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="13"><title>CPU seconds by way</title>'
            f'<rect width="{width}" height="{height}" fill="#fff"/>'
        )
    ]
    for number, one in enumerate(shown):
        top = 10 + number * _BAR_HEIGHT
        length = max(2, _BARS_WIDTH * one.cpu_seconds / longest)
        colour = "#c2410c" if one.way.startswith("daybreak") else "#94a3b8"
        parts.append(
            f'<text x="{_LABEL_WIDTH - 10}" y="{top + 15}" text-anchor="end">{one.name}</text>'
            f'<rect x="{_LABEL_WIDTH}" y="{top + 3}" width="{length:.0f}" height="{_BAR_HEIGHT - 8}" fill="{colour}"/>'
            f'<text x="{_LABEL_WIDTH + length + 6:.0f}" y="{top + 15}">{one.cpu_seconds:.1f} s</text>'
        )
    return "".join(parts) + "</svg>\n"


def _machine() -> str:
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
