"""TCP ports of 127.0.0.1 for the programs that tests start."""

import itertools
import os
import random
import socket

# The kernel takes the local ports of outgoing connections from 32768 and up. A port below is still free when the
# program under test opens it, many seconds after it was chosen. Browsers refuse some of the ports below 20000.
FIRST_PORT, END_PORT = 20_000, 32_768
# The parallel processes of a test run are called gw0, gw1, … Each has its own ports.
MAX_PROCESSES = 64
PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % MAX_PROCESSES

# In random order, because other test runs on this machine choose from the same ports.
_own_ports = range(FIRST_PORT + PROCESS, END_PORT, MAX_PROCESSES)
_next_ports = itertools.cycle(random.sample(_own_ports, len(_own_ports)))


def free_port() -> int:
    """Return a free port that no other test process chooses."""
    for port in itertools.islice(_next_ports, len(_own_ports)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port from {FIRST_PORT} to {END_PORT - 1}")


def listens(port: int) -> bool:
    """Return whether a program accepts connections on that port."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
