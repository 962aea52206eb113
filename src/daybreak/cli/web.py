"""`daybreakd web`: the web workers of this node, and the refusal to serve a demo to other machines."""

import gc
import multiprocessing
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from daybreak.bootstrap import WebProcess, build, open_files, open_keyring, open_provider, this_node
from daybreak.cli.logs import configure_logging
from daybreak.cli.migrate import prepare_state
from daybreak.cli.options import Config, read_state, settings_of
from daybreak.demo.emails import DEMO_EMAILS
from daybreak.domain.clock import now_utc
from daybreak.domain.errors import OperatorError
from daybreak.settings import Settings
from daybreak.state.nodes import Node
from daybreak.state.stores import Stores
from daybreak.web.listener import ListenAddress, claim_address, claim_port
from daybreak.web.server import ServerHooks, announce, serve
from daybreak.web.watchdog import heartbeat, running, watchdog

# Modules with metrics, which are imported when the folder of the metrics is known.
if TYPE_CHECKING:
    from daybreak.web.app import Application
    from daybreak.web.metrics_state import Values


def web(*, config: Config = None) -> None:
    """Serve the HTTP API and the dashboard until SIGTERM or Ctrl-C. `daybreakd builder` builds the files."""
    settings = settings_of(config)
    configure_logging(settings)
    run_web(settings)


def run_web(settings: Settings, hooks: ServerHooks | None = None) -> None:
    """Run the web workers until SIGTERM or SIGINT. Logging must be configured before.

    Raises:
        OperatorError: the keyring, the file store, the state database or the address cannot be used.
        SystemExit: workers died.
    """
    with _metrics_folder(settings) as folder:
        import daybreak.web.app  # noqa: F401 - once for all workers

        open_keyring(settings)
        open_provider(settings)
        open_files(settings)
        prepare_state(settings)
        address = claim_address(settings.listen)
        require_local_demo(settings, address)
        hooks = hooks or ServerHooks()
        if folder is not None:
            metrics = _metrics_process(settings, folder)
            hooks = replace(
                hooks,
                on_start=partial(_call, metrics.start, hooks.on_start),
                on_stop=partial(_call, metrics.terminate, hooks.on_stop),
            )
        load_app = partial(_load_app, settings, address, os.getpid(), this_node("web", settings))
        serve(address, settings.workers, load_app, hooks)


def _call(*actions: Callable[[], None]) -> None:
    for action in actions:
        action()


def _load_app(
    settings: Settings, address: ListenAddress, main_pid: int, node: Callable[[datetime], Node]
) -> "Application":
    from daybreak.web.app import create_app

    # A worker is a forked process, or a new one where the platform does not fork.
    configure_logging(settings, sent_by="web")
    wired = build(settings)
    background = partial(_background, wired, address, main_pid, node)
    app = create_app(wired.services, background, wired.tracing)
    gc.collect()
    # Objects loaded so far live as long as the worker. Later collections skip them.
    gc.freeze()
    return app


@asynccontextmanager
async def _background(
    wired: WebProcess, address: ListenAddress, main_pid: int, node: Callable[[datetime], Node]
) -> AsyncIterator[None]:
    """Run the watchdog, the announcement and the heartbeat of a worker until it stops."""
    async with watchdog(main_pid):
        async with running(announce(address)), running(heartbeat(wired.state, node, now_utc)):
            yield
        await wired.aclose()


@contextmanager
def _metrics_folder(settings: Settings) -> Iterator[Path | None]:
    """Create the folder where workers write their metrics, in memory if the system has /dev/shm."""
    if not settings.counts_requests:
        yield None
        return
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is created in it
    parent = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="daybreak-metrics-", dir=parent, ignore_cleanup_errors=True) as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield Path(folder)


def _metrics_process(settings: Settings, folder: Path) -> multiprocessing.Process:
    """Return the process that serves metrics.

    It has threads and database connections, which the main process must not have, because workers are forked from it.
    """
    from daybreak.web.metrics_server import serve_metrics

    address = claim_port(settings.metrics.listen, "metrics.listen") if settings.metrics.listen else None
    arguments = (address, folder, partial(_state_values, settings), os.getpid(), settings)
    return multiprocessing.Process(target=serve_metrics, args=arguments, name="metrics", daemon=True)


def _state_values(settings: Settings) -> "dict[str, Values]":
    """Return what the metrics show of the state database."""
    from daybreak.web.metrics_state import state_values

    return read_state(settings, lambda stores: state_values(stores, settings, now_utc()))


def require_local_demo(settings: Settings, address: ListenAddress) -> None:
    """Check that a state database with enabled seats of the demo is served on this machine only.

    The seats identify a demo, because copies of its configuration or of its state database have them too.

    Raises:
        OperatorError: `listen` or `base_url` is not a loopback address. Names the setting.
    """
    exposed = list(_exposed_settings(settings, address))
    if not exposed:
        return
    seats = read_state(settings, _enabled_demo_seats)
    if seats:
        raise OperatorError(
            f"{' and '.join(exposed)}: other machines could sign in as {', '.join(seats)}. Their passwords are "
            "published, because `daybreakd demo` created them. Set listen and base_url to 127.0.0.1, or create "
            "another instance with `daybreakd init FOLDER`. To serve this one, disable each of these seats with "
            "`daybreakd seat disable EMAIL`."
        )


def _exposed_settings(settings: Settings, address: ListenAddress) -> list[str]:
    """Return the settings that let other machines reach the service. A Unix socket is local."""
    exposed = []
    if not isinstance(address, Path) and not ip_address(address.host).is_loopback:
        exposed.append(f"listen = {settings.listen!r}")
    if not _is_loopback(urlsplit(settings.base_url).hostname or ""):
        exposed.append(f"base_url = {settings.base_url!r}")
    return exposed


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 §6.3
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _enabled_demo_seats(stores: Stores) -> list[str]:
    found = [stores.seats.by_email(email) for email in DEMO_EMAILS]
    return [seat.email for seat in found if seat is not None and not seat.disabled]
