"""The machine, its versions and how busy it is: what a figure means nothing without."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path


def machine() -> str:
    """Processor, cores, memory, system and Python in one line."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{_processor()}, {cores()} cores, {memory_bytes / 1e9:.0f} GB of memory, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))


def versions(packages: Iterable[str]) -> list[str]:
    """`duckdb 1.5.0` for each package. Raises PackageNotFoundError."""
    return [f"{name} {version(name)}" for name in packages]


def load() -> str:
    """Processes that wanted a core in the last 1, 5 and 15 minutes."""
    return ", ".join(f"{average:.1f}" for average in os.getloadavg())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
