"""Write the three ring files of a Swift server with one disk.

    make_swift_rings.py FOLDER ACCOUNT_PORT CONTAINER_PORT OBJECT_PORT

A separate program, so that the test process does not import Swift, which patches the standard library.
"""

import sys
from pathlib import Path

from swift.common.ring import RingBuilder

folder = Path(sys.argv[1])
for name, port in zip(("account", "container", "object"), sys.argv[2:5], strict=True):
    builder = RingBuilder(2, 1, 1)
    builder.add_dev(
        {"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "disk", "weight": 1.0}
    )
    builder.rebalance(seed="daybreak")
    builder.get_ring().save(str(folder / f"{name}.ring.gz"))
