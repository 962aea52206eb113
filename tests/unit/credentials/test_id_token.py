"""ID tokens: algorithms, keys and claims."""

import base64
import hashlib
import hmac
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from daybreak.credentials.id_token import Expected, IdToken, InvalidIdToken, validate

NOW = 1_800_000_000
ISSUER, CLIENT_ID, ACCESS_TOKEN = "https://login.example.org/", "daybreak", "the access token"
EXPECTED = Expected(ISSUER, CLIENT_ID, "the nonce", NOW)
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "sub": "user-1", "aud": CLIENT_ID, "iat": NOW - 5, "exp": NOW + 300, "nonce": "the nonce",
    "email": "rosa@example.org", "email_verified": True,
}  # fmt: skip
RSA, OTHER_RSA = (RSAKey.generate_key(2048, {"kid": "rsa"}) for _ in range(2))
EC, P384 = (ECKey.generate_key(curve, {"kid": "ec"}) for curve in ("P-256", "P-384"))
ED = OKPKey.generate_key("Ed25519", {"kid": "ed"})
Key = RSAKey | ECKey | OKPKey
KEYS = [key.as_dict(private=False) for key in (RSA, EC, ED)]


def sign(claims: dict[str, Any], key: Key = RSA, algorithm: str = "RS256", **header: Any) -> str:
    header = {"alg": algorithm, "kid": key.kid, **header}
    header = {name: value for name, value in header.items() if value is not None}
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # EdDSA
        return jwt.encode(header, claims, key, registry=registry)


def check(token: str, keys: Any = KEYS) -> IdToken:
    return validate(token, keys, EXPECTED, access_token=ACCESS_TOKEN)


def reason_of(token: str, keys: Any = KEYS) -> str:
    with pytest.raises(InvalidIdToken) as refused:
        check(token, keys)
    return refused.value.reason


def encoded(part: object) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519")]
)
def test_asymmetric_algorithms_are_accepted(key: Key, algorithm: str) -> None:
    hash_name = "sha512" if key is ED else "sha256"
    digest = hashlib.new(hash_name, ACCESS_TOKEN.encode()).digest()
    at_hash = encoded(digest[: len(digest) // 2])
    assert check(sign({**CLAIMS, "at_hash": at_hash}, key, algorithm)).subject == "user-1"
    assert reason_of(sign({**CLAIMS, "at_hash": at_hash[:-1] + "_"}, key, algorithm)) == "access_token_hash"


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS384", "RS512", "ES384", "ES256K", "", None, 7, ["RS256"]])
def test_other_algorithms_are_refused(algorithm: object) -> None:
    token = f"{encoded({'alg': algorithm, 'kid': 'rsa'})}.{encoded(CLAIMS)}."
    assert reason_of(token) == "algorithm"


def test_hmac_with_the_public_key_is_refused() -> None:
    secret = RSA.as_pem(private=False)
    text = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{encoded(CLAIMS)}"
    token = f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"
    assert reason_of(token) == "algorithm"
    # Also if the key set contains a symmetric key.
    assert reason_of(token, [{"kty": "oct", "k": encoded(secret), "kid": "rsa"}]) == "algorithm"


@pytest.mark.parametrize("header", [{"crit": ["b64"]}, {"kid": 7}])
def test_unsupported_headers_are_refused(header: dict[str, object]) -> None:
    assert reason_of(f"{encoded({'alg': 'RS256', 'kid': 'rsa', **header})}.{encoded(CLAIMS)}.x") == "header"


@pytest.mark.parametrize(
    "header", [{"jwk": OTHER_RSA.as_dict(private=False)}, {"jku": "http://127.0.0.1/"}, {"x5u": "http://127.0.0.1/"}]
)
def test_keys_of_the_header_are_ignored(header: dict[str, Any]) -> None:
    assert reason_of(sign(CLAIMS, OTHER_RSA, **header)) == "signature"


def test_key_is_selected_by_id_and_use() -> None:
    published = RSA.as_dict(private=False)
    other = {**OTHER_RSA.as_dict(private=False), "kid": "other"}
    assert check(sign(CLAIMS), [other, published]).subject == "user-1"
    assert check(sign(CLAIMS, kid=None), [published]).subject == "user-1"
    assert reason_of(sign(CLAIMS, kid=None), [other, published]) == "ambiguous_key"
    assert reason_of(sign(CLAIMS), [other]) == "unknown_key"
    assert reason_of(sign(CLAIMS), [{**published, "use": "enc"}]) == "unknown_key"
    assert reason_of(sign(CLAIMS), [{**published, "alg": "PS256"}]) == "unknown_key"
    assert reason_of(sign(CLAIMS), []) == "unknown_key"


@pytest.mark.parametrize(
    "keys",
    [
        [{"kty": "RSA", "kid": "rsa", "n": encoded(b"\xc1" * 128), "e": "AQAB"}],  # 1024 bits
        [{"kty": "RSA", "kid": "rsa"}],
        [{"kty": "RSA", "kid": "rsa", "n": 7, "e": []}],
        [{"kty": "RSA", "kid": "rsa", "n": "!", "e": "AQAB"}],
    ],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_weak_and_malformed_keys_are_refused(keys: list[dict[str, object]]) -> None:
    assert reason_of(sign(CLAIMS), keys) == "key"


def test_key_on_another_curve_is_not_used() -> None:
    assert reason_of(sign(CLAIMS, EC, "ES256"), [P384.as_dict(private=False)]) == "unknown_key"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": ISSUER.rstrip("/")}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "another"}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": {CLIENT_ID: 1}}, "audience"),
        ({"aud": [CLIENT_ID, "another"]}, "authorized_party"),
        ({"aud": [CLIENT_ID, "another"], "azp": "another"}, "authorized_party"),
        ({"azp": "another"}, "authorized_party"),
        ({"azp": ""}, "authorized_party"),
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"nonce": ["the nonce"]}, "nonce"),
        ({"exp": NOW - 60}, "expired"),
        ({"exp": None}, "times"),
        ({"exp": "1900000000"}, "times"),
        ({"exp": True}, "times"),
        ({"exp": 10**400}, "times"),
        ({"iat": None}, "times"),
        ({"iat": NOW + 61}, "not_yet_valid"),
        ({"nbf": NOW + 61}, "not_yet_valid"),
        ({"at_hash": "another"}, "access_token_hash"),
        ({"at_hash": None}, "access_token_hash"),
        ({"sub": None}, "subject"),
        ({"sub": ""}, "subject"),
        ({"sub": 7}, "subject"),
        ({"sub": "x" * 256}, "subject"),
        ({"sub": "user\x00"}, "subject"),
        ({"auth_time": "now"}, "times"),
    ],
)
def test_invalid_claims_are_refused(changes: dict[str, object], reason: str) -> None:
    assert reason_of(sign({**CLAIMS, **changes})) == reason


