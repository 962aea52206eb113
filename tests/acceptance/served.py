"""Serves a world of the acceptance tests by the service's own supervisor and workers.

python -m tests.acceptance.served FOLDER STATE_URL '{"base_url": ..., "port": ..., "workers": ...}'
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import structlog

from daybreak.web.listeners import open_listeners
from daybreak.web.supervisor import Supervisor


def _services(folder: Path, state_url: str, described: dict[str, Any]) -> Any:
    from daybreak.access.hashing import PasswordHashing
    from daybreak.access.services import AccessServices, AccessSettings
    from daybreak.access.trail import TrailBuffer
    from daybreak.credentials.keyring import KeyringFile
    from daybreak.downloads import DownloadServices, DownloadSettings
    from daybreak.filestore.local_disk import LocalDisk
    from daybreak.state.database import open_state
    from daybreak.web.services import Services, WebSettings

    base_url = described["base_url"]
    settings = WebSettings(
        base_url,
        require_https=described.get("require_https", False),
        trusted_proxies=tuple(ip_network(text) for text in described.get("trusted_proxies", ())),
        serve_gzip_as=described.get("serve_gzip_as", "file"),
        metrics_access=described.get("metrics", "loopback"),
    )
    state, ring = open_state(state_url), KeyringFile(folder / "keyring.json")

    def clock() -> datetime:
        return datetime.now(UTC)

    hashing = PasswordHashing(slots_folder=folder / "slots", queue_length=64, wait_seconds=50)
    access = AccessServices(
        AccessSettings(base_url, session_lifetime=timedelta(days=7)), state, ring, hashing, clock, os.urandom
    )
    fetch = DownloadServices(DownloadSettings(base_url), state, ring, TrailBuffer(state), clock, os.urandom)
    return Services(settings, state, LocalDisk(folder / "files"), ring, clock, os.urandom, access, fetch)


def main() -> int:
    folder, state_url, described = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper("iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
    )

    def run_worker(listener: socket.socket, beat: Callable[[], None]) -> None:
        from daybreak.web.app import create_app
        from daybreak.web.worker import run_app

        services = _services(folder, state_url, described)

        async def close() -> None:
            await services.downloads.trail.aclose()
            await services.state.aclose()
            services.access.hashing.close()

        run_app(create_app(services, close=close), listener, beat=beat)

    listeners = open_listeners(f"127.0.0.1:{described['port']}", described["workers"])
    return Supervisor(
        listeners=listeners, run_worker=run_worker, run_builder=None, grace_seconds=described.get("grace", 20)
    ).run()


if __name__ == "__main__":
    sys.exit(main())
