"""Plugin that adds up where tests spend processor time: `make test TEST_ARGS="-p tests.parts.costs"`.

It counts the test process and all its descendants, so servers of a whole run are counted where they work. Other load
on the machine does not change these figures, unlike durations.
"""

import contextlib
import ctypes
import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_PHASES = ("setup", "call", "teardown")
_FILES = 40
_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_configure() -> None:
    # Processes whose parent has ended stay descendants.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _own_seconds() -> float:
    """Return the processor time of this process, and of the processes that it has waited for."""
    waited_for = os.times()
    return time.process_time() + waited_for.children_user + waited_for.children_system


def _descendants_seconds() -> float:
    """Return the processor time of the descendants, and of the processes that each of them has waited for."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name, which may contain spaces: state, parent, and at 11 to 14 the times (proc(5)).
            fields = file.read_text(errors="replace").rpartition(")")[2].split()
            pid = int(file.parent.name)
            children[int(fields[1])].append(pid)
            ticks[pid] = sum(map(int, fields[11:15]))
    found, waiting = 0, list(children[os.getpid()])
    while waiting:
        pid = waiting.pop()
        found += ticks[pid]
        waiting += children[pid]
    return found / _TICKS


def _counted(item: pytest.Item, phase: str) -> Generator[None, object, object]:
    # The order leaves out the time of the search for descendants.
    begun = _descendants_seconds() + _own_seconds()
    try:
        return (yield)
    finally:
        item.user_properties.append((phase, _own_seconds() + _descendants_seconds() - begun))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _counted(item, "setup"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _counted(item, "call"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from _counted(item, "teardown"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    folders: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    files: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    # The report of a teardown contains the figures of all phases, and is in no category unless it failed.
    for report in terminalreporter.stats.get("", []):
        for phase, seconds in report.user_properties if report.when == "teardown" else ():
            if phase in _PHASES:
                files[report.nodeid.partition("::")[0]][phase] += seconds
    for name, phases in files.items():
        for phase, seconds in phases.items():
            folders[name.rpartition("/")[0]][phase] += seconds
    _print(terminalreporter, "processor seconds by folder: setup, call, teardown", folders, len(folders))
    _print(terminalreporter, "processor seconds by file: setup, call, teardown", files, _FILES)


def _print(reporter: pytest.TerminalReporter, title: str, costs: dict[str, dict[str, float]], limit: int) -> None:
    reporter.section(title)
    for name, phases in sorted(costs.items(), key=lambda cost: -sum(cost[1].values()))[:limit]:
        figures = " ".join(f"{phases[phase]:8.1f}" for phase in _PHASES)
        reporter.write_line(f"{sum(phases.values()):8.1f} {figures}  {name}")
