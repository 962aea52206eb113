"""Message authentication codes: HMAC-SHA256 (RFC 2104) over length-prefixed fields.

The length prefix makes the encoding unambiguous: two different lists of fields have different messages.
"""

from __future__ import annotations

import hmac


def sign(key: bytes, *fields: str) -> str:
    """Return the MAC of the fields as 64 lower-case hex digits."""
    message = b"".join(len(field).to_bytes(4, "big") + field for field in map(str.encode, fields))
    return hmac.digest(key, message, "sha256").hex()


def is_valid(mac: str, key: bytes, *fields: str) -> bool:
    """Return whether the MAC is that of the fields. Takes constant time."""
    return hmac.compare_digest(sign(key, *fields).encode(), mac.encode("utf-8", "surrogatepass"))
