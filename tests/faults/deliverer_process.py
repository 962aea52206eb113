"""A deliverer with short waits, in a process that tests kill: `python -m tests.faults.deliverer_process FOLDER`."""

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

from daybreak.credentials.keyring import KeyringFile
from daybreak.events.context import DeliveryContext, DeliveryTimings
from daybreak.events.deliverer import run_deliverer
from daybreak.snapshots.builder import stop_on_signals
from daybreak.state.database import open_state
from tests.configured import configured

TIMINGS = DeliveryTimings(
    retry_after=(timedelta(milliseconds=50), timedelta(milliseconds=200)),
    timeout_seconds=3.0,
    lease_seconds=8.0,
    poll_seconds=0.02,
)


def main() -> None:
    """Deliver until SIGTERM."""
    folder = Path(sys.argv[1])
    context = DeliveryContext(
        state=open_state(f"sqlite:///{folder}/state.db", wait_seconds=60),
        settings=configured(
            base_url="https://data.example.org", events={"allowed_networks": (ip_network("127.0.0.0/8"),)}
        ),
        keyring=KeyringFile(folder / "keyring.json"),
        holder=str(os.getpid()),
        clock=lambda: datetime.now(UTC),
        ticks=time.monotonic,
        random=os.urandom,
        timings=TIMINGS,
    )
    stop_on_signals(context.stop)
    run_deliverer(context)


if __name__ == "__main__":
    main()
