"""One way, in a process of its own: seconds on the wall and on the cores, and the most memory its tree held."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """What one way took. Seconds are already multiplied by `scale` when only that part of the job was done."""

    way: str
    name: str
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output_bytes: int
    scale: int = 1
    check: str = ""

    def with_check(self, check: str) -> Measured:
        return dataclasses.replace(self, check=check)


def measure(way: str, name: str, source: Path, out: Path) -> Measured:
    """Runs `python -m benchmarks.ways WAY SOURCE OUT`, start-up included. Raises CalledProcessError."""
    peak = 0
    done = threading.Event()
    started = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ways", way, str(source), str(out)], stdout=subprocess.PIPE, text=True
    ) as process:

        def watch() -> None:
            nonlocal peak
            own = psutil.Process(process.pid)
            while not done.wait(_SAMPLE_SECONDS):
                try:
                    tree = [own, *own.children(recursive=True)]
                    peak = max(peak, sum(one.memory_info().rss for one in tree))
                except psutil.NoSuchProcess:
                    continue

        watcher = threading.Thread(target=watch)
        watcher.start()
        said, _ = process.communicate()
        done.set()
        watcher.join()
    wall = time.monotonic() - started
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, way)
    told = json.loads(said.splitlines()[-1])
    scale = told.get("scale", 1)
    return Measured(
        way,
        name,
        told.get("wall_seconds", wall) * scale,
        told["cpu_seconds"] * scale,
        max(peak, told["peak_bytes"]),
        told.get("output_bytes", sum(f.stat().st_size for f in out.rglob("*") if f.is_file())) * scale,
        scale,
    )
