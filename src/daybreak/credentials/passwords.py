"""Password hashing, in one thread of low priority with a bounded queue, and the rules for new passwords.

Hashes are Argon2id with the parameters of the OWASP Password Storage Cheat Sheet (m=19456 KiB, t=2, p=1). The rules
follow NIST SP 800-63B-4 §3.1.1: a minimum length and a list of common passwords, no composition rules, any Unicode.
"""

import asyncio
import base64
import gzip
import hashlib
import os
import threading
import unicodedata
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.resources import files
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from daybreak.domain.errors import Unavailable

MINIMUM_LENGTH = 10
MAXIMUM_LENGTH = 256
# Decomposition makes an NFC text at most four times as long (UAX #15 §9).
_MAXIMUM_DECOMPOSED_LENGTH = 4 * MAXIMUM_LENGTH
FORM_LENGTH = _MAXIMUM_DECOMPOSED_LENGTH + 1
"""Characters that a form reads of a password. A text of this length is never a password."""
# Control characters and surrogates. No form of a browser can send all of them, so the seat could not sign in.
_UNTYPED = frozenset({"Cc", "Cs"})

_HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1, hash_len=32, salt_len=16, type=Type.ID)

# Message of argon2-cffi, which has no exception class for a lack of memory.
_NO_MEMORY = "Memory allocation error"

# Verified for unknown seats, so that the response takes as long as for known ones. Matches no password.
DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$y6hZdLUcZYXMoK/b1tf4RQ$mYyP4/ClBmzYl9ynhbiT02PmfADt2CIczh6oP8QYRDM"

_SHA1_LENGTH = 40

T = TypeVar("T")
# On two cores, more than two hashes at the same time are slower in total.
_THREADS = 1
# Hashes that wait or run, and the maximum time for one, waiting included.
QUEUE_LENGTH = 18
TIMEOUT_SECONDS = 10.0
_NICE = 5
_LOWEST_PRIORITY = 19


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

    `breached` is a file for `is_breached`. Raises Unavailable if it cannot be read.
    """
    text = _normal(password)
    if len(text) < MINIMUM_LENGTH:
        return f"Use at least {MINIMUM_LENGTH} characters."
    if len(text) > MAXIMUM_LENGTH:
        return f"Use at most {MAXIMUM_LENGTH} characters."
    if any(unicodedata.category(character) in _UNTYPED for character in text):
        return "Use no control characters, such as line breaks."
    folded = text.strip().casefold()
    if len(set(folded)) < 5:
        return "Use at least 5 different characters."
    if folded in _common_passwords():
        return "This password is too common. Choose another one."
    local_part, _, domain = email.casefold().partition("@")
    for word in (email.casefold(), local_part, domain, "daybreak"):
        if len(word) >= 4 and word in folded and len(folded) - len(word) < 6:
            return "Do not use your email address or the name of the service in the password."
    if breached is not None and is_breached(text, breached):
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


def is_breached(password: str, file: Path) -> bool:
    """Return whether a file of breached passwords lists the password. Raises Unavailable.

    The downloader of Pwned Passwords writes such files. Each line is the SHA-1 of a password in upper-case hex, a colon
    and a count. Lines are sorted, so a lookup reads about forty lines of a file of 40 GB. SHA-1 protects nothing here.
    """
    text = password.encode("utf-8", "surrogatepass")
    digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().upper().encode()
    try:
        with file.open("rb") as lines:
            end = lines.seek(0, os.SEEK_END)
            place = bisect_left(range(end), digest, key=lambda position: _digest_after(lines, position))
            return _digest_after(lines, place) == digest
    except OSError as fault:
        raise Unavailable("The list of breached passwords cannot be read. Ask your operator.") from fault


def _digest_after(lines: BufferedReader, position: int) -> bytes:
    """Return the digest in the first line that begins at or after a position, `~` after the last one."""
    if position > 0:
        lines.seek(position - 1)
        lines.readline()
    else:
        lines.seek(0)
    return lines.readline()[:_SHA1_LENGTH].upper() or b"~"


class PasswordHashing:
    """Hashes and verifies passwords for one worker."""

    def __init__(self, *, observe: Callable[[int], None] = lambda _pending: None) -> None:
        """Create the thread. `observe` receives the number of hashes that wait or run, when it changes."""
        self._executor = ThreadPoolExecutor(_THREADS, "password-hashing", initializer=_lower_priority)
        self._observe = observe
        self._pending = 0

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Return whether the password matches the hash. None takes as long as a hash and matches no password.

        Raises Unavailable(busy) when the queue is full or the result takes too long.
        """
        known = DUMMY_HASH if password_hash is None else password_hash
        matches = await self._run(lambda: verify(known, password))
        return matches and password_hash is not None

    async def hash(self, password: str) -> str:
        """Return a new hash of the password. Raises as `verify`."""
        return await self._run(lambda: hash_password(password))

    def close(self) -> None:
        """Drop waiting hashes and end the thread."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._pending >= QUEUE_LENGTH:
            raise _busy()
        self._count(1)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                # Cancellation reaches the executor, so an abandoned hash leaves the queue.
                return await asyncio.wrap_future(self._executor.submit(work))
        except (TimeoutError, MemoryError):
            raise _busy() from None
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self._pending += change
        self._observe(self._pending)


def _lower_priority() -> None:
    """Lower the priority of the thread, so that requests run first.

    In the idle scheduling class, a starved thread would keep the interpreter lock.
    """
    # Linux applies the priority to this thread only. Systems without thread ids reject it.
    with suppress(OSError):
        thread = threading.get_native_id()
        nice = os.getpriority(os.PRIO_PROCESS, thread) + _NICE
        os.setpriority(os.PRIO_PROCESS, thread, min(nice, _LOWEST_PRIORITY))


def _busy() -> Unavailable:
    return Unavailable(
        "Too many sign-ins at the same time. Try again in a few seconds.", code="busy", retry_after_seconds=3
    )
