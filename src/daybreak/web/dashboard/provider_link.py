"""The link that starts single sign-on."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from daybreak.web.dashboard.context import DashboardContext


@dataclass(frozen=True, slots=True)
class ProviderLink:
    """Name of the provider, and the URL that redirects to it."""

    name: str
    url: str


def provider_link(dashboard: DashboardContext, path: str, next_path: str) -> ProviderLink | None:
    """Return the link to a path that redirects to the provider, None if single sign-on is not configured."""
    settings = dashboard.services.settings.oidc
    if not settings.enabled:
        return None
    query = f"?{urlencode({'next': next_path})}" if next_path else ""
    return ProviderLink(settings.name, f"{dashboard.root}{path}{query}")
