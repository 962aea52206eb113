"""Validation of ID tokens (OpenID Connect Core 1.0 §3.1.3.7, RFC 8725).

Only asymmetric algorithms are accepted: with HS256, every party that knows the client secret could issue tokens.
"""

import base64
import hashlib
import hmac
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from daybreak.credentials.strict_json import StrictDecoder
from daybreak.domain.errors import ReasonError
from daybreak.domain.identity import is_subject

MAXIMUM_LENGTH = 32 * 1024
# Maximum difference between the clocks of the provider and of this service.
CLOCK_SKEW_SECONDS = 60
_MINIMUM_RSA_BITS = 2048

PublicKey = RSAKey | ECKey | OKPKey


@dataclass(frozen=True, slots=True)
class _Algorithm:
    """Algorithm of a signature: the key that it needs, and the hash of `at_hash`."""

    key_type: str
    curve: str | None
    hash_name: str


ALGORITHMS: Mapping[str, _Algorithm] = {
    "RS256": _Algorithm("RSA", None, "sha256"),
    "PS256": _Algorithm("RSA", None, "sha256"),
    "ES256": _Algorithm("EC", "P-256", "sha256"),
    "EdDSA": _Algorithm("OKP", "Ed25519", "sha512"),
    "Ed25519": _Algorithm("OKP", "Ed25519", "sha512"),
}
"""Accepted algorithms. EdDSA is the name of Ed25519 before RFC 9864."""
_KEY_CLASSES: Mapping[str, type[PublicKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


@dataclass(frozen=True, slots=True)
class IdToken:
    """Validated claims. `email` is None unless the provider states one; `auth_time` is epoch seconds."""

    issuer: str
    subject: str
    email: str | None
    email_verified: bool
    auth_time: int | None
    second_factor: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """What the claims of an ID token must state."""

    issuer: str
    client_id: str
    nonce: str
    now_seconds: float


class InvalidIdToken(ReasonError):
    """Rejected ID token. The reason is for the log; clients never see it."""


class UnverifiedIdToken(InvalidIdToken):
    """No key of the key set verifies the token. The set may have changed, even under the same key ids."""


def validate(token: str, keys: Sequence[Mapping[str, Any]], expected: Expected, *, access_token: str) -> IdToken:
    """Return the claims of a valid ID token, a compact JWS. `keys` are the JSON Web Keys of the provider, and
    `access_token` is the token that was received with it, for `at_hash`.

    Raises UnverifiedIdToken if no key verifies the signature, and InvalidIdToken for any other reason.
    """
    if len(token) > MAXIMUM_LENGTH:
        raise InvalidIdToken("too_long")
    algorithm, kid = _header(token)
    key = _find_key(keys, algorithm, kid)
    claims = _verified_claims(token, key, algorithm)
    _check_parties(claims, expected)
    _check_times(claims, expected.now_seconds)
    _check_hashes(claims, expected.nonce, access_token, ALGORITHMS[algorithm].hash_name)
    return _id_token(claims)


def _header(token: str) -> tuple[str, str | None]:
    """Return algorithm and key id. Both select the key, before anything is verified."""
    encoded = token.partition(".")[0]
    try:
        content = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        header = json.loads(content, cls=StrictDecoder)
    except (ValueError, RecursionError):
        raise InvalidIdToken("malformed") from None
    if not isinstance(header, dict) or "crit" in header:
        raise InvalidIdToken("header")
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidIdToken("algorithm")
    if kid is not None and not isinstance(kid, str):
        raise InvalidIdToken("header")
    return algorithm, kid


def _find_key(keys: Sequence[Mapping[str, Any]], algorithm: str, kid: str | None) -> PublicKey:
    """Return the only key of the set that the algorithm and key id select."""
    wanted = ALGORITHMS[algorithm]
    found = [
        key
        for key in keys
        if key.get("kty") == wanted.key_type
        and (wanted.curve is None or key.get("crv") == wanted.curve)
        and key.get("use") in (None, "sig")
        and key.get("alg") in (None, algorithm)
        and (kid is None or key.get("kid") == kid)
    ]
    if len(found) != 1:
        raise UnverifiedIdToken("ambiguous_key" if found else "unknown_key")
    # Public members only, and without `use` and `key_ops`, which providers fill in differently.
    public = {name: found[0][name] for name in ("kty", "n", "e", "crv", "x", "y") if name in found[0]}
    try:
        key = _KEY_CLASSES[wanted.key_type].import_key(public)
    except (JoseError, ValueError, TypeError, KeyError):
        raise UnverifiedIdToken("key") from None
    if isinstance(key, RSAKey) and key.public_key.key_size < _MINIMUM_RSA_BITS:
        raise UnverifiedIdToken("key")
    return key


def _verified_claims(token: str, key: PublicKey, algorithm: str) -> Mapping[str, Any]:
    registry = JWSRegistry(algorithms=[algorithm])
    with warnings.catch_warnings():
        # RFC 9864 deprecates the name EdDSA because it fits several curves. The key is on Ed25519, see `_find_key`.
        warnings.simplefilter("ignore", SecurityWarning)
        try:
            return jwt.decode(token, key, registry=registry, decoder_cls=StrictDecoder).claims
        except (JoseError, ValueError, RecursionError):
            raise UnverifiedIdToken("signature") from None


def _check_parties(claims: Mapping[str, Any], expected: Expected) -> None:
    if claims.get("iss") != expected.issuer:
        raise InvalidIdToken("issuer")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if expected.client_id not in audiences:
        raise InvalidIdToken("audience")
    authorized_party = claims.get("azp")
    if authorized_party != expected.client_id and (authorized_party is not None or len(audiences) > 1):
        raise InvalidIdToken("authorized_party")


def _check_times(claims: Mapping[str, Any], now_seconds: float) -> None:
    """Check that the token has an expiry, has not expired, and is not from the future."""
    expires_at, issued_at = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires_at is None or issued_at is None:
        raise InvalidIdToken("times")
    if expires_at + CLOCK_SKEW_SECONDS <= now_seconds:
        raise InvalidIdToken("expired")
    if max(issued_at, _seconds(claims, "nbf") or 0) > now_seconds + CLOCK_SKEW_SECONDS:
        raise InvalidIdToken("not_yet_valid")


def _check_hashes(claims: Mapping[str, Any], nonce: str, access_token: str, hash_name: str) -> None:
    """Check the nonce, and `at_hash` if present (OpenID Connect Core 1.0 §3.1.3.6)."""
    if not _equal(claims.get("nonce"), nonce):
        raise InvalidIdToken("nonce")
    if "at_hash" in claims:
        digest = hashlib.new(hash_name, access_token.encode("utf-8", "surrogatepass")).digest()
        half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).decode().rstrip("=")
        if not _equal(claims["at_hash"], half):
            raise InvalidIdToken("access_token_hash")


def _id_token(claims: Mapping[str, Any]) -> IdToken:
    subject, email = claims.get("sub"), claims.get("email")
    if not isinstance(subject, str) or not is_subject(subject):
        raise InvalidIdToken("subject")
    auth_time = _seconds(claims, "auth_time")
    return IdToken(
        issuer=str(claims["iss"]),
        subject=subject,
        email=email if isinstance(email, str) and email else None,
        # Providers that send a text or leave the claim out have not verified the address.
        email_verified=claims.get("email_verified") is True,
        auth_time=None if auth_time is None else int(auth_time),
        second_factor=_states_second_factor(claims),
    )


# Authentication contexts with several factors: OpenID Connect EAP ACR Values, PAPE 1.0, and Microsoft Entra ID.
_SECOND_FACTOR_CONTEXTS = frozenset(
    {
        "phr",
        "phrh",
        "http://schemas.openid.net/pape/policies/2007/06/multi-factor",
        "http://schemas.microsoft.com/claims/multipleauthn",
    }
)


def _states_second_factor(claims: Mapping[str, Any]) -> bool:
    """Whether the provider states that the user signed in with several factors (RFC 8176 §2, `mfa`)."""
    methods = claims.get("amr")
    if isinstance(methods, list) and "mfa" in methods:
        return True
    context = claims.get("acr")
    return isinstance(context, str) and context in _SECOND_FACTOR_CONTEXTS


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    """Return an instant in epoch seconds, None without one."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 2**53 or math.isnan(value):
        raise InvalidIdToken("times")
    return value


def _equal(value: object, expected: str) -> bool:
    return isinstance(value, str) and hmac.compare_digest(
        value.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )
