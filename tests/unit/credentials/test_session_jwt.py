"""Session tokens: their contents, and rejection of all others with InvalidToken."""

import base64
import hashlib
import hmac
import json
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OctKey
from msgspec.structs import replace

from daybreak.credentials.keyring import Key, Keyring
from daybreak.credentials.session_jwt import REGISTRY, Claims, InvalidToken, TokenType, decode, encode

VECTORS = Path(__file__).parents[2] / "vendored" / "wycheproof" / "jws.json"
NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
ISSUER = "https://data.example.org"
RING = Keyring(
    (
        Key("aa01", "signing", hashlib.sha256(b"first").digest(), NOW),
        Key("aa02", "next", hashlib.sha256(b"second").digest(), NOW),
    )
)
CLAIMS = Claims(
    seat_id="0b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
    sid="1b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
    jti="2b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
    amr=("pwd", "otp"),
    auth_time=SECONDS,
    issued_at=SECONDS,
    expires_at=SECONDS + 7 * 86400,
    client_id="3b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
    device_id="4b7d3c6e-5a51-4d0c-9a3e-0f5d3f0c1a11",
)
MFA_CLAIMS = replace(CLAIMS, client_id=None, device_id=None, amr=("pwd",))
# Issued by Daybreak at commit aa7e92d, before joserfc.
EARLIER_SESSION_TOKEN = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6InNlc3Npb24rand0Iiwia2lkIjoiYWEwMSJ9.eyJpc3MiOiJodHRwczovL2RhdGEuZXhhbXB"
    "sZS5vcmciLCJhdWQiOiJkYXlicmVhayIsInN1YiI6IjBiN2QzYzZlLTVhNTEtNGQwYy05YTNlLTBmNWQzZjBjMWExMSIsInNpZCI"
    "6IjFiN2QzYzZlLTVhNTEtNGQwYy05YTNlLTBmNWQzZjBjMWExMSIsImp0aSI6IjJiN2QzYzZlLTVhNTEtNGQwYy05YTNlLTBmNWQ"
    "zZjBjMWExMSIsImFtciI6WyJwd2QiLCJvdHAiXSwiYXV0aF90aW1lIjoxNzk1MTQ3MjAwLCJpYXQiOjE3OTUxNDcyMDAsImV4cCI"
    "6MTc5NTc1MjAwMCwiY2xpZW50X2lkIjoiM2I3ZDNjNmUtNWE1MS00ZDBjLTlhM2UtMGY1ZDNmMGMxYTExIiwiZGV2aWNlX2lkIjo"
    "iNGI3ZDNjNmUtNWE1MS00ZDBjLTlhM2UtMGY1ZDNmMGMxYTExIn0.DdoXKD1bvK9oEwzAD6oO7gD6WUfZcUTAwgjX-9Cbhtc"
)
EARLIER_MFA_TOKEN = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6Im1mYStqd3QiLCJraWQiOiJhYTAxIn0.eyJpc3MiOiJodHRwczovL2RhdGEuZXhhbXBsZS5v"
    "cmciLCJhdWQiOiJkYXlicmVhayIsInN1YiI6IjBiN2QzYzZlLTVhNTEtNGQwYy05YTNlLTBmNWQzZjBjMWExMSIsInNpZCI6IjFi"
    "N2QzYzZlLTVhNTEtNGQwYy05YTNlLTBmNWQzZjBjMWExMSIsImp0aSI6IjJiN2QzYzZlLTVhNTEtNGQwYy05YTNlLTBmNWQzZjBj"
    "MWExMSIsImFtciI6WyJwd2QiXSwiYXV0aF90aW1lIjoxNzk1MTQ3MjAwLCJpYXQiOjE3OTUxNDcyMDAsImV4cCI6MTc5NTc1MjAw"
    "MH0.sfftPMcSSBGvZ7F1bmfiX11i6e3Jr-FsxF8M19QzlMo"
)


def read(token: str, *types: TokenType, **changes: Any) -> Claims:
    known: dict[str, Any] = {"keyring": RING, "issuer": ISSUER, "now_seconds": SECONDS}
    return decode(token, *(types or ("session+jwt",)), **(known | changes))


def base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def signed(header: bytes, payload: bytes, kid: str = "aa01") -> str:
    """Return a token with any header and payload, and a valid signature."""
    signing_input = f"{base64url(header)}.{base64url(payload)}"
    key = RING.derive(kid, "session-jwt")
    assert key is not None
    return f"{signing_input}.{base64url(hmac.digest(key, signing_input.encode(), 'sha256'))}"


