"""Session tokens: JSON Web Tokens (RFC 7519) that name a seat, a session and an account.

`session+jwt` opens the account in its `client_id`. `mfa+jwt` is issued before the second factor and opens only the call
that checks it. Each type is signed with its own derived key. A valid token does not prove that the session or the grant
still exists: the state database is read on every request.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from joserfc import jwt
from joserfc.errors import BadSignatureError, JoseError
from joserfc.jwk import OctKey
from joserfc.jws import JWSRegistry

from daybreak.credentials.keyring import Keyring, Purpose
from daybreak.credentials.strict_json import StrictDecoder
from daybreak.domain.errors import ReasonError
from daybreak.domain.identity import ID_PATTERN

TokenType = Literal["session+jwt", "mfa+jwt"]
AUDIENCE = "daybreak"
MAXIMUM_LENGTH = 4096
# Maximum difference between the clocks of two nodes.
CLOCK_SKEW_SECONDS = 60
REGISTRY = JWSRegistry(algorithms=["HS256"])
_PURPOSES: Mapping[TokenType, Purpose] = {"session+jwt": "session-jwt", "mfa+jwt": "mfa-jwt"}

_Id = Annotated[str, msgspec.Meta(pattern=rf"\A{ID_PATTERN}\Z")]
# JSON numbers are exact up to 2^53 (RFC 8259 §6).
_Seconds = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    """Claims of a token. Instants are epoch seconds. An `mfa+jwt` has no `client_id` and no `device_id`."""

    seat_id: _Id = msgspec.field(name="sub")
    sid: _Id
    jti: _Id
    amr: tuple[str, ...]
    auth_time: _Seconds
    issued_at: _Seconds = msgspec.field(name="iat")
    expires_at: _Seconds = msgspec.field(name="exp")
    client_id: _Id | None = None
    device_id: _Id | None = None


class InvalidToken(ReasonError):
    """Rejected token. Clients never see the reason."""


def encode(claims: Claims, *, typ: TokenType, keyring: Keyring, issuer: str) -> str:
    """Return the signed token, at most 4 KB long."""
    kid, key = keyring.signing_key(_PURPOSES[typ])
    payload = {"iss": issuer, "aud": AUDIENCE, **msgspec.to_builtins(claims)}
    return _sign(payload, typ, kid, OctKey.import_key(key))


def decode(token: str, *types: TokenType, keyring: Keyring, issuer: str, now_seconds: float) -> Claims:
    """Return the claims of a valid token of one of these types. Raises no error except InvalidToken."""
    typ, claims, not_before = _verify(token, keyring, issuer)
    if typ not in types:
        raise InvalidToken("type")
    if claims.expires_at <= now_seconds:
        raise InvalidToken("expired")
    if not_before > now_seconds + CLOCK_SKEW_SECONDS:
        raise InvalidToken("not_yet_valid")
    return claims


def _sign(payload: dict[str, Any], typ: TokenType, kid: str, key: OctKey) -> str:
    header = {"alg": "HS256", "typ": typ, "kid": kid}
    return jwt.encode(header, payload, key, registry=REGISTRY, default_type=None)


@lru_cache(8)
def _issued_headers(keyring: Keyring) -> Mapping[str, tuple[TokenType, OctKey]]:
    """Map every encoded header that this service issues to its token type and key."""
    headers = {}
    for root in keyring.keys:
        for typ, purpose in _PURPOSES.items():
            derived = keyring.derive(root.kid, purpose)
            if derived is not None:
                key = OctKey.import_key(derived)
                headers[_sign({}, typ, root.kid, key).partition(".")[0]] = (typ, key)
    return headers


@lru_cache(1024)  # A client sends the same token with every request.
def _verify(token: str, keyring: Keyring, issuer: str) -> tuple[TokenType, Claims, int]:
    """Return type, claims and start (epoch seconds) of a token with a valid signature. Raises InvalidToken.

    The header must equal one that this service issues, byte for byte. That rejects other algorithms, unknown keys,
    `crit`, `jku`, `x5u`, `jwk` and repeated members (RFC 8725) before any of them is parsed.
    """
    if len(token) > MAXIMUM_LENGTH:
        raise InvalidToken("too_long")
    issued = _issued_headers(keyring).get(token.partition(".")[0])
    if issued is None:
        raise InvalidToken("header")
    typ, key = issued
    try:
        payload = jwt.decode(token, key, registry=REGISTRY, decoder_cls=StrictDecoder).claims
    except BadSignatureError:
        raise InvalidToken("signature") from None
    except (JoseError, ValueError, RecursionError):
        raise InvalidToken("malformed") from None
    claims, not_before = _claims(payload, typ, issuer)
    return typ, claims, max(not_before, claims.issued_at)


def _claims(payload: dict[str, Any], typ: TokenType, issuer: str) -> tuple[Claims, int]:
    """Return the claims and `nbf` (0 without one). Raises InvalidToken."""
    if payload.get("iss") != issuer:
        raise InvalidToken("issuer")
    if payload.get("aud") != AUDIENCE:
        raise InvalidToken("audience")
    try:
        claims = msgspec.convert(payload, Claims)
        not_before = msgspec.convert(payload.get("nbf", 0), _Seconds)
    except msgspec.ValidationError:
        raise InvalidToken("claims") from None
    if typ == "session+jwt" and (claims.client_id is None or claims.device_id is None):
        raise InvalidToken("claims")
    return claims, not_before
