"""Objects that all dashboard pages share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from daybreak.domain.identity import SecondFactorPolicy
from daybreak.web.dashboard import formatting
from daybreak.web.dashboard.assets import Asset, load_assets
from daybreak.web.services import Services

T = TypeVar("T")

_FILE_TASKS = 2


@dataclass(frozen=True, slots=True)
class DashboardContext:
    """Services and templates of the pages, one per worker process."""

    services: Services
    templates: Environment
    assets: Mapping[str, Asset]
    file_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_FILE_TASKS))

    @property
    def root(self) -> str:
        """Path part of `base_url`, which precedes every path of the dashboard."""
        return self.services.settings.base_path

    @property
    def secure(self) -> bool:
        """Whether browsers reach the service over https."""
        return self.services.settings.secure

    @property
    def second_factor_policy(self) -> SecondFactorPolicy:
        """Which sessions need a second factor."""
        return self.services.settings.access.require_second_factor

    @property
    def publish_at(self) -> time:
        """UTC time of day of the publication."""
        return self.services.settings.snapshot.publish_at

    @property
    def publish_time(self) -> str:
        """`publish_at` as text: `04:00 UTC`."""
        return f"{self.publish_at:%H:%M} UTC"

    def asset_url(self, name: str) -> str:
        """Return the URL of a stylesheet, script or image; it contains the content's digest."""
        return f"{self.root}/dashboard/static/{self.assets[name].digest}/{name}"

    async def run_file_task(self, task: Callable[[], T]) -> T:
        """Run a task that reads files in a thread. At most two run at the same time per worker."""
        async with self.file_slots:
            return await asyncio.to_thread(task)


def create_dashboard_context(services: Services) -> DashboardContext:
    """Return a context with loaded templates and assets."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters.update(formatting.TEMPLATE_FILTERS)
    return DashboardContext(services, templates, load_assets())
