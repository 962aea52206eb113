"""What the web floor works with: one frozen bundle, made by `bootstrap`, shared with the dashboard.

Nothing here knows the settings file: `bootstrap` copies the few values that the web floor needs
into `WebSettings`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network
from typing import Literal
from urllib.parse import urlsplit

from daybreak.access.services import AccessServices
from daybreak.credentials.keyring import KeyringFile
from daybreak.downloads import DownloadServices
from daybreak.ports.files import FileStore
from daybreak.ports.state import State

MetricsAccess = Literal["off", "loopback", "anyone"]


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The settings the web floor needs, checked already.

    `base_url` has no slash at its end. `formats` are those that are written, such as
    `("csv", "json")`. `trusted_proxies` are the networks whose X-Forwarded-For and
    X-Forwarded-Proto are believed. `body_deadline_seconds` bounds the arrival of a request body.
    """

    base_url: str
    formats: tuple[str, ...] = ("csv", "json")
    serve_gzip_as: Literal["file", "encoding"] = "file"
    session_lifetime: timedelta = timedelta(days=7)
    link_lifetime: timedelta = timedelta(minutes=15)
    require_https: bool = False
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    metrics_access: MetricsAccess = "loopback"
    body_limit_bytes: int = 16 * 1024
    body_deadline_seconds: float = 15.0
    operator_contact: str = ""

    @property
    def secure(self) -> bool:
        """Whether users reach the service by https: HSTS and secure cookies follow from it."""
        return self.base_url.startswith("https://")

    @property
    def base_path(self) -> str:
        """The path part of `base_url`, without a slash at its end; mostly empty."""
        return urlsplit(self.base_url).path.rstrip("/")


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a route may call. One per worker process; `clock` gives aware UTC instants and
    `random` that many random bytes.
    """

    settings: WebSettings
    state: State
    files: FileStore
    keyring: KeyringFile
    clock: Callable[[], datetime]
    random: Callable[[int], bytes]
    access: AccessServices
    downloads: DownloadServices
