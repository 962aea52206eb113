"""Compact JSON Web Signatures with HMAC-SHA256, and nothing else of RFC 7515.

Stricter than the standard asks, since only this service makes what it reads (RFC 8725): one
algorithm, a header of three known members, canonical base64url, no duplicate members.
"""

from __future__ import annotations

import binascii
import hmac
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MAXIMUM_BYTES = 4096
_COMPACT = re.compile(r"([A-Za-z0-9_-]*)\.([A-Za-z0-9_-]*)\.([A-Za-z0-9_-]*)")
_HEADER_MEMBERS = frozenset({"alg", "typ", "kid"})


class InvalidToken(Exception):
    """A token that is not good. `reason` is a short stable word for logs, never shown outside."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def sign(payload: dict[str, object], *, typ: str, kid: str, key: bytes) -> str:
    """The compact form, with the header `{"alg": "HS256", "typ": typ, "kid": kid}`."""
    header = {"alg": "HS256", "typ": typ, "kid": kid}
    signing_input = b".".join(_encode(json.dumps(part, separators=(",", ":")).encode()) for part in (header, payload))
    signature = hmac.digest(key, signing_input, "sha256")
    return (signing_input + b"." + _encode(signature)).decode()


def open_signed(token: str, key_of: Callable[[str], bytes | None], *, typ: str | None) -> bytes:
    """The payload of a token whose signature is good.

    `key_of` gives the key of a kid, None when there is none. The header must hold `alg` HS256, a
    `kid` and this `typ` (None: no `typ`), and nothing else. Raises InvalidToken, and only that.
    """
    if len(token) > MAXIMUM_BYTES:
        raise InvalidToken("too_long")
    compact = _COMPACT.fullmatch(token)
    if compact is None:
        raise InvalidToken("not_three_parts")
    parts = [part.encode("ascii") for part in compact.groups()]
    stated_typ, kid = _header(parts[0])
    if stated_typ != typ:
        raise InvalidToken("type")
    key = key_of(kid) if isinstance(kid, str) else None
    if key is None:
        raise InvalidToken("unknown_key")
    signature = _decode(parts[2])
    expected = hmac.digest(key, parts[0] + b"." + parts[1], "sha256")
    if not hmac.compare_digest(signature, expected):
        raise InvalidToken("signature")
    return _decode(parts[1])


@lru_cache(64)  # tokens of one key and type begin with the same octets
def _header(part: bytes) -> tuple[Any, Any]:
    """`typ` and `kid` of an encoded header, as they stand there. Raises InvalidToken."""
    header = json_object(_decode(part))
    if not header.keys() <= _HEADER_MEMBERS:
        raise InvalidToken("header_member")
    if header.get("alg") != "HS256":
        raise InvalidToken("algorithm")
    return header.get("typ"), header.get("kid")


def json_object(octets: bytes) -> dict[str, Any]:
    """A JSON object without duplicate members. Raises InvalidToken."""
    try:
        value = _DECODER.decode(octets.decode("utf-8"))
    except (ValueError, RecursionError):
        raise InvalidToken("not_json") from None
    if not isinstance(value, dict):
        raise InvalidToken("not_an_object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidToken("duplicate_member")
    return found


def _no_constant(name: str) -> None:
    # NaN and Infinity, which Python reads and JSON does not have.
    raise InvalidToken("not_json") from ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
# What the last character may be, by how many stand in the last group of four: its stray bits are 0.
_LAST = {0: None, 2: frozenset(b"AQgw"), 3: frozenset(b"AEIMQUYcgkosw048")}


def _encode(octets: bytes) -> bytes:
    return binascii.b2a_base64(octets, newline=False).translate(_TO_URL).rstrip(b"=")


def _decode(part: bytes) -> bytes:
    """The octets of a part, whose characters are base64url's already."""
    # Canonical only: the decoder ignores stray last bits, which would let one token be written in
    # many ways.
    over = len(part) % 4
    if over not in _LAST:
        raise InvalidToken("base64url")
    last = _LAST[over]
    if last is not None and part[-1] not in last:
        raise InvalidToken("base64url")
    return binascii.a2b_base64(part.translate(_FROM_URL) + b"=" * (-over % 4))