def part_of(token: str, number: int) -> dict[str, Any]:
    part = token.split(".")[number]
    members: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return members


HEADER = b'{"alg":"HS256","typ":"session+jwt","kid":"aa01"}'
TOKEN = encode(CLAIMS, typ="session+jwt", keyring=RING, issuer=ISSUER)
PAYLOAD = part_of(TOKEN, 1)


def test_token_has_the_documented_header_and_claims() -> None:
    assert read(TOKEN) == CLAIMS
    assert part_of(TOKEN, 0) == {"alg": "HS256", "typ": "session+jwt", "kid": "aa01"}
    names = {"iss", "aud", "sub", "sid", "jti", "client_id", "device_id", "amr", "auth_time", "iat", "exp"}
    assert set(PAYLOAD) == names
    mfa_token = encode(MFA_CLAIMS, typ="mfa+jwt", keyring=RING, issuer=ISSUER)
    assert read(mfa_token, "mfa+jwt") == MFA_CLAIMS
    assert set(part_of(mfa_token, 1)) == names - {"client_id", "device_id"}


def test_signature_is_standard_hs256() -> None:
    assert signed(HEADER, json.dumps(PAYLOAD, separators=(",", ":")).encode()) == TOKEN


def test_tokens_of_an_earlier_version_are_accepted() -> None:
    assert read(EARLIER_SESSION_TOKEN) == CLAIMS
    assert read(EARLIER_MFA_TOKEN, "mfa+jwt") == MFA_CLAIMS


def test_token_is_accepted_until_its_key_is_gone() -> None:
    rotated = RING.rotate(NOW, secrets.token_bytes, lifetime=timedelta(days=7))
    assert read(TOKEN, keyring=rotated) == CLAIMS
    newer = encode(CLAIMS, typ="session+jwt", keyring=rotated, issuer=ISSUER)
    assert read(newer, keyring=RING) == CLAIMS
    gone = Keyring((Key("aa01", "gone", b"", NOW), *rotated.keys[1:]))
    with pytest.raises(InvalidToken, match="header"):
        read(TOKEN, keyring=gone)


def test_token_of_one_type_is_not_accepted_as_another() -> None:
    mfa_token = encode(MFA_CLAIMS, typ="mfa+jwt", keyring=RING, issuer=ISSUER)
    with pytest.raises(InvalidToken, match="type"):
        read(mfa_token)
    with pytest.raises(InvalidToken, match="type"):
        read(TOKEN, "mfa+jwt")
    assert read(mfa_token, "session+jwt", "mfa+jwt") == MFA_CLAIMS
    # The types have different keys too.
    with pytest.raises(InvalidToken, match="signature"):
        read(signed(HEADER.replace(b"session", b"mfa"), json.dumps(PAYLOAD).encode()), "mfa+jwt")


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"none","typ":"session+jwt","kid":"aa01"}',
        b'{"alg":"None","typ":"session+jwt","kid":"aa01"}',
        b'{"alg":"HS512","typ":"session+jwt","kid":"aa01"}',
        b'{"alg":"RS256","typ":"session+jwt","kid":"aa01"}',
        b'{"alg":["HS256"],"typ":"session+jwt","kid":"aa01"}',
        b'{"alg":"HS256","typ":"JWT","kid":"aa01"}',
        b'{"alg":"HS256","kid":"aa01"}',
        b'{"alg":"HS256","typ":"session+jwt"}',
        b'{"alg":"HS256","typ":"session+jwt","kid":["aa01"]}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"../../dev/null"}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"aa01\' OR 1=1"}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","jku":"https://x"}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","x5u":"https://x"}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","jwk":{}}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","crit":["exp"]}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","crit":7}',
        b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","b64":false}',
        b'{"alg":"none","alg":"HS256","typ":"session+jwt","kid":"aa01"}',
        b'["alg"]',
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 2000,
        b"",
    ],
)
def test_other_header_is_rejected_despite_a_valid_signature(header: bytes) -> None:
    with pytest.raises(InvalidToken, match="header"):
        read(signed(header, json.dumps(PAYLOAD).encode()))


