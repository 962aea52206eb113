"""Session tokens: what is made, what is refused, and that nothing but InvalidToken comes out."""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import OctKey

from daybreak.credentials.jws import InvalidToken, open_signed
from daybreak.credentials.keyring import Key, Keyring
from daybreak.credentials.session_jwt import Claims, decode, encode

VECTORS = Path(__file__).parents[2] / "vendored" / "wycheproof" / "jws.json"
NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
ISSUER = "https://data.example.org"
RING = Keyring(
    (
        Key("aa01", "signing", secrets.token_bytes(32), NOW),
        Key("aa02", "next", secrets.token_bytes(32), NOW),
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
WAITING = replace(CLAIMS, client_id=None, device_id=None, amr=("pwd",))


def read(token: str, **changes: Any) -> Claims:
    known: dict[str, Any] = {
        "typ": "session+jwt",
        "keyring": RING,
        "issuer": ISSUER,
        "now_seconds": SECONDS,
    }
    return decode(token, **(known | changes))


def base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def signed(header: bytes, payload: bytes, kid: str = "aa01") -> str:
    """Any header and payload with a signature that is right for the session key."""
    signing_input = f"{base64url(header)}.{base64url(payload)}"
    key = RING.derive(kid, "session-jwt")
    assert key is not None
    return f"{signing_input}.{base64url(hmac.digest(key, signing_input.encode(), 'sha256'))}"


def payload_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    said: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return said


GOOD_HEADER = b'{"alg":"HS256","typ":"session+jwt","kid":"aa01"}'
TOKEN = encode(CLAIMS, typ="session+jwt", keyring=RING, issuer=ISSUER)
PAYLOAD = payload_of(TOKEN)


def test_what_is_made_reads_back_with_header_and_claims_as_promised() -> None:
    assert read(TOKEN) == CLAIMS
    head = TOKEN.split(".")[0]
    assert json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))) == {
        "alg": "HS256",
        "typ": "session+jwt",
        "kid": "aa01",
    }
    assert set(PAYLOAD) == {
        "iss",
        "aud",
        "sub",
        "sid",
        "jti",
        "client_id",
        "device_id",
        "amr",
        "auth_time",
        "iat",
        "exp",
    }
    waiting = encode(WAITING, typ="mfa+jwt", keyring=RING, issuer=ISSUER)
    assert read(waiting, typ="mfa+jwt") == WAITING


def test_an_independent_library_reads_ours_and_we_read_its() -> None:
    key = RING.derive("aa01", "session-jwt")
    assert key is not None
    theirs = jwt.decode(TOKEN, OctKey.import_key(key), algorithms=["HS256"])
    assert theirs.claims == PAYLOAD
    header = {"alg": "HS256", "typ": "session+jwt", "kid": "aa01"}
    made = jwt.encode(header, PAYLOAD, OctKey.import_key(key))
    assert read(made) == CLAIMS


def test_a_token_of_every_key_that_is_not_gone_is_read() -> None:
    rotated = RING.rotate(NOW, secrets.token_bytes, lifetime=timedelta(days=7))
    assert read(TOKEN, keyring=rotated) == CLAIMS
    newer = encode(CLAIMS, typ="session+jwt", keyring=rotated, issuer=ISSUER)
    assert read(newer, keyring=RING) == CLAIMS
    gone = Keyring((replace(RING.keys[0], state="gone", secret=b""), *rotated.keys[1:]))
    with pytest.raises(InvalidToken, match="unknown_key"):
        read(TOKEN, keyring=gone)


def test_the_waiting_token_is_no_session_token_nor_the_other_way_round() -> None:
    waiting = encode(WAITING, typ="mfa+jwt", keyring=RING, issuer=ISSUER)
    with pytest.raises(InvalidToken, match="type"):
        read(waiting)
    with pytest.raises(InvalidToken, match="type"):
        read(TOKEN, typ="mfa+jwt")
    # Not by its type alone: the keys of the two differ too.
    with pytest.raises(InvalidToken, match="signature"):
        open_signed(waiting, lambda kid: RING.derive(kid, "session-jwt"), typ="mfa+jwt")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b'{"alg":"none","typ":"session+jwt","kid":"aa01"}', "algorithm"),
        (b'{"alg":"None","typ":"session+jwt","kid":"aa01"}', "algorithm"),
        (b'{"alg":"HS512","typ":"session+jwt","kid":"aa01"}', "algorithm"),
        (b'{"alg":"RS256","typ":"session+jwt","kid":"aa01"}', "algorithm"),
        (b'{"alg":["HS256"],"typ":"session+jwt","kid":"aa01"}', "algorithm"),
        (b'{"alg":"HS256","typ":"JWT","kid":"aa01"}', "type"),
        (b'{"alg":"HS256","kid":"aa01"}', "type"),
        (b'{"alg":"HS256","typ":"session+jwt"}', "unknown_key"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":["aa01"]}', "unknown_key"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":"../../dev/null"}', "unknown_key"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":"aa01\' OR 1=1"}', "unknown_key"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","jku":"https://x"}', "header_member"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","x5u":"https://x"}', "header_member"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","jwk":{}}', "header_member"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","crit":["exp"]}', "header_member"),
        (b'{"alg":"HS256","typ":"session+jwt","kid":"aa01","b64":false}', "header_member"),
        (b'{"alg":"none","alg":"HS256","typ":"session+jwt","kid":"aa01"}', "duplicate_member"),
        (b"[]", "not_an_object"),
        (b"{", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[" * 2000, "not_json"),
    ],
)
def test_header_tricks_are_refused_though_the_signature_is_right(header: bytes, reason: str) -> None:
    token = signed(header, json.dumps(PAYLOAD).encode())
    with pytest.raises(InvalidToken, match=reason):
        read(token)


