"""The service with sample data, for browser tests and screenshots.

    python -m tests.acceptance.dashboard.sample.service FOLDER PORT [HOUR MEMBERS DAYS [DAYS_LATE]]

HOUR is the UTC hour of publication. Tests choose one that is hours away, so that no publication falls into a test.
The last DAYS_LATE publications are missing. With 0 DAYS, nothing was ever published.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from ipaddress import ip_network
from pathlib import Path
from typing import TypeVar

from daybreak.access.link_usage import AuditBuffer, LinkRate, byte_rate
from daybreak.access.services import Services
from daybreak.credentials import keyring
from daybreak.credentials.passwords import PasswordHashing
from daybreak.events.context import DeliveryContext, DeliveryTimings
from daybreak.events.deliverer import run_deliverer
from daybreak.filestore.local_disk import LocalDisk
from daybreak.insight.published_tables import Interruption
from daybreak.snapshots.schedule import last_due, publication_of
from daybreak.state.migrate import migrate
from daybreak.state.sqlite_state import SqliteState
from daybreak.web.dashboard.insight.queries import FigureCache
from tests.acceptance.dashboard.sample.directory import write_directory
from tests.acceptance.dashboard.sample.snapshots import write_snapshots
from tests.configured import configured
from tests.parts.location_database import write_location_database

T = TypeVar("T")

LOCATIONS = "locations.mmdb"
MAIL_URL_VARIABLE = "SAMPLE_MAIL_URL"
# While this file exists, the figures of Insight are not computed.
HOLD_FIGURES = "hold-figures"


def create_sample(
    folder: Path, now: datetime, *, publish_at: time_of_day, members: int, days: int, days_late: int
) -> None:
    """Create state database, keyring and files in the folder. `members` is the size of the largest account."""
    folder.mkdir(parents=True, exist_ok=True)
    ring = keyring.create(folder / "keyring.json", now, os.urandom)
    write_location_database(folder / LOCATIONS, {"127.0.0.0/8": {"city": "Oslo", "country": "Norway"}})
    migrate(f"sqlite:///{folder / 'state.db'}")
    state = SqliteState(folder / "state.db")
    try:
        write_directory(state, ring, now)
        due = publication_of(last_due(now, publish_at), publish_at) - timedelta(days=days_late)
        write_snapshots(state, LocalDisk(folder / "files"), due, members=members, days=days)
    finally:
        state.close()


def open_services(folder: Path, base_url: str, publish_at: time_of_day) -> Services:
    """Open the services of a web worker on the sample data."""
    state, ring = SqliteState(folder / "state.db"), keyring.KeyringFile(folder / "keyring.json")

    def clock() -> datetime:
        return datetime.now(UTC)

    settings = configured(
        base_url=base_url,
        operator_contact="data@northlight.example",
        snapshot={"publish_at": publish_at},
        status_page=True,
        # Shown on pages of operators. No builder runs the queries.
        directory={"accounts": "SELECT 1", "seats": "SELECT 1", "access": "SELECT 1"},
        # A code works once, so tests that sign in as the operator would wait for the next one.
        access={"operator_second_factor": False, "location_database": folder / LOCATIONS},
        events={"allowed_networks": (ip_network("127.0.0.0/8"),)},
        mail={"url": os.environ.get(MAIL_URL_VARIABLE, ""), "sender": "exports@northlight.example"},
    )
    return Services(
        settings=settings, state=state, files=LocalDisk(folder / "files"), keyring=ring, hashing=PasswordHashing(),
        audit_buffer=AuditBuffer(state), link_rate=LinkRate(state, settings.access.link_rate, clock),
        byte_rate=byte_rate(state, settings.access.daily_bytes, clock), clock=clock, random=os.urandom,
    )  # fmt: skip


def delivery_context(folder: Path, services: Services, stop: threading.Event) -> DeliveryContext:
    """Return the context of the deliverer, which runs in the web worker here."""
    return DeliveryContext(
        state=SqliteState(folder / "state.db"),
        settings=services.settings,
        keyring=keyring.KeyringFile(folder / "keyring.json"),
        holder="sample",
        clock=services.clock,
        ticks=time.monotonic,
        random=os.urandom,
        timings=DeliveryTimings(timeout_seconds=5.0, poll_seconds=0.2),
        stop=stop,
    )


def hold_figures(folder: Path) -> None:
    """Delay the computation of figures while the folder has a file HOLD_FIGURES."""
    run = FigureCache.run

    async def run_later(cache: FigureCache, account: str, task: Callable[[Interruption], T]) -> T:
        def held_task(interruption: Interruption) -> T:
            while (folder / HOLD_FIGURES).exists():
                time.sleep(0.05)
            return task(interruption)

        return await run(cache, account, held_task)

    FigureCache.run = run_later  # type: ignore[assignment,method-assign]


def main() -> None:
    """Serve the sample data of the folder; create it first if the folder is empty."""
    import structlog

    from daybreak.web.app import Application, create_app
    from daybreak.web.listener import TcpAddress
    from daybreak.web.server import ServerHooks, announce, serve
    from daybreak.web.watchdog import running

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    given, defaults = sys.argv[3:7], ("4", "400", "3", "0")
    hour, members, days, days_late = (int(value) for value in (*given, *defaults[len(given) :]))
    publish_at = time_of_day(hour)
    if not (folder / "state.db").exists():
        create_sample(folder, datetime.now(UTC), publish_at=publish_at, members=members, days=days, days_late=days_late)
    address = TcpAddress("127.0.0.1", port)
    hold_figures(folder)

    def load_app() -> Application:
        services = open_services(folder, f"http://localhost:{port}", publish_at)

        @asynccontextmanager
        async def background() -> AsyncIterator[None]:
            stop = threading.Event()
            deliverer = threading.Thread(target=run_deliverer, args=(delivery_context(folder, services, stop),))
            deliverer.start()
            async with running(announce(address)):
                yield
            stop.set()
            await asyncio.to_thread(deliverer.join)
            services.hashing.close()
            await services.audit_buffer.aclose()
            await asyncio.to_thread(services.state.close)

        return create_app(services, background)

    serve(address, 1, load_app, ServerHooks())


if __name__ == "__main__":
    main()
