"""Secrets and signatures of webhooks (Standard Webhooks 1.0).

Secrets are stored encrypted. The endpoint is authenticated data: a secret copied to another endpoint cannot be
decrypted.
"""

import base64
import hmac
from collections.abc import Callable

from daybreak.credentials import sealed_text
from daybreak.credentials.keyring import Keyring

PREFIX = "whsec_"
# The specification allows 24 to 64.
_SECRET_BYTES = 32


def generate(random: Callable[[int], bytes]) -> str:
    """Return a new secret: `whsec_` and 32 random bytes as base64."""
    return PREFIX + base64.b64encode(random(_SECRET_BYTES)).decode()


def sign(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message: `v1,` and the HMAC-SHA256 of `id.timestamp.body` as base64."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def encrypt(secret: str, *, endpoint_id: str, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """Return the encrypted secret of an endpoint."""
    return sealed_text.seal(
        secret.encode(), purpose="webhook-secret", keyring=keyring, random=random, owner=endpoint_id
    )


def decrypt(sealed: str, *, endpoint_id: str, keyring: Keyring) -> str | None:
    """Return the secret, None for another endpoint or a key that is not in the keyring."""
    secret = sealed_text.unseal(sealed, purpose="webhook-secret", keyring=keyring, owner=endpoint_id)
    return None if secret is None else secret.decode()


def encrypt_again(sealed: str, *, endpoint_id: str, keyring: Keyring, random: Callable[[int], bytes]) -> str | None:
    """Return the secret encrypted with the key that signs now. None if it already is, or cannot be decrypted."""
    if sealed_text.sealing_kid(sealed) == keyring.signing_kid:
        return None
    secret = decrypt(sealed, endpoint_id=endpoint_id, keyring=keyring)
    return None if secret is None else encrypt(secret, endpoint_id=endpoint_id, keyring=keyring, random=random)
