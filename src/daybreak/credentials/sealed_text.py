"""Encryption of text that a browser keeps for the service, with AES-256-GCM under a key of the keyring."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from daybreak.credentials.keyring import Keyring, Purpose

_NONCE_BYTES = 12


def seal(payload: bytes, *, purpose: Purpose, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """Return the encrypted payload: `kid.ciphertext`, in characters that a cookie accepts."""
    kid, key = keyring.signing_key(purpose)
    nonce = random(_NONCE_BYTES)
    ciphertext = AESGCM(key).encrypt(nonce, payload, _authenticated_data(purpose, kid))
    return f"{kid}.{base64.urlsafe_b64encode(nonce + ciphertext).decode().rstrip('=')}"


def unseal(text: str, *, purpose: Purpose, keyring: Keyring) -> bytes | None:
    """Return the payload, or None if the text was not sealed for this purpose by a key of the keyring."""
    kid, _, encoded = text.partition(".")
    key = keyring.derive(kid, purpose)
    if key is None:
        return None
    try:
        sealed = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _authenticated_data(purpose, kid))
    except (binascii.Error, ValueError, InvalidTag):
        return None


def _authenticated_data(purpose: Purpose, kid: str) -> bytes:
    return f"daybreak {purpose} 1 {kid}".encode()
