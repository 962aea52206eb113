"""The machine on which a benchmark ran: hardware, versions and load."""

import os
import platform
from pathlib import Path

ENGINE_MEMORY_BYTES = 400_000_000
"""Memory limit of the engine in a builder with the default `snapshot.memory_limit` of 1 GB."""


def describe_machine() -> str:
    """Return processor, cores, memory, operating system and Python version in one line."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{_processor()}, {cores()} cores, {memory_bytes / 1e9:.0f} GB of memory, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def load_average() -> str:
    """Return the load average of the last 1, 5 and 15 minutes."""
    return ", ".join(f"{average:.1f}" for average in os.getloadavg())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
