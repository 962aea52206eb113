"""One program in a process of its own: seconds on the wall and on the cores, and the most memory its tree held."""

from __future__ import annotations

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
class Used:
    """What a program's whole tree of processes used. `cpu_seconds` holds `server_seconds`, which are those of the
    servers that worked for it.
    """

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str
    server_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What one round of one way took, and what it told."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output_bytes: int
    told: Mapping[str, Any]
    server_seconds: float = 0.0


def run(
    arguments: Sequence[str],
    *,
    servers: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Used:
    """Runs a program to its end, start-up included. `servers` are processes started before, whose trees' seconds count
    too; their memory does not, which is what they were given. Raises CalledProcessError, with the end of what the
    program said in a note.
    """
    peak = 0
    done = threading.Event()
    before = sum(_cpu_of_tree(server) for server in servers)
    children_before = os.times()
    started = time.monotonic()
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **(environment or {})},
    ) as process:

        def watch() -> None:
            nonlocal peak
            while not done.wait(_SAMPLE_SECONDS):
                peak = max(peak, _resident_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        said, complaints = process.communicate()
        wall = time.monotonic() - started
        done.set()
        watcher.join()
    if process.returncode:
        error = subprocess.CalledProcessError(process.returncode, list(arguments), output=said, stderr=complaints)
        error.add_note(complaints[-2000:])
        raise error
    children = os.times()
    own = children.children_user + children.children_system
    own -= children_before.children_user + children_before.children_system
    served = sum(_cpu_of_tree(server) for server in servers) - before
    return Used(wall, own + served, peak, said, served)


def measure(way: str, source: Path, out: Path, *, servers: Sequence[int] = ()) -> Measured:
    """Runs `python -m benchmarks.ways WAY SOURCE OUT` into an empty folder. Raises CalledProcessError."""
    used = run([sys.executable, "-m", "benchmarks.ways", way, str(source), str(out)], servers=servers)
    return measured(used, out, json.loads(used.output.splitlines()[-1]))


def measured(used: Used, out: Path, told: Mapping[str, Any]) -> Measured:
    """What a way used that wrote into `out`; what it told of its own seconds and bytes goes before."""
    return Measured(
        told.get("wall_seconds", used.wall_seconds),
        told.get("cpu_seconds", used.cpu_seconds),
        used.peak_bytes,
        told.get("output_bytes", size_of(out)),
        told,
        used.server_seconds,
    )


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The median, and the least and the most in brackets when there are several."""
    middle = f"{median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def _tree(pid: int) -> list[psutil.Process]:
    try:
        own = psutil.Process(pid)
        return [own, *own.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _resident_bytes(pid: int) -> int:
    held = 0
    for process in _tree(pid):
        try:
            held += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return held


def _cpu_of_tree(pid: int) -> float:
    """Seconds of a tree so far, those of its ended children included."""
    used = 0.0
    for process in _tree(pid):
        try:
            used += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return used