@pytest.mark.parametrize("name", ["iss", "aud", "nonce", "exp", "iat", "sub"])
def test_missing_claims_are_refused(name: str) -> None:
    reason_of(sign({each: value for each, value in CLAIMS.items() if each != name}))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": [CLIENT_ID]},
        {"azp": CLIENT_ID},
        {"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID},
        {"exp": NOW - 59},
        {"iat": NOW + 60, "nbf": NOW + 60},
        {"exp": NOW + 0.5},
    ],
)
def test_valid_claims_are_accepted(changes: dict[str, object]) -> None:
    assert check(sign({**CLAIMS, **changes})).subject == "user-1"


def test_repeated_claims_are_refused() -> None:
    payload = json.dumps(CLAIMS)[:-1] + ', "sub": "user-2"}'
    header = encoded({"alg": "RS256", "kid": "rsa"})
    text = f"{header}.{encoded(payload.encode())}"
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    signature = RSA.private_key.sign(text.encode(), PKCS1v15(), SHA256())  # type: ignore[union-attr]
    assert reason_of(f"{text}.{encoded(signature)}") == "signature"


@pytest.mark.parametrize(
    ("claims", "stated"),
    [
        ({}, False),
        ({"amr": ["pwd"]}, False),
        ({"amr": "mfa"}, False),
        ({"amr": ["pwd", "mfa"]}, True),
        ({"acr": "1"}, False),
        ({"acr": ["phr"]}, False),
        ({"acr": "phrh"}, True),
    ],
)
def test_second_factor_is_read_from_amr_and_acr(claims: dict[str, object], stated: bool) -> None:
    assert check(sign({**CLAIMS, **claims})).second_factor is stated


@pytest.mark.parametrize("value", [True, False, "true", 1, None])
def test_only_true_verifies_an_email(value: object) -> None:
    assert check(sign({**CLAIMS, "email_verified": value})).email_verified is (value is True)


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token + "x",
        lambda token: token.replace(".", "..", 1),
        lambda token: token.rsplit(".", 1)[0],
        lambda token: token.rsplit(".", 1)[0] + ".",
        lambda token: token + "." * 10,
        lambda _: "",
        lambda _: "." * 40_000,
        lambda _: "é.é.é",
        lambda _: encoded(b"[" * 9_000) + ".x.x",
    ],
)
def test_altered_token_is_refused(change: Callable[[str], str]) -> None:
    reason_of(change(sign(CLAIMS)))


def test_long_token_is_refused_despite_a_valid_signature() -> None:
    assert reason_of(sign({**CLAIMS, "groups": "x" * 32_000})) == "too_long"


@given(st.text(max_size=200))
def test_any_text_is_refused_with_a_reason(text: str) -> None:
    reason_of(text)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_claim_value_is_refused_with_a_reason(value: object) -> None:
    for name in ("iss", "aud", "nonce", "exp", "iat", "sub", "at_hash", "azp", "nbf", "auth_time"):
        try:
            check(sign({**CLAIMS, name: value}))
        except InvalidIdToken:
            continue
        assert name not in ("iss", "aud", "nonce") or value is None or value == CLAIMS[name]
