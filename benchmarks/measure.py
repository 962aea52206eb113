"""Measures a program in a separate process: elapsed time, CPU time and peak memory of its process tree."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Resources that a process tree used. `cpu_seconds` includes `server_seconds`, the CPU time of servers it used."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str
    server_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """Result of one method in one round. `reported` is what the method printed."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output_bytes: int
    reported: Mapping[str, Any]
    server_seconds: float = 0.0


def run_program(
    arguments: Sequence[str], *, servers: Sequence[int] = (), environment: Mapping[str, str] | None = None
) -> ProcessUsage:
    """Run a program to its end and measure it, start-up included.

    `servers` are process ids of running servers. The result includes their CPU time. It excludes their memory, which
    is configured. Raises CalledProcessError, with the end of the error output in a note.
    """
    peak = 0
    done = threading.Event()
    before = sum(cpu_of_tree(server) for server in servers)
    children_before = os.times()
    started = time.monotonic()
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # As an installed program: modules are not compiled in each run.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(environment or {})},
    ) as process:

        def watch() -> None:
            nonlocal peak
            while not done.wait(_SAMPLE_SECONDS):
                peak = max(peak, resident_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        output, error_output = process.communicate()
        wall = time.monotonic() - started
        done.set()
        watcher.join()
    if process.returncode:
        error = subprocess.CalledProcessError(process.returncode, list(arguments), output=output, stderr=error_output)
        error.add_note(error_output[-2000:])
        raise error
    children = os.times()
    child_seconds = children.children_user + children.children_system
    child_seconds -= children_before.children_user + children_before.children_system
    server_cpu = sum(cpu_of_tree(server) for server in servers) - before
    return ProcessUsage(wall, child_seconds + server_cpu, peak, output, server_cpu)


def measure_method(method: str, source: Path, out: Path, *, servers: Sequence[int] = ()) -> Measurement:
    """Run `python -m benchmarks.methods METHOD SOURCE OUT` into an empty folder. Raises CalledProcessError."""
    usage = run_program([sys.executable, "-m", "benchmarks.methods", method, str(source), str(out)], servers=servers)
    return measurement_of(usage, out, json.loads(usage.output.splitlines()[-1]))


def measurement_of(usage: ProcessUsage, out: Path, reported: Mapping[str, Any]) -> Measurement:
    """Return the measurement of a method that wrote to `out`. Values that it reported take precedence."""
    output_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return Measurement(
        reported.get("wall_seconds", usage.wall_seconds),
        reported.get("cpu_seconds", usage.cpu_seconds),
        usage.peak_bytes,
        reported.get("output_bytes", output_bytes),
        reported,
        usage.server_seconds,
    )


def summarize(values: Sequence[float], digits: int = 1) -> str:
    """Return the median, with minimum and maximum in parentheses if there are several values."""
    middle = f"{median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process tree."""
    resident = 0
    for process in _tree(pid):
        try:
            resident += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return resident


def cpu_of_tree(pid: int) -> float:
    """Return the CPU seconds of a process tree so far, including ended children."""
    used = 0.0
    for process in _tree(pid):
        try:
            used += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return used
