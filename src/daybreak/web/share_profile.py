"""Profile files, with which a client of Delta Sharing opens a share."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec

from daybreak.sharing import SHARING_PATH

PROFILE_NAME = "daybreak.share"


class ShareProfile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Profile file, version 1. Without an expiration time the token does not expire."""

    share_credentials_version: int
    endpoint: str
    bearer_token: str
    expiration_time: str | None = None


def share_profile(base_url: str, secret: str, expires_at: datetime | None) -> bytes:
    """Return the profile of an API token as JSON."""
    expiration_time = None if expires_at is None else f"{expires_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return msgspec.json.encode(ShareProfile(1, base_url + SHARING_PATH, secret, expiration_time))


def profile_data_url(profile: bytes) -> str:
    """Return a profile as a data URL (RFC 2397), so that a page can offer it without a second request."""
    return f"data:application/json;base64,{base64.b64encode(profile).decode()}"
