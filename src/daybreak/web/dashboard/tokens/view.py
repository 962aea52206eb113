"""Template variables of the API token pages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from daybreak.access.api_tokens import NewToken
from daybreak.catalogue.formats import format_named
from daybreak.catalogue.resources import RESOURCES, resource_named
from daybreak.domain.identity import ApiToken, ServeGzipAs
from daybreak.web.dashboard.files.view import curl_command
from daybreak.web.dashboard.page_request import PageRequest
from daybreak.web.http.curl import HEADER_FILE, save_token_command
from daybreak.web.http.share_profile import PROFILE_NAME, profile_data_url, share_profile

DEFAULT_EXPIRY = "90"
EXPIRIES: Mapping[str, tuple[str, timedelta | None]] = {
    "30": ("In 30 days", timedelta(days=30)),
    "90": ("In 90 days", timedelta(days=90)),
    "365": ("In 1 year", timedelta(days=365)),
    "never": ("Never", None),
}
"""Label and lifetime of each choice of the expiry menu."""

DELIVERIES: Mapping[str, tuple[str, ServeGzipAs | None]] = {
    "": ("Default of this service", None),
    "file": ("gzip files", "file"),
    "encoding": ("Text, compressed in transfer", "encoding"),
}
"""Label and value of each choice of the delivery menu."""

_EXAMPLE_RESOURCE = "campaigns"


def token_rows(tokens: list[ApiToken], now: datetime) -> list[dict[str, object]]:
    """Return one table row per token: active ones first, then newest first."""
    ordered = sorted(tokens, key=lambda token: (token_state(token, now) != "active", -token.created_at.timestamp()))
    return [token_view(token, now) for token in ordered]


def token_view(token: ApiToken, now: datetime) -> dict[str, object]:
    """Return the variables of one token."""
    return {
        "token_id": token.token_id,
        "name": token.name,
        "last_four": token.last_four,
        "created_at": token.created_at,
        "created_by": token.created_by_email,
        "last_used_at": token.last_used_at,
        "expires_at": token.expires_at,
        "state": token_state(token, now),
    }


def token_state(token: ApiToken, now: datetime) -> str:
    """Return `active`, `expired` or `revoked`."""
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return "expired"
    return "active"


def created_context(page: PageRequest, created: NewToken) -> dict[str, object]:
    """Return the variables of the page that shows a new token with commands that use it."""
    file_format = format_named(page.dashboard.services.settings.snapshot.formats[0])
    resource = resource_named(_EXAMPLE_RESOURCE)
    return {
        "history_url": page.url("settings/tokens"),
        "name": created.token.name,
        "expires_at": created.token.expires_at,
        "secret": created.secret,
        "save_token": save_token_command(created.secret),
        "header_file": HEADER_FILE,
        "curl": curl_command(page, resource, file_format),
        "curl_file": resource.file_name(file_format),
        "client_commands": _client_commands(page, created.secret),
        "file_count": len(RESOURCES),
        "profile_url": _profile_url(page, created),
        "profile_name": PROFILE_NAME,
    }


def _profile_url(page: PageRequest, created: NewToken) -> str:
    """Return the data URL of a Delta Sharing profile, "" unless the service has the protocol enabled."""
    settings = page.dashboard.services.settings
    if not settings.sharing.enabled:
        return ""
    return profile_data_url(share_profile(settings.base_url, created.secret, created.token.expires_at))


def _client_commands(page: PageRequest, secret: str) -> str:
    """Return shell commands that download all files with the command-line client."""
    variables = {
        "SERVICE": page.dashboard.services.settings.base_url,
        "ACCOUNT": page.client_id,
        "TOKEN": secret,
    }
    return "".join(f"export DAYBREAK_{name}={value}\n" for name, value in variables.items()) + "daybreak fetch exports"