def test_none_without_a_signature_is_refused() -> None:
    header = base64url(b'{"alg":"none","typ":"session+jwt","kid":"aa01"}')
    for tail in ("", "AA", TOKEN.split(".")[2]):
        with pytest.raises(InvalidToken):
            read(f"{header}.{TOKEN.split('.')[1]}.{tail}")


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
def test_claims_that_are_wrong_are_refused_though_the_signature_is_right(
    changes: dict[str, object], reason: str
) -> None:
    token = signed(GOOD_HEADER, json.dumps(PAYLOAD | changes).encode())
    with pytest.raises(InvalidToken, match=reason):
        read(token)


def test_a_session_token_without_an_account_is_refused() -> None:
    payload = {name: value for name, value in PAYLOAD.items() if name != "client_id"}
    with pytest.raises(InvalidToken, match="claims"):
        read(signed(GOOD_HEADER, json.dumps(payload).encode()))


def test_duplicate_claims_are_refused() -> None:
    text = json.dumps(PAYLOAD)
    doubled = text[:-1] + f', "sub": "{PAYLOAD["sub"]}"' + "}"
    with pytest.raises(InvalidToken, match="duplicate_member"):
        read(signed(GOOD_HEADER, doubled.encode()))


def test_only_the_canonical_spelling_of_a_token_is_read() -> None:
    parts = TOKEN.split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    # 32 bytes leave 4 bits of the last letter unused: other letters decode to the same bytes.
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


def test_a_huge_token_is_refused_by_its_length() -> None:
    with pytest.raises(InvalidToken, match="too_long"):
        read(TOKEN + "A" * 5000)
    padded = signed(GOOD_HEADER, json.dumps(PAYLOAD | {"x": "y" * 4000}).encode())
    with pytest.raises(InvalidToken, match="too_long"):
        read(padded)


def wycheproof_cases() -> list[Any]:
    """Each vector with the key of its group, None where it is no HMAC key."""
    return [
        pytest.param(group["kid"], group.get("k"), vector, id=f"{vector['tcId']}-{vector['comment']}")
        for group in json.loads(VECTORS.read_text())["groups"]
        for vector in group["tests"]
    ]


# Published as valid although they hold a letter that base64url does not have.
STRICTER_THAN_WYCHEPROOF = {372, 373}


@pytest.mark.parametrize(("kid", "key", "vector"), wycheproof_cases())
def test_the_wycheproof_vectors(kid: str, key: str | None, vector: dict[str, Any]) -> None:
    # The bytes of a public key stand in where there is no secret: what an algorithm confused would verify with.
    octets = base64.urlsafe_b64decode(key + "=") if key is not None else b"the bytes of a public key"
    keys = {kid: octets}
    good = vector["result"] == "valid" and vector["tcId"] not in STRICTER_THAN_WYCHEPROOF
    if good and key is not None:
        assert open_signed(vector["jws"], keys.get, typ=None)
    else:
        with pytest.raises(InvalidToken):
            open_signed(vector["jws"], keys.get, typ=None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(max_size=300) | st.lists(st.text(max_size=60), min_size=3, max_size=3).map(".".join))
def test_any_text_is_refused_with_the_one_error(text: str) -> None:
    with pytest.raises(InvalidToken):
        read(text)


@given(header=JSON | st.binary(max_size=80), payload=JSON | st.binary(max_size=80))
def test_any_signed_header_and_payload_is_refused_with_the_one_error(header: object, payload: object) -> None:
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)]
    for first in (parts[0], GOOD_HEADER):
        with pytest.raises(InvalidToken):
            read(signed(first, parts[1]))


@given(name=st.sampled_from(sorted(PAYLOAD)), value=JSON)
def test_any_value_of_any_claim_is_read_or_refused_with_the_one_error(name: str, value: object) -> None:
    token = signed(GOOD_HEADER, json.dumps(PAYLOAD | {name: value}).encode())
    try:
        read(token)
    except InvalidToken:
        return
    assert name in {"amr", "auth_time", "exp", "iat"} or value == PAYLOAD[name]


@given(st.integers(0, len(TOKEN) - 1), st.characters(codec="ascii"))
def test_any_changed_letter_is_refused(at: int, letter: str) -> None:
    changed = TOKEN[:at] + letter + TOKEN[at + 1 :]
    if changed != TOKEN:
        with pytest.raises(InvalidToken):
            read(changed)


def test_a_token_that_was_good_is_judged_anew_by_the_clock_and_by_the_keys() -> None:
    token = encode(CLAIMS, typ="session+jwt", keyring=RING, issuer=ISSUER)
    for _ in range(2):
        assert read(token) == CLAIMS
    with pytest.raises(InvalidToken, match="expired"):
        read(token, now_seconds=CLAIMS.expires_at)
    with pytest.raises(InvalidToken, match="not_yet_valid"):
        read(token, now_seconds=SECONDS - 61)
    with pytest.raises(InvalidToken, match="type"):
        read(token, typ="mfa+jwt")
    with pytest.raises(InvalidToken, match="issuer"):
        read(token, issuer="https://other.example.org")
    gone = Keyring((Key("aa01", "gone", b"", NOW), *RING.keys[1:]))
    with pytest.raises(InvalidToken, match="unknown_key"):
        read(token, keyring=gone)
    replaced = Keyring((Key("aa01", "verify_only", secrets.token_bytes(32), NOW), *RING.keys[1:]))
    with pytest.raises(InvalidToken, match="signature"):
        read(token, keyring=replaced)
    assert read(token) == CLAIMS
