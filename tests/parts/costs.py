"""Plugin that adds up where tests spend processor time: `make test TEST_ARGS="-p tests.parts.costs"`.

It counts the test process and the children that have ended. Other load on the machine does not change these figures,
unlike durations. Servers of a whole run are not counted.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator

import pytest

_PHASES = ("setup", "call", "teardown")
_FILES = 40


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _counted(item: pytest.Item, phase: str) -> Generator[None, object, object]:
    begun = _cpu_seconds()
    try:
        return (yield)
    finally:
        item.user_properties.append((phase, _cpu_seconds() - begun))


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
