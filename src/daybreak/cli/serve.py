"""`daybreakd serve`: the whole service on one machine."""

import signal
from collections.abc import Callable
from functools import partial
from types import FrameType

from daybreak.cli.builder_process import BuilderProcess
from daybreak.cli.logs import configure_logging
from daybreak.cli.options import Config, settings_of
from daybreak.cli.web import run_web
from daybreak.web.server import ServerHooks


def serve(*, config: Config = None) -> None:
    """Run the whole service until SIGTERM or Ctrl-C: web workers, and a builder as a child process.

    Under systemd or in containers, run `daybreakd web` and `daybreakd builder` as
    separate services.
    """
    settings = settings_of(config)
    configure_logging(settings)
    if not settings.needs_builder:
        run_web(settings)
        return
    process = BuilderProcess(settings.file)

    def start() -> None:
        _stop_on_signals(process.stop)
        process.start()

    run_web(settings, ServerHooks(on_start=start, start_threads=process.supervise, on_stop=process.wait))


def _stop_on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on the signals that stop the server, before its own handlers."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, partial(_stop_first, stop, signal.getsignal(number)))


def _stop_first(
    stop: Callable[[], None],
    handler: Callable[[int, FrameType | None], object] | int | None,
    number: int,
    frame: FrameType | None,
) -> None:
    stop()
    if callable(handler):
        handler(number, frame)
