"""HMAC-SHA256 (RFC 2104) under a key that is used again and again.

What is hashed of the key itself is hashed once. The library's own function sets up the algorithm, the key and their
memory anew for each message, which takes longer than hashing a link does.
"""

from __future__ import annotations

import hashlib

_BLOCK_BYTES = 64


class Mac:
    """Signs messages under one key of at most 64 bytes."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        if len(key) > _BLOCK_BYTES:
            raise ValueError("a key is 64 bytes long at most")
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(octet ^ 0x36 for octet in block))
        self._outer = hashlib.sha256(bytes(octet ^ 0x5C for octet in block))

    def hex(self, message: bytes) -> str:
        """The signature of a message, 64 lower-case hex digits."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.hexdigest()
