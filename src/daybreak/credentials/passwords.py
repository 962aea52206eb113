"""Password hashing, and the rules for new passwords.

Hashes are Argon2id with the parameters of the OWASP Password Storage Cheat Sheet (m=19456 KiB, t=2, p=1). The rules
follow NIST SP 800-63B-4 §3.1.1: a minimum length and a list of common passwords, no composition rules, any Unicode.
"""

from __future__ import annotations

import base64
import gzip
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from daybreak.credentials import breached_passwords

MINIMUM_LENGTH = 10
MAXIMUM_LENGTH = 256
# Decomposition makes an NFC text at most four times as long (UAX #15 §9).
_MAXIMUM_DECOMPOSED_LENGTH = 4 * MAXIMUM_LENGTH

_HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1, hash_len=32, salt_len=16, type=Type.ID)

# Message of argon2-cffi, which has no exception class for a lack of memory.
_NO_MEMORY = "Memory allocation error"

# Verified for unknown seats, so that the response takes as long as for known ones. Matches no password.
DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$y6hZdLUcZYXMoK/b1tf4RQ$mYyP4/ClBmzYl9ynhbiT02PmfADt2CIczh6oP8QYRDM"


def hash_password(password: str) -> str:
    """Return the Argon2id hash in PHC format, with a new random salt. Takes 20 to 30 ms."""
    return _HASHER.hash(_normal_bytes(password))


def verify(password_hash: str, password: str) -> bool:
    """Return whether the password matches the hash; False for a malformed hash.

    Takes 20 to 30 ms. Raises MemoryError.
    """
    try:
        return _HASHER.verify(password_hash, _normal_bytes(password))
    except InvalidHashError:
        return False
    except VerificationError as fault:
        if str(fault) == _NO_MEMORY:
            # The password may be correct.
            raise MemoryError(_NO_MEMORY) from None
        return False


def needs_rehash(password_hash: str) -> bool:
    """Return whether the hash has outdated parameters."""
    return _HASHER.check_needs_rehash(password_hash)


def new_password(random: Callable[[int], bytes]) -> str:
    """Return a random password of 100 bits, such as `k3fd-7x2m-...`, for an operator to pass on."""
    text = base64.b32encode(random(13)).decode().lower()[:20]
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def weakness(password: str, *, email: str, breached: Path | None = None) -> str | None:
    """Return a sentence for the user that says why a new password is rejected, or None.

    `breached` is a file for `breached_passwords.contains`. Raises Unavailable if it cannot be read.
    """
    text = _normal(password)
    if len(text) < MINIMUM_LENGTH:
        return f"Use at least {MINIMUM_LENGTH} characters."
    if len(text) > MAXIMUM_LENGTH:
        return f"Use at most {MAXIMUM_LENGTH} characters."
    folded = text.strip().casefold()
    if len(set(folded)) < 5:
        return "Use at least 5 different characters."
    if folded in _common_passwords():
        return "This password is too common. Choose another one."
    local_part, _, domain = email.casefold().partition("@")
    for word in (email.casefold(), local_part, domain, "daybreak"):
        if len(word) >= 4 and word in folded and len(folded) - len(word) < 6:
            return "Do not use your email address or the name of the service in the password."
    if breached is not None and breached_passwords.contains(breached, text):
        return "This password was published in a data breach. Choose another one."
    return None


def _normal_bytes(password: str) -> bytes:
    # JSON may contain lone surrogates (RFC 8259 §8.2). They count as a wrong password, not as an error.
    return _normal(password).encode("utf-8", "surrogatepass")


def _normal(text: str) -> str:
    # Normalization takes quadratic time in the number of combining marks. A longer text is not a valid password.
    return text if len(text) > _MAXIMUM_DECOMPOSED_LENGTH else unicodedata.normalize("NFC", text)


@cache
def _common_passwords() -> frozenset[str]:
    """Return the list that Django's CommonPasswordValidator uses, and a list of longer passwords."""
    folder = files(__package__).joinpath("common_passwords")
    lists = gzip.decompress(folder.joinpath("django.txt.gz").read_bytes()), folder.joinpath("zxcvbn.txt").read_bytes()
    lines = b"\n".join(lists).decode().splitlines()
    return frozenset(line for line in lines if not line.startswith("# "))