def test_alg_none_without_signature_is_rejected() -> None:
    header = base64url(b'{"alg":"none","typ":"session+jwt","kid":"aa01"}')
    for signature in ("", "AA", TOKEN.split(".")[2]):
        with pytest.raises(InvalidToken):
            read(f"{header}.{TOKEN.split('.')[1]}.{signature}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://elsewhere.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": ["daybreak"]}, "audience"),
        ({"exp": SECONDS}, "expired"),
        ({"exp": SECONDS - 1}, "expired"),
        ({"exp": None}, "claims"),
        ({"exp": str(SECONDS + 60)}, "claims"),
        ({"exp": True}, "claims"),
        ({"exp": 1e300}, "claims"),
        ({"exp": 10**40}, "claims"),
        ({"nbf": SECONDS + 120}, "not_yet_valid"),
        ({"nbf": "soon"}, "claims"),
        ({"iat": SECONDS + 120}, "not_yet_valid"),
        ({"sub": "0B7D3C6E-5A51-4D0C-9A3E-0F5D3F0C1A11"}, "claims"),
        ({"sub": None}, "claims"),
        ({"sid": 7}, "claims"),
        ({"jti": ""}, "claims"),
        ({"client_id": None}, "claims"),
        ({"device_id": "x"}, "claims"),
        ({"amr": "pwd"}, "claims"),
        ({"amr": [1]}, "claims"),
    ],
)
def test_wrong_claim_is_rejected_despite_a_valid_signature(changes: dict[str, object], reason: str) -> None:
    token = signed(HEADER, json.dumps(PAYLOAD | changes).encode())
    with pytest.raises(InvalidToken, match=reason):
        read(token)


def test_session_token_without_an_account_is_rejected() -> None:
    payload = {name: value for name, value in PAYLOAD.items() if name != "client_id"}
    with pytest.raises(InvalidToken, match="claims"):
        read(signed(HEADER, json.dumps(payload).encode()))


@pytest.mark.parametrize(
    "payload",
    [
        (json.dumps(PAYLOAD)[:-1] + f', "sub": "{PAYLOAD["sub"]}"' + "}").encode(),
        (json.dumps(PAYLOAD)[:-1] + ', "x": NaN}').encode(),
        b"[]",
        b"null",
        b"{",
        b"",
        b"\xff\xfe",
        b'{"x":' + b"[" * 2000,
    ],
)
def test_other_json_is_rejected_despite_a_valid_signature(payload: bytes) -> None:
    with pytest.raises(InvalidToken, match="malformed"):
        read(signed(HEADER, payload))


def test_non_canonical_base64url_is_rejected() -> None:
    parts = TOKEN.split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # 32 bytes leave 2 bits of the last character unused: other characters decode to the same bytes.
    last = alphabet.index(parts[2][-1])
    other = parts[2][:-1] + alphabet[last ^ 1]
    assert base64.urlsafe_b64decode(other + "=") == base64.urlsafe_b64decode(parts[2] + "=")
    spellings = [
        ".".join((*parts[:2], other)),
        TOKEN + "=",
        TOKEN + "\n",
        " " + TOKEN,
        TOKEN.replace(".", ".\n", 1),
        ".".join((parts[0] + "=" * (-len(parts[0]) % 4 or 4), *parts[1:])),
        TOKEN.replace("-", "+").replace("_", "/") + ("" if set("-_") & set(TOKEN) else "+"),
    ]
    for spelling in spellings:
        with pytest.raises(InvalidToken):
            read(spelling)


def test_huge_token_is_rejected_by_its_length() -> None:
    with pytest.raises(InvalidToken, match="too_long"):
        read(TOKEN + "A" * 5000)
    padded = signed(HEADER, json.dumps(PAYLOAD | {"x": "y" * 4000}).encode())
    with pytest.raises(InvalidToken, match="too_long"):
        read(padded)


def wycheproof_cases() -> list[Any]:
    """Return each vector with the key of its group, None where that is not an HMAC key."""
    return [
        pytest.param(group["kid"], group.get("k"), vector, id=f"{vector['tcId']}-{vector['comment']}")
        for group in json.loads(VECTORS.read_text())["groups"]
        for vector in group["tests"]
    ]


# Published as valid although they contain a character that is not base64url.
STRICTER_THAN_WYCHEPROOF = {372, 373}


@pytest.mark.parametrize(("kid", "key", "vector"), wycheproof_cases())
def test_wycheproof_vectors(kid: str, key: str | None, vector: dict[str, Any]) -> None:
    # Without an HMAC key, use the bytes of a public key, as in an algorithm confusion attack.
    octets = base64.urlsafe_b64decode(key + "=") if key is not None else b"the bytes of a public key"
    with pytest.raises(InvalidToken):
        read(vector["jws"], keyring=Keyring((Key(kid, "signing", octets, NOW),)))
    if vector["result"] == "valid" and vector["tcId"] not in STRICTER_THAN_WYCHEPROOF and key is not None:
        assert jws.deserialize_compact(vector["jws"], OctKey.import_key(octets), registry=REGISTRY).payload
    else:
        with pytest.raises(JoseError):
            jws.deserialize_compact(vector["jws"], OctKey.import_key(octets), registry=REGISTRY)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(max_size=300) | st.lists(st.text(max_size=60), min_size=3, max_size=3).map(".".join))
