"""Session tokens: who logged in, by which session, on which account.

Two types (`typ`): `session+jwt` opens the account in its `client_id`; `mfa+jwt` waits for the
second factor and opens nothing but that call. Each type has a derived key of its own, so one can
never pass for the other. A token says who somebody claims to be; whether the session and the grant
still stand is asked of the state database on each request.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from daybreak.credentials.jws import InvalidToken, json_object, open_signed, sign
from daybreak.credentials.keyring import Keyring, Purpose
from daybreak.domain.identity import is_id

__all__ = ["AUDIENCE", "Claims", "InvalidToken", "TokenType", "decode", "encode"]

TokenType = Literal["session+jwt", "mfa+jwt"]
AUDIENCE = "daybreak"
# How far the clocks of two nodes may be apart.
CLOCK_SKEW_SECONDS = 60
_PURPOSES: dict[TokenType, Purpose] = {"session+jwt": "session-jwt", "mfa+jwt": "mfa-jwt"}


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says. Ids are lower-case UUID text, instants are epoch seconds; `client_id` and
    `device_id` are None while the second factor is owed.
    """

    seat_id: str
    sid: str
    jti: str
    amr: tuple[str, ...]
    auth_time: int
    issued_at: int
    expires_at: int
    client_id: str | None = None
    device_id: str | None = None


def encode(claims: Claims, *, typ: TokenType, keyring: Keyring, issuer: str) -> str:
    """The signed token, at most 4 KB."""
    kid, key = keyring.signing_key(_PURPOSES[typ])
    payload: dict[str, object] = {
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": claims.seat_id,
        "sid": claims.sid,
        "jti": claims.jti,
        "amr": list(claims.amr),
        "auth_time": claims.auth_time,
        "iat": claims.issued_at,
        "exp": claims.expires_at,
    }
    if claims.client_id is not None:
        payload["client_id"] = claims.client_id
    if claims.device_id is not None:
        payload["device_id"] = claims.device_id
    return sign(payload, typ=typ, kid=kid, key=key)


def decode(token: str, *, typ: TokenType, keyring: Keyring, issuer: str, now_seconds: float) -> Claims:
    """The claims of a good token of that type. Raises InvalidToken, and only that."""
    claims, not_before = _signed_claims(token, typ, keyring, issuer)
    if claims.expires_at <= now_seconds:
        raise InvalidToken("expired")
    if not_before > now_seconds + CLOCK_SKEW_SECONDS:
        raise InvalidToken("not_yet_valid")
    return claims


@lru_cache(1024)  # a token comes again and again; under the same keys the same text says the same
def _signed_claims(token: str, typ: TokenType, keyring: Keyring, issuer: str) -> tuple[Claims, int]:
    """The claims of a token whose signature is good, and when it begins in epoch seconds. Raises InvalidToken."""
    purpose = _PURPOSES[typ]
    payload = open_signed(token, lambda kid: keyring.derive(kid, purpose), typ=typ)
    said = json_object(payload)
    if said.get("iss") != issuer:
        raise InvalidToken("issuer")
    if said.get("aud") != AUDIENCE:
        raise InvalidToken("audience")
    claims = Claims(
        seat_id=_uuid(said, "sub"),
        sid=_uuid(said, "sid"),
        jti=_uuid(said, "jti"),
        amr=_amr(said),
        auth_time=_seconds(said, "auth_time"),
        issued_at=_seconds(said, "iat"),
        expires_at=_seconds(said, "exp"),
        client_id=_uuid(said, "client_id") if "client_id" in said else None,
        device_id=_uuid(said, "device_id") if "device_id" in said else None,
    )
    if typ == "session+jwt" and (claims.client_id is None or claims.device_id is None):
        raise InvalidToken("claims")
    not_before = _seconds(said, "nbf") if "nbf" in said else claims.issued_at
    return claims, max(not_before, claims.issued_at)


def _uuid(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not is_id(value):
        raise InvalidToken("claims")
    return value


def _seconds(said: dict[str, Any], name: str) -> int:
    value = said.get(name)
    # bool is an int in Python, not in JSON.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise InvalidToken("claims")
    return value


def _amr(said: dict[str, Any]) -> tuple[str, ...]:
    value = said.get("amr")
    if not isinstance(value, list) or not all(isinstance(method, str) for method in value):
        raise InvalidToken("claims")
    return tuple(value)
