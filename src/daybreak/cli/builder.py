"""`daybreakd builder`: the process that builds and publishes snapshots, and delivers events."""

import os
import threading
from typing import Annotated

from cyclopts import Parameter

from daybreak.bootstrap import delivery_context, open_tracing, run_context, this_node
from daybreak.cli.logs import configure_logging
from daybreak.cli.migrate import prepare_state
from daybreak.cli.options import Config, settings_of, state_of
from daybreak.domain.errors import OperatorError
from daybreak.events.context import DeliveryContext
from daybreak.events.deliverer import run_deliverer
from daybreak.settings import Settings
from daybreak.snapshots.builder import run_builder

_PARENT_POLL_SECONDS = 1.0


def builder(
    *,
    config: Config = None,
    stop_with: Annotated[
        int | None, Parameter(help="Process id of the parent: stop when it ends. `daybreakd serve` uses it.")
    ] = None,
) -> None:
    """Build and publish snapshots on schedule, and deliver events, until SIGTERM or Ctrl-C. A run stops after its
    current file. With `snapshot.schedule = false`, only events are delivered.
    """
    settings = settings_of(config)
    configure_logging(settings, sent_by="builder")
    if not settings.needs_builder:
        raise OperatorError(
            "snapshot.schedule and events.webhooks are false and mail.url is empty: there is nothing to do. Set one of "
            "them, or start runs with `daybreakd snapshot run`."
        )
    prepare_state(settings)
    _run(settings, stop_with)


def _run(settings: Settings, parent: int | None) -> None:
    with state_of(settings) as state:
        tracing = open_tracing(settings, "builder")
        context = run_context(settings, state, tracing=tracing)
        deliverer = threading.Thread(
            target=_deliver, args=(delivery_context(settings, context.stop, tracing),), name="deliverer"
        )
        deliverer.start()
        if parent is not None:
            threading.Thread(target=_stop_with, args=(parent, context.stop), name="parent", daemon=True).start()
        try:
            run_builder(context, this_node("builder", settings))
        finally:
            context.stop.set()
            deliverer.join()
            if tracing is not None:
                tracing.close()


def _deliver(context: DeliveryContext) -> None:
    """Deliver events until the process stops. Without a deliverer, the process stops too and is started again."""
    try:
        run_deliverer(context)
    finally:
        context.stop.set()


def _stop_with(parent: int, stop: threading.Event) -> None:
    while os.getppid() == parent:
        if stop.wait(_PARENT_POLL_SECONDS):
            return
    stop.set()
