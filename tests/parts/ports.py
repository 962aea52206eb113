"""TCP ports of 127.0.0.1 for the programs that tests start."""

import functools
import itertools
import random
import socket
from collections.abc import Iterator

# The kernel takes the local ports of outgoing connections from 32768 and up. A port below is still free when the
# program under test opens it, many seconds after it was chosen. Browsers refuse some of the ports below 20000.
FIRST_PORT, END_PORT = 20_000, 32_768
# Each test process has a separate range, also next to test runs of other checkouts and users.
RANGE_SIZE = 128


def _bind(port: int) -> socket.socket | None:
    """Return a socket that occupies the port without listening, or None if the port is in use."""
    occupied = socket.socket()
    try:
        occupied.bind(("127.0.0.1", port))
    except OSError:
        occupied.close()
        return None
    return occupied


def claim_range() -> tuple[socket.socket, range]:
    """Claim a range of ports for this process.

    The first port of a range is its lock: the process that binds it owns the others. The kernel releases it when the
    process ends. In random order, because other programs may use single ports of a range.
    """
    starts = range(FIRST_PORT, END_PORT - RANGE_SIZE + 1, RANGE_SIZE)
    for start in random.sample(starts, len(starts)):
        lock = _bind(start)
        if lock is not None:
            return lock, range(start + 1, start + RANGE_SIZE)
    raise OSError(f"{len(starts)} test processes already use all ports from {FIRST_PORT} to {END_PORT - 1}")


@functools.cache
def _own_ports() -> tuple[socket.socket, Iterator[int]]:
    lock, ports = claim_range()
    return lock, itertools.cycle(ports)


def free_port() -> int:
    """Return a free port that no other test process chooses."""
    _, ports = _own_ports()
    for port in itertools.islice(ports, RANGE_SIZE - 1):
        probe = _bind(port)
        if probe is not None:
            probe.close()
            return port
    raise OSError(f"all {RANGE_SIZE - 1} ports of this process are in use")


def listens(port: int) -> bool:
    """Return whether a program accepts connections on that port."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
