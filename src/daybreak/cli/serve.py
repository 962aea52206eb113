"""`daybreakd serve` and `daybreakd migrate`."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from daybreak.cli.options import Config, settings_of
from daybreak.cli.output import say

if TYPE_CHECKING:
    import socket

    from daybreak.settings import Settings


def serve(
    *,
    config: Config = None,
    builder: Annotated[bool, Parameter(help="Also make snapshots on this node.", negative="--no-builder")] = True,
) -> int:
    """Run the service until SIGTERM or Ctrl-C: web workers, processes that hash passwords for them, and the builder
    that makes the daily snapshot.
    """
    from daybreak.cli.logs import configure_logging

    settings = settings_of(config)
    configure_logging(settings)
    return serve_settings(settings, builder=builder)


def serve_settings(settings: "Settings", *, builder: bool = True, on_ready: Callable[[], None] | None = None) -> int:
    """Runs the service with these settings; gives the exit code. `on_ready` is called once it answers.

    Logging is set up before.
    """
    from daybreak.access.hashing_process import AT_ONCE, answer_questions, open_channel
    from daybreak.bootstrap import open_keyring
    from daybreak.web.listeners import open_listeners
    from daybreak.web.supervisor import Duty, Supervisor

    open_keyring(settings)
    prepare_state(settings)
    asking, answering = open_channel()
    duties = [
        *(
            Duty(f"hashing-{number}", partial(answer_questions, answering), (answering,))
            for number in range(1, AT_ONCE + 1)
        ),
        *(
            Duty(f"worker-{number}", partial(_run_worker, settings, listener, asking), (listener, asking))
            for number, listener in enumerate(open_listeners(settings.listen, settings.workers), 1)
        ),
        Duty("builder", partial(_run_builder, settings, builder and settings.snapshot.schedule), beats=False),
    ]
    return Supervisor(duties, preload=_preload, on_ready=on_ready).run()


def migrate(*, config: Config = None) -> None:
    """Bring the state database to this version's shape; does nothing when it has it."""
    from daybreak.state.migrate import migrate as brought

    say(f"The state database is at {brought(settings_of(config).state.url)}.")


def prepare_state(settings: "Settings") -> None:
    """A single node's own SQLite file is migrated on start; a shared database only by `daybreakd migrate`. One that is
    not there is not made: whose disk is not mounted would be told that no seat and no token exists.
    """
    from daybreak.bootstrap import open_state
    from daybreak.state.database import sqlite_path
    from daybreak.state.migrate import migrate as brought

    path = sqlite_path(settings.state.url)
    if path is not None and path.exists():
        brought(settings.state.url)
    open_state(settings).close()


def _preload() -> None:
    """What every worker needs, imported once before they are forked."""
    import daybreak.bootstrap
    import daybreak.web.app
    import daybreak.web.worker  # noqa: F401


def _run_worker(
    settings: "Settings", listener: "socket.socket", hashing: "socket.socket", beat: Callable[[], None]
) -> None:
    from daybreak.bootstrap import build
    from daybreak.web.app import Application
    from daybreak.web.worker import run_app

    wired = build(settings, hashing)
    app = Application(wired.services, wired.aclose)

    def beats() -> None:
        app.beat()
        beat()

    run_app(app, listener, beat=beats)


def _run_builder(settings: "Settings", builds: bool, _beat: Callable[[], None]) -> None:
    """The builder process; on a node that makes no snapshots it only says that the node lives."""
    from daybreak.bootstrap import open_state, this_node, workshop
    from daybreak.snapshots.builder import beat_until_stopped, run_builder, stop_on_signals

    with closing(open_state(settings)) as state:
        shop = workshop(settings, state)
        if builds:
            run_builder(shop, this_node(("builder", "web")))
        else:
            stop_on_signals(shop.stop)
            beat_until_stopped(shop, this_node(("web",)))
