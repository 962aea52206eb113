"""Objects that all dashboard pages share, and a request for a page."""

from dataclasses import dataclass, field
from datetime import time
from pathlib import Path

from jinja2 import Environment
from starlette.requests import Request

from daybreak.access.services import Services
from daybreak.domain.identity import Caller
from daybreak.web.dashboard import formatting
from daybreak.web.fair_queue import FairQueue
from daybreak.web.request_state import caller_of
from daybreak.web.streams import Streams
from daybreak.web.theme.assets import Assets
from daybreak.web.theme.templates import templates_in

_TASKS = 2
_MAX_WAITING = 100
_MAX_PER_ACCOUNT = 20


@dataclass(frozen=True, slots=True)
class DashboardContext:
    """Services and templates of the pages, one per worker process."""

    services: Services
    templates: Environment
    assets: Assets
    streams: Streams
    tasks: FairQueue = field(
        default_factory=lambda: FairQueue(
            "dashboard", _TASKS, max_waiting=_MAX_WAITING, max_waiting_per_account=_MAX_PER_ACCOUNT
        )
    )

    @property
    def root(self) -> str:
        """Path part of `base_url`, which precedes every path of the dashboard."""
        return self.services.settings.base_path

    @property
    def secure(self) -> bool:
        """Whether browsers reach the service over https."""
        return self.services.settings.secure

    @property
    def publish_at(self) -> time:
        """UTC time of day of the publication."""
        return self.services.settings.snapshot.publish_at


@dataclass(frozen=True, slots=True)
class DashboardRequest:
    """A request for a page. The browser may have no session."""

    dashboard: DashboardContext
    request: Request

    @property
    def services(self) -> Services:
        return self.dashboard.services

    @property
    def caller(self) -> Caller:
        """The sender, as the access services expect it."""
        return caller_of(self.request)

    @property
    def local_path(self) -> str:
        """The path without the path part of `base_url`."""
        return self.request.url.path.removeprefix(self.dashboard.root)


def create_dashboard_context(services: Services, assets: Assets, streams: Streams) -> DashboardContext:
    templates = templates_in(Path(__file__).parent)
    templates.filters.update(formatting.TEMPLATE_FILTERS)
    return DashboardContext(services, templates, assets, streams)
