"""Tokens in the links of mails: to set a new password, and to unsubscribe from one type of event."""

import base64
import hashlib
import re
from collections.abc import Callable

from daybreak.credentials.keyring import Keyring, is_mac, mac_of

RESET_PREFIX = "reset_"
_RESET_BYTES = 32
_RESET = re.compile(rf"{RESET_PREFIX}[\w-]{{43}}", re.ASCII)
_UNSUBSCRIBE = re.compile(r"([0-9a-f]{4,32})~([0-9a-f-]{36})~([a-z_.]{1,40})~([0-9a-f]{64})")


def new_reset_token(random: Callable[[int], bytes]) -> str:
    """Return the token of a link that sets a new password: 256 random bits."""
    return RESET_PREFIX + base64.urlsafe_b64encode(random(_RESET_BYTES)).decode().rstrip("=")


def reset_digest(token: str) -> str | None:
    """Return the stored form of a token: SHA-256 as hex. None for a text that is not a token."""
    return hashlib.sha256(token.encode()).hexdigest() if _RESET.fullmatch(token) else None


def unsubscribe_token(seat_id: str, type_: str, *, keyring: Keyring) -> str:
    """Return the token with which a seat unsubscribes from a type of event."""
    kid, key = keyring.signing_key("unsubscribe")
    return f"{kid}~{seat_id}~{type_}~{mac_of(key, seat_id, type_)}"


def verify_unsubscribe_token(token: str, *, keyring: Keyring) -> tuple[str, str] | None:
    """Return the seat and the type of event of a valid token, None for any other text."""
    found = _UNSUBSCRIBE.fullmatch(token)
    if found is None:
        return None
    kid, seat_id, type_, sent = found.groups()
    key = keyring.derive(kid, "unsubscribe")
    return (seat_id, type_) if key is not None and is_mac(sent, key, seat_id, type_) else None
