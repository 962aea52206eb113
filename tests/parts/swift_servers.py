"""The four servers of Swift with one disk, in processes forked from one that has imported them.

    swift_servers.py FOLDER ACCOUNT_PORT CONTAINER_PORT OBJECT_PORT

Writes the ring files first. A separate program, so that the test process does not import Swift, which patches the
standard library.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

import swift.account.server
import swift.container.server
import swift.obj.server
import swift.proxy.server
from swift.common.ring import RingBuilder

_PR_SET_PDEATHSIG = 1
SERVERS = {
    "account": swift.account.server,
    "container": swift.container.server,
    "object": swift.obj.server,
    "proxy": swift.proxy.server,
}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, port in zip(SERVERS, sys.argv[2:5], strict=False):
        builder = RingBuilder(2, 1, 1)
        builder.add_dev(
            {"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "disk", "weight": 1.0}
        )
        builder.rebalance(seed="daybreak")
        builder.get_ring().save(str(folder / f"{name}.ring.gz"))
    # This process becomes the proxy server. The others end with it.
    for name, server in SERVERS.items():
        is_child = name != "proxy" and os.fork() == 0
        if is_child:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if is_child or name == "proxy":
            sys.argv = [f"swift-{name}-server", str(folder / f"{name}.conf"), "--verbose"]
            server.main()


if __name__ == "__main__":
    main()
