"""Signed texts: `kid.payload.mac`, with an HMAC-SHA256 under a key of the keyring.

The payload has hex digits and dashes. The context, such as the kind of a cookie, is signed too, and not in the text.
"""

import re

from daybreak.credentials.keyring import Keyring, Purpose, is_mac, mac_of

_TEXT = re.compile(r"([0-9a-f]{4,32})\.([0-9a-f-]{1,64})\.([0-9a-f]{64})")


def sign(payload: str, *context: str, purpose: Purpose, keyring: Keyring) -> str:
    """Return the signed text of a payload."""
    kid, key = keyring.signing_key(purpose)
    return f"{kid}.{payload}.{mac_of(key, *context, payload)}"


def verify(text: str, *context: str, purpose: Purpose, keyring: Keyring) -> str | None:
    """Return the payload, or None if this service did not sign the text for this purpose and context."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    kid, payload, sent = found.groups()
    key = keyring.derive(kid, purpose)
    return payload if key is not None and is_mac(sent, key, *context, payload) else None
