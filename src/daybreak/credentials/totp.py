"""Time-based one-time passwords (RFC 6238: SHA-1, six digits, 30 seconds) and recovery codes.

Seeds are sealed with AES-256-GCM under a key of the keyring, bound to the seat, so that a dump of
the state database opens no second factor and a seed moved to another seat does not open either.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from urllib.parse import quote, urlencode

from daybreak.credentials.keyring import Keyring

STEP_SECONDS = 30
DIGITS = 6
SEED_BYTES = 20
RECOVERY_CODES = 10
# Without 0, 1, l, o: nobody has to guess what was written down.
_RECOVERY_ALPHABET = "23456789abcdefghijkmnpqrstuvwxyz"


class SealBroken(Exception):
    """A sealed seed that no key of the keyring opens."""


def code_at(seed: bytes, step: int) -> str:
    """The six digits of one step (RFC 4226 §5.3)."""
    digest = hmac.digest(seed, step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}d}"


def matching_step(seed: bytes, code: str, now_seconds: float, window: int = 1) -> int | None:
    """The step whose code this is, at most `window` steps from now; None when there is none.

    Every step of the window is compared, in constant time (RFC 6238 §5.2). Which steps were used
    before is the caller's business: a step, not a code, is what may be used once.
    """
    sent = code.encode("utf-8", "surrogatepass")
    current = int(now_seconds) // STEP_SECONDS
    found: int | None = None
    for step in range(max(0, current - window), current + window + 1):
        if hmac.compare_digest(code_at(seed, step).encode(), sent):
            found = step
    return found


def otpauth_uri(seed: bytes, *, issuer: str, email: str) -> str:
    """The `otpauth://` address that authenticator apps read from a QR code."""
    query = urlencode(
        {
            "secret": manual_key(seed),
            "issuer": issuer,
            "algorithm": "SHA1",
            "digits": DIGITS,
            "period": STEP_SECONDS,
        },
        quote_via=quote,
    )
    return f"otpauth://totp/{quote(issuer, safe='')}:{quote(email, safe='@')}?{query}"


def manual_key(seed: bytes) -> str:
    """The seed in base32 without padding, for typing into an app."""
    return base64.b32encode(seed).decode().rstrip("=")


def seal(seed: bytes, *, seat_id: str, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """The seed under the signing key: `1.<kid>.<nonce hex>.<ciphertext hex>`."""
    # Imported here: commands that seal nothing need not load the cipher library.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    kid, key = keyring.signing_key("totp-seed")
    nonce = random(12)
    sealed = AESGCM(key).encrypt(nonce, seed, _bound_to(seat_id, kid))
    return f"1.{kid}.{nonce.hex()}.{sealed.hex()}"


def unseal(sealed: str, *, seat_id: str, keyring: Keyring) -> bytes:
    """The seed again. Raises SealBroken for another seat, an unknown key or any changed text."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        version, kid, nonce, ciphertext = sealed.split(".")
        key = keyring.derive(kid, "totp-seed")
        if version != "1" or key is None:
            raise SealBroken("the seed was sealed under a key that this keyring does not hold")
        return AESGCM(key).decrypt(bytes.fromhex(nonce), bytes.fromhex(ciphertext), _bound_to(seat_id, kid))
    except (ValueError, InvalidTag):
        raise SealBroken("the sealed seed was changed, or is another seat's") from None


def sealing_kid(sealed: str) -> str:
    """The kid of the key that a sealed seed needs."""
    parts = sealed.split(".")
    return parts[1] if len(parts) == 4 else ""


def new_recovery_codes(random: Callable[[int], bytes]) -> tuple[str, ...]:
    """Ten codes of 80 random bits, as `k7qd-m2xw-9fht-4c3p`."""
    codes = []
    for _ in range(RECOVERY_CODES):
        letters = "".join(_RECOVERY_ALPHABET[byte & 0x1F] for byte in random(16))
        codes.append("-".join(letters[at : at + 4] for at in range(0, 16, 4)))
    return tuple(codes)


def recovery_digest(code: str, *, seat_id: str) -> str:
    """What is stored of a recovery code: SHA-256 hex, whatever case, dashes or spaces it came in.

    80 random bits need no slow hash; the seat is in it so that equal digests cannot be searched.
    """
    plain = "".join(letter for letter in code.casefold() if letter.isalnum())
    return hashlib.sha256(f"{seat_id}:{plain}".encode("utf-8", "surrogatepass")).hexdigest()


def _bound_to(seat_id: str, kid: str) -> bytes:
    return f"daybreak totp seed 1 {kid} {seat_id}".encode()
