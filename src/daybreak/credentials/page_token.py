"""Page tokens: the position after one page of a list, signed for the credential that read the page."""

from __future__ import annotations

import re

from daybreak.credentials import mac
from daybreak.credentials.keyring import Keyring

_TOKEN = re.compile(r"([1-9][0-9]{0,8})-([0-9a-f]{4,32})-([0-9a-f]{64})", re.ASCII)


def sign(position: int, *, subject: str, list_name: str, keyring: Keyring) -> str:
    """Return the token of a position, which only `subject` can use, and only for this list."""
    kid, key = keyring.signing_key("page-token")
    return f"{position}-{kid}-{mac.sign(key, str(position), subject, list_name, kid)}"


def verify(token: str, *, subject: str, list_name: str, keyring: Keyring) -> int | None:
    """Return the position of a token, None for an invalid one. Never raises."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    position, kid, signature = found.groups()
    key = keyring.derive(kid, "page-token")
    if key is None or not mac.is_valid(signature, key, position, subject, list_name, kid):
        return None
    return int(position)