def test_any_text_raises_only_invalid_token(text: str) -> None:
    with pytest.raises(InvalidToken):
        read(text)


@given(header=JSON | st.binary(max_size=80), payload=JSON | st.binary(max_size=80))
def test_any_signed_json_raises_only_invalid_token(header: object, payload: object) -> None:
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)]
    for first in (parts[0], HEADER):
        with pytest.raises(InvalidToken):
            read(signed(first, parts[1]))


@given(name=st.sampled_from(sorted(PAYLOAD)), value=JSON)
def test_any_claim_value_raises_only_invalid_token(name: str, value: object) -> None:
    token = signed(HEADER, json.dumps(PAYLOAD | {name: value}).encode())
    try:
        read(token)
    except InvalidToken:
        return
    assert name in {"amr", "auth_time", "exp", "iat"} or value == PAYLOAD[name]


@given(st.integers(0, len(TOKEN) - 1), st.characters(codec="ascii"))
def test_any_changed_character_is_rejected(at: int, character: str) -> None:
    changed = TOKEN[:at] + character + TOKEN[at + 1 :]
    if changed != TOKEN:
        with pytest.raises(InvalidToken):
            read(changed)


def test_accepted_token_is_checked_again_on_every_call() -> None:
    token = encode(CLAIMS, typ="session+jwt", keyring=RING, issuer=ISSUER)
    for _ in range(2):
        assert read(token) == CLAIMS
    with pytest.raises(InvalidToken, match="expired"):
        read(token, now_seconds=CLAIMS.expires_at)
    with pytest.raises(InvalidToken, match="not_yet_valid"):
        read(token, now_seconds=SECONDS - 61)
    with pytest.raises(InvalidToken, match="type"):
        read(token, "mfa+jwt")
    with pytest.raises(InvalidToken, match="issuer"):
        read(token, issuer="https://other.example.org")
    gone = Keyring((Key("aa01", "gone", b"", NOW), *RING.keys[1:]))
    with pytest.raises(InvalidToken, match="header"):
        read(token, keyring=gone)
    replaced = Keyring((Key("aa01", "verify_only", secrets.token_bytes(32), NOW), *RING.keys[1:]))
    with pytest.raises(InvalidToken, match="signature"):
        read(token, keyring=replaced)
    assert read(token) == CLAIMS


IDS = st.uuids().map(str)
EPOCH_SECONDS = st.integers(0, 2**53 - 1)
ANY_CLAIMS = st.builds(
    Claims,
    seat_id=IDS,
    sid=IDS,
    jti=IDS,
    amr=st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=5).map(tuple),
    auth_time=EPOCH_SECONDS,
    issued_at=EPOCH_SECONDS,
    expires_at=EPOCH_SECONDS,
    client_id=IDS,
    device_id=IDS,
)


@given(ANY_CLAIMS, EPOCH_SECONDS)
def test_any_claims_round_trip_while_they_are_valid(claims: Claims, now_seconds: int) -> None:
    token = encode(claims, typ="session+jwt", keyring=RING, issuer=ISSUER)
    if claims.issued_at - 60 <= now_seconds < claims.expires_at:
        assert read(token, now_seconds=now_seconds) == claims
    else:
        with pytest.raises(InvalidToken):
            read(token, now_seconds=now_seconds)


@given(ANY_CLAIMS, st.data())
def test_any_edited_token_is_rejected(claims: Claims, data: st.DataObject) -> None:
    """A character is replaced, removed or inserted, or a part comes from another valid token."""
    now_seconds = max(0, claims.expires_at - 1)
    parts = encode(claims, typ="session+jwt", keyring=RING, issuer=ISSUER).split(".")
    token = ".".join(parts)
    at = data.draw(st.integers(0, len(token)))
    piece = data.draw(st.characters() | st.sampled_from(["", "A", "=", ".", "-", "_"]))
    edited = token[:at] + piece + token[at + data.draw(st.integers(0, 1)) :]
    number = data.draw(st.integers(1, 2))
    mixed = ".".join([*parts[:number], TOKEN.split(".")[number], *parts[number + 1 :]])
    for changed in {edited, mixed} - {token, TOKEN}:
        with pytest.raises(InvalidToken):
            read(changed, now_seconds=now_seconds)
