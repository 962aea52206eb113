"""Time-based one-time passwords (RFC 6238: SHA-1, six digits, 30 seconds) and recovery codes.

Seeds are stored encrypted with AES-256-GCM. The seat is authenticated data: a seed copied to another seat cannot be
decrypted.
"""

import base64
import hashlib
import hmac
import re
import unicodedata
from collections.abc import Callable
from urllib.parse import quote, urlencode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from daybreak.credentials.keyring import Keyring

STEP_SECONDS = 30
DIGITS = 6
SEED_BYTES = 20
RECOVERY_CODES = 10
# Without 0, 1, l and o, which are easily confused.
_RECOVERY_ALPHABET = "23456789abcdefghijkmnpqrstuvwxyz"
_RECOVERY_CHARACTERS = 24
# The label only names the key in the app. Encoded, a long email in another script does not fit into a QR code.
_MAXIMUM_LABEL_CHARACTERS = 64
_SEPARATORS = re.compile("[\\s\u2013-]+")


class SeedDecryptionError(Exception):
    """Encrypted seed that no key of the keyring decrypts for this seat."""


def code_at(seed: bytes, step: int) -> str:
    """Return the six digits of a time step (RFC 4226 §5.3)."""
    digest = hmac.digest(seed, step.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}d}"


def matching_step(seed: bytes, code: str, now_seconds: float) -> int | None:
    """Return the time step that the code belongs to, at most one step from now, or None.

    The code may be typed with spaces and dashes, as apps show it, and with the digits of any script. Compares it with
    each of the three steps in constant time. The caller rejects a step that was accepted before (RFC 6238 §5.2).
    """
    typed = "".join(str(unicodedata.decimal(character, character)) for character in _SEPARATORS.sub("", code))
    sent = typed.encode("utf-8", "surrogatepass")
    current = int(now_seconds) // STEP_SECONDS
    found: int | None = None
    for step in range(max(0, current - 1), current + 2):
        if hmac.compare_digest(code_at(seed, step).encode(), sent):
            found = step
    return found


def otpauth_uri(seed: bytes, *, issuer: str, email: str) -> str:
    """Return the `otpauth://` URI for the QR code that authenticator apps read."""
    query = urlencode(
        {"secret": manual_key(seed), "issuer": issuer, "algorithm": "SHA1", "digits": DIGITS, "period": STEP_SECONDS},
        quote_via=quote,
    )
    label = quote(email[:_MAXIMUM_LABEL_CHARACTERS], safe="@")
    return f"otpauth://totp/{quote(issuer, safe='')}:{label}?{query}"


def manual_key(seed: bytes) -> str:
    """Return the seed in base32 without padding, to type into an app."""
    return base64.b32encode(seed).decode().rstrip("=")


def encrypt_seed(seed: bytes, *, seat_id: str, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """Return the encrypted seed: `1.<kid>.<nonce hex>.<ciphertext hex>`."""
    kid, key = keyring.signing_key("totp-seed")
    nonce = random(12)
    ciphertext = AESGCM(key).encrypt(nonce, seed, _authenticated_data(seat_id, kid))
    return f"1.{kid}.{nonce.hex()}.{ciphertext.hex()}"


def decrypt_seed(encrypted: str, *, seat_id: str, keyring: Keyring) -> bytes:
    """Return the seed. Raises SeedDecryptionError for another seat, an unknown key or a changed text."""
    try:
        version, kid, nonce, ciphertext = encrypted.split(".")
        key = keyring.derive(kid, "totp-seed")
        if version != "1" or key is None:
            raise SeedDecryptionError("The key that encrypted the seed is not in the keyring.")
        return AESGCM(key).decrypt(bytes.fromhex(nonce), bytes.fromhex(ciphertext), _authenticated_data(seat_id, kid))
    except (ValueError, InvalidTag):
        raise SeedDecryptionError("The encrypted seed was changed, or belongs to another seat.") from None


def encryption_kid(encrypted: str) -> str:
    """Return the id of the key that encrypted a seed, "" for malformed text."""
    parts = encrypted.split(".")
    return parts[1] if len(parts) == 4 else ""


def new_recovery_codes(random: Callable[[int], bytes]) -> tuple[str, ...]:
    """Return ten codes of 120 random bits, such as `k7qd-m2xw-9fht-4c3p-8rvn-6jbz`."""
    codes = []
    for _ in range(RECOVERY_CODES):
        characters = "".join(_RECOVERY_ALPHABET[byte & 0x1F] for byte in random(_RECOVERY_CHARACTERS))
        codes.append("-".join(characters[at : at + 4] for at in range(0, _RECOVERY_CHARACTERS, 4)))
    return tuple(codes)


def recovery_digest(code: str, *, seat_id: str) -> str:
    """Return the stored form of a recovery code: SHA-256 as hex, regardless of case, dashes and spaces.

    120 random bits need no slow hash (ASVS 5.0, 6.5.2, asks for one below 112). The seat id makes the digests of equal
    codes differ between seats. Codes of earlier versions have 16 characters and the same digest.
    """
    plain = "".join(character for character in code.casefold() if character.isalnum())
    return hashlib.sha256(f"{seat_id}:{plain}".encode("utf-8", "surrogatepass")).hexdigest()


def _authenticated_data(seat_id: str, kid: str) -> bytes:
    return f"daybreak totp seed 1 {kid} {seat_id}".encode()
