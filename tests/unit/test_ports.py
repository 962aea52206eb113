"""Ports of the programs that tests start: no two test processes use the same."""

import subprocess
import sys
from pathlib import Path

from tests.parts.ports import END_PORT, FIRST_PORT, RANGE_SIZE, claim_range, free_port

_CHOOSE = "from tests.parts.ports import free_port; print(free_port(), flush=True); input()"


def test_parallel_processes_choose_different_ports(project_folder: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", _CHOOSE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         cwd=project_folder)
        for _ in range(4)
    ]  # fmt: skip
    chosen = [int(process.stdout.readline()) for process in processes if process.stdout]
    for process in processes:
        process.communicate("\n")
    ranges = {(port - FIRST_PORT) // RANGE_SIZE for port in [*chosen, free_port()]}
    assert len(ranges) == 5


def test_claimed_range_is_not_claimed_again() -> None:
    locks, claimed = zip(*(claim_range() for _ in range(20)), strict=True)
    for lock in locks:
        lock.close()
    ports = {port for each in claimed for port in each}
    assert len(ports) == 20 * (RANGE_SIZE - 1)
    assert FIRST_PORT < min(ports) < max(ports) < END_PORT


def test_ports_of_a_process_repeat_late(project_folder: Path) -> None:
    # In a new process: services of other tests use ports of this one's range.
    choose = (
        "from tests.parts.ports import RANGE_SIZE, free_port; print(len({free_port() for _ in range(RANGE_SIZE - 1)}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", choose], cwd=project_folder, check=True, capture_output=True, text=True
    )
    assert int(found.stdout) == RANGE_SIZE - 1
