"""Passwords: Argon2id at rest, and the rules for a new one.

Parameters are those of OWASP's password storage advice (m=19456 KiB, t=2, p=1). Rules follow NIST
SP 800-63B-4 §3.1.1: length and a list of common passwords, no composition rules, Unicode allowed.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib.resources import files

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

MINIMUM_LENGTH = 10
MAXIMUM_LENGTH = 256
# No NFC text is more than four times as long when it is decomposed (UAX #15).
_LONGEST_IN_ANY_FORM = 4 * MAXIMUM_LENGTH

_HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1, hash_len=32, salt_len=16, type=Type.ID)

# What the library says of it; it has no class of its own for this fault.
_NO_MEMORY = "Memory allocation error"

# A hash of nobody's password, verified when a seat is unknown so that the answer takes as long.
DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$y6hZdLUcZYXMoK/b1tf4RQ$mYyP4/ClBmzYl9ynhbiT02PmfADt2CIczh6oP8QYRDM"


def hash_password(password: str) -> str:
    """The Argon2id hash in PHC text form, with a new random salt. Takes 20 to 30 ms."""
    return _HASHER.hash(_normal_bytes(password))


def verify(password_hash: str, password: str) -> bool:
    """Whether the password is the hash's. False for a hash that is malformed. Takes 20 to 30 ms. Raises MemoryError."""
    try:
        return _HASHER.verify(password_hash, _normal_bytes(password))
    except InvalidHashError:
        return False
    except VerificationError as fault:
        if str(fault) == _NO_MEMORY:
            # Not known, and nobody's wrong password.
            raise MemoryError(_NO_MEMORY) from None
        return False


def needs_rehash(password_hash: str) -> bool:
    """Whether the hash was made with other parameters than today's."""
    return _HASHER.check_needs_rehash(password_hash)


def weakness(password: str, *, email: str) -> str | None:
    """What is wrong with a new password, as a sentence for its owner; None when it may be used."""
    text = _normal(password)
    if len(text) < MINIMUM_LENGTH:
        return f"Use at least {MINIMUM_LENGTH} characters."
    if len(text) > MAXIMUM_LENGTH:
        return f"Use at most {MAXIMUM_LENGTH} characters."
    folded = text.casefold()
    if len(set(folded)) < 5:
        return "Use more different characters."
    if folded in _common():
        return "This is one of the passwords that are guessed first. Choose another one."
    local_part, _, domain = email.casefold().partition("@")
    for word in (email.casefold(), local_part, domain, "daybreak"):
        if len(word) >= 4 and word in folded and len(folded) - len(word) < 6:
            return "Do not build the password from your email address or the name of the service."
    return None


def _normal_bytes(password: str) -> bytes:
    # surrogatepass: JSON can carry lone surrogates; they are a wrong password, not a fault.
    return _normal(password).encode("utf-8", "surrogatepass")


def _normal(text: str) -> str:
    # Normalising takes time by the square of a run of combining marks, and what is too long in any
    # form is nobody's password.
    return text if len(text) > _LONGEST_IN_ANY_FORM else unicodedata.normalize("NFC", text)


@cache
def _common() -> frozenset[str]:
    text = files(__package__).joinpath("common_passwords.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))
