"""API tokens: `service_api_`, 32 random base62 characters (190 bits) and 6 of checksum.

The checksum rejects a mistyped token without a database query and helps secret scanners avoid false positives. The
database stores the SHA-256 of a token.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable

PREFIX = "service_api_"
# Published for secret scanners.
PATTERN = r"service_api_[0-9A-Za-z]{38}"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(PATTERN, re.ASCII)
_RANDOM_LENGTH = 32
_CHECKSUM_LENGTH = 6


def generate(random: Callable[[int], bytes]) -> str:
    """Return a new token. `random(n)` returns n random bytes."""
    characters: list[str] = []
    while len(characters) < _RANDOM_LENGTH:
        # 248 = 4 * 62. Using larger bytes would make the first eight characters more frequent.
        characters += [_ALPHABET[byte % 62] for byte in random(64) if byte < 248]
    body = PREFIX + "".join(characters[:_RANDOM_LENGTH])
    return body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Return whether prefix, length, alphabet and checksum are valid."""
    if not _TOKEN.fullmatch(token):
        return False
    return token[-_CHECKSUM_LENGTH:] == _checksum(token[:-_CHECKSUM_LENGTH])


def digest(token: str) -> str:
    """Return the stored form: SHA-256 as lower-case hex."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def find_all(text: str) -> list[str]:
    """Return each token with a valid checksum in a text, such as a secret scanner's report, once."""
    return [token for token in dict.fromkeys(_TOKEN.findall(text)) if is_well_formed(token)]


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode("ascii"))
    characters = ""
    for _ in range(_CHECKSUM_LENGTH):
        number, remainder = divmod(number, 62)
        characters = _ALPHABET[remainder] + characters
    return characters
