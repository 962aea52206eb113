"""Encryption of texts that leave the process, with AES-256-GCM under a key of the keyring."""

import base64
import binascii
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from daybreak.credentials.keyring import Keyring, Purpose

_NONCE_BYTES = 12


def seal(payload: bytes, *, purpose: Purpose, keyring: Keyring, random: Callable[[int], bytes], owner: str = "") -> str:
    """Return the encrypted payload: `kid.ciphertext`, in characters that a cookie accepts.

    `owner` is authenticated data: a text that is copied to another owner cannot be decrypted.
    """
    kid, key = keyring.signing_key(purpose)
    nonce = random(_NONCE_BYTES)
    ciphertext = AESGCM(key).encrypt(nonce, payload, _authenticated_data(purpose, kid, owner))
    return f"{kid}.{base64.urlsafe_b64encode(nonce + ciphertext).decode().rstrip('=')}"


def unseal(text: str, *, purpose: Purpose, keyring: Keyring, owner: str = "") -> bytes | None:
    """Return the payload, or None if the text was not sealed for this purpose and owner by a key of the keyring."""
    kid, _, encoded = text.partition(".")
    key = keyring.derive(kid, purpose)
    if key is None:
        return None
    try:
        sealed = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        data = _authenticated_data(purpose, kid, owner)
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], data)
    except (binascii.Error, ValueError, InvalidTag):
        return None


def sealing_kid(text: str) -> str:
    """Return the id of the key that encrypted a text."""
    return text.partition(".")[0]


def _authenticated_data(purpose: Purpose, kid: str, owner: str) -> bytes:
    return f"daybreak {purpose} 1 {kid}{f' {owner}' if owner else ''}".encode()
