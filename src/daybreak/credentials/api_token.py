"""API tokens: `service_api_`, 32 random letters and digits, 6 more of checksum.

190 random bits. The checksum lets a mistyped or made-up token be refused without asking the
database, and lets secret scanners tell a real one from a lookalike. At rest: SHA-256.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable

PREFIX = "service_api_"
# The published regular expression, for secret scanners.
PATTERN = r"service_api_[0-9A-Za-z]{38}"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(PATTERN, re.ASCII)
_RANDOM_LETTERS = 32
_CHECKSUM_LETTERS = 6


def mint(random: Callable[[int], bytes]) -> str:
    """A new token from `random`, which gives that many random bytes."""
    letters: list[str] = []
    while len(letters) < _RANDOM_LETTERS:
        # 248 = 4 * 62: bytes above would make the first letters likelier.
        letters += [_ALPHABET[byte % 62] for byte in random(64) if byte < 248]
    body = PREFIX + "".join(letters[:_RANDOM_LETTERS])
    return body + _checksum(body)


def well_formed(token: str) -> bool:
    """Whether prefix, length, alphabet and checksum are right."""
    if not _TOKEN.fullmatch(token):
        return False
    return token[-_CHECKSUM_LETTERS:] == _checksum(token[:-_CHECKSUM_LETTERS])


def digest(token: str) -> str:
    """What is stored: SHA-256, lower-case hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def find_all(text: str) -> list[str]:
    """Every token with a good checksum in a text, such as a secret scanner's report; each once."""
    return [token for token in dict.fromkeys(_TOKEN.findall(text)) if well_formed(token)]


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode("ascii"))
    letters = ""
    for _ in range(_CHECKSUM_LETTERS):
        number, rest = divmod(number, 62)
        letters = _ALPHABET[rest] + letters
    return letters
