"""Forged session tokens, most of them with a valid signature."""

import base64
import hashlib
import hmac
import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import pytest
import requests

from daybreak.credentials.keyring import KeyringFile, Purpose
from tests.acceptance.installation import CARL, FOREIGN, FREYA, MAYA, NORTH, SOUTH, seat_id
from tests.acceptance.service import AUTH, Service

Kind = Literal["session", "pending"]
Members = dict[str, object]
WYCHEPROOF = Path(__file__).parents[1] / "vendored" / "wycheproof" / "jws.json"
PURPOSES: Mapping[Kind, Purpose] = {"session": "session-jwt", "pending": "mfa-jwt"}


def _part(value: object) -> str:
    octets = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def _signed(header: object, claims: object, key: bytes, hash_name: str = "sha256") -> str:
    signed = f"{_part(header)}.{_part(claims)}"
    return f"{signed}.{_part(hmac.digest(key, signed.encode(), hash_name))}"


def _parsed(token: str) -> tuple[Members, Members]:
    head, body, _ = token.split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in (head, body))
    return header, claims


def _without(members: Members, name: str) -> Members:
    return {each: value for each, value in members.items() if each != name}


def _twice(members: Members, first: str) -> bytes:
    """Encode the members with the duplicate `first` in front. Parsers differ in which of two values they use."""
    return json.dumps(members, separators=(",", ":")).replace("{", "{" + first + ",", 1).encode()


def _other_claims(claims: Members, *, kind: Kind) -> dict[str, object]:
    """Return invalid claims by their fault."""
    now = int(time.time())
    found: dict[str, object] = {
        "expired": {**claims, "exp": now - 1},
        "issued later": {**claims, "iat": now + 3600},
        "not before later": {**claims, "nbf": now + 3600},
        "not before is a string": {**claims, "nbf": str(now)},
        "other issuer": {**claims, "iss": "https://elsewhere.example"},
        "issuer is a list": {**claims, "iss": [claims["iss"]]},
        "other audience": {**claims, "aud": "another"},
        "audience is a list": {**claims, "aud": [claims["aud"]]},
        "other seat": {**claims, "sub": seat_id(FREYA)},
        "no session": {**claims, "sid": str(uuid.uuid4())},
        "SQL as the session": {**claims, "sid": "' OR 1=1 --"},
        "SQL as the token id": {**claims, "jti": "' OR 1=1 --"},
        "expiry is a string": {**claims, "exp": str(claims["exp"])},
        "expiry is infinite": {**claims, "exp": 1e400},
        "expiry is a fraction": {**claims, "exp": now + 1000.5},
        "expiry is 2**53": {**claims, "exp": 2**53},
        "expiry has 2500 digits": {**claims, "exp": 10**2499},
        "login before 1970": {**claims, "auth_time": -1},
        "login time is a boolean": {**claims, "auth_time": True},
        "unknown claim is NaN": {**claims, "x": float("nan")},
        "methods are a string": {**claims, "amr": "pwd"},
        "methods are numbers": {**claims, "amr": [1]},
        "expiry twice": _twice(claims, '"exp":9999999999'),
        "a list": [],
        "a string": "x",
        "null": None,
        "not JSON": b"{",
        "not UTF-8": json.dumps(claims).encode().replace(b"}", b',"x":"\xff"}'),
        "deeply nested": b'{"x":' + b"[" * 1400,
        "empty": b"",
        "too long": {**claims, "x": "x" * 3000},
    }
    for name in ("iss", "aud", "sub", "sid", "jti", "amr", "auth_time", "iat", "exp"):
        found[f"without {name}"] = _without(claims, name)
    if kind == "session":
        found["account twice"] = _twice(claims, f'"client_id":"{SOUTH}"')
        found["account is not a UUID"] = {**claims, "client_id": "x"}
        found["device is not a UUID"] = {**claims, "device_id": "x"}
        found["without client_id"] = _without(claims, "client_id")
        found["without device_id"] = _without(claims, "device_id")
    return found


def _other_headers(header: Members, *, kind: Kind) -> dict[str, object]:
    """Return invalid headers by their fault."""
    other_type = "session+jwt" if kind == "pending" else "mfa+jwt"
    return {
        "alg none": {**header, "alg": "none"},
        "alg hs256": {**header, "alg": "hs256"},
        "alg HS512": {**header, "alg": "HS512"},
        "alg RS256": {**header, "alg": "RS256"},
        "alg is a list": {**header, "alg": ["HS256"]},
        "without alg": _without(header, "alg"),
        "typ JWT": {**header, "typ": "JWT"},
        "typ of the other kind": {**header, "typ": other_type},
        "without typ": _without(header, "typ"),
        "kid is a path": {**header, "kid": "../../dev/null"},
        "kid is SQL": {**header, "kid": "' OR 1=1 --"},
        "kid is null": {**header, "kid": None},
        "kid is a list": {**header, "kid": [header["kid"]]},
        "without kid": _without(header, "kid"),
        "jku": {**header, "jku": "https://elsewhere.example/keys"},
        "x5u": {**header, "x5u": "https://elsewhere.example/chain"},
        "jwk": {**header, "jwk": {"kty": "oct", "k": "AAAA"}},
        "crit": {**header, "crit": ["exp"]},
        "b64": {**header, "b64": False, "crit": ["b64"]},
        "zip": {**header, "zip": "DEF"},
        "alg twice": _twice(header, '"alg":"none"'),
        "a list": [],
        "a string": "HS256",
        "not JSON": b"{",
    }


def _other_spellings(token: str, key: bytes) -> dict[str, str]:
    """Return tokens with valid claims and an invalid form or signature."""
    head, body, signature = token.split(".")
    header, claims = _parsed(token)
    return {
        "signed with SHA-512": _signed({**header, "alg": "HS512"}, claims, key, "sha512"),
        "SHA-512 under HS256": _signed(header, claims, key, "sha512"),
        "empty key": _signed(header, claims, b""),
        "unknown kid, empty key": _signed({**header, "kid": "deadbeef"}, claims, b""),
        "path as the kid, empty key": _signed({**header, "kid": "../../dev/null"}, claims, b""),
        "key derived from a word": _signed(header, claims, hashlib.sha256(b"secret").digest()),
        "no signature": f"{head}.{body}.",
        "two parts": f"{head}.{body}",
        "alg none, no signature": f"{_part({**header, 'alg': 'none'})}.{body}.",
        "padding": f"{head}.{body}.{signature}=",
        "more padding": f"{head}.{body}.{signature}==",
        "an extra empty part": f"{token}.",
        "an extra signature": f"{token}.{signature}",
        "unused bits set": f"{head}.{body}.{_other_last_bits(signature)}",
        "one character less": f"{head}.{body}.{signature[:-1]}",
        "two characters less": f"{head}.{body}.{signature[:-2]}",
        "an extra character in the header": f"{head}A.{body}.{signature}",
        "two characters less in the body": f"{head}.{body[:-2]}.{signature}",
        "changed claims": f"{head}.{_part({**claims, 'client_id': SOUTH})}.{signature}",
        "a space": f"{head}. {body}.{signature}",
        "dots": "..",
        "a dot": ".",
        "a letter": "x",
        "three letters": "x.y.z",
        "long parts": "a" * 3000 + ".b.c",
        "long": "eyJ" * 2000,
    }


def _other_last_bits(signature: str) -> str:
    """Return a non-canonical base64url of the same bytes: unused bits are set."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return signature[:-1] + alphabet[alphabet.index(signature[-1]) ^ 1]


@pytest.mark.parametrize("kind", ["session", "pending"])
def test_forged_session_tokens_are_refused(service: Service, kind: Kind) -> None:
    token = service.token(MAYA, NORTH) if kind == "session" else service.log_in(CARL).json()["token"]

    def request_file(forged: str) -> requests.Response:
        return service.request_file(forged, NORTH)

    def send_without_code(forged: str) -> requests.Response:
        # The token is checked before the body, so this does not count as an attempt.
        return service.request("POST", f"{AUTH}/login/callback/mfa", token=forged, json={})

    use: Callable[[str], requests.Response] = request_file if kind == "session" else send_without_code
    accepted = 302 if kind == "session" else 400
    header, claims = _parsed(token)
    key = KeyringFile(service.installation.keyring_file).current().derive(str(header["kid"]), PURPOSES[kind])
    assert key is not None
    # The key is valid, so the tokens below are refused for their content.
    assert use(_signed(header, claims, key)).status_code == accepted
    assert use(_signed(header, {**claims, "x": "unknown", "nbf": claims["iat"]}, key)).status_code == accepted
    forged = {
        f"claims: {name}": _signed(header, changed, key) for name, changed in _other_claims(claims, kind=kind).items()
    }
    headers = _other_headers(header, kind=kind)
    forged |= {f"header: {name}": _signed(changed, claims, key) for name, changed in headers.items()}
    forged |= {f"token: {name}": changed for name, changed in _other_spellings(token, key).items()}
    answers = {name: use(changed) for name, changed in forged.items()}
    assert {name: found.status_code for name, found in answers.items() if found.status_code != 401} == {}
    for name, found in answers.items():
        assert re.match(r'Bearer .*error="', found.headers["WWW-Authenticate"]), name
        assert "eyJ" not in found.text, name
    if kind == "session":
        other_context = _signed(header, {**claims, "client_id": FOREIGN}, key)
        assert use(other_context).status_code == 403, "access depends on the grant, not on the token"


def test_wycheproof_vectors_are_refused(service: Service) -> None:
    groups = json.loads(WYCHEPROOF.read_text())["groups"]
    vectors = [vector["jws"] for group in groups for vector in group["tests"]]
    assert len(vectors) > 50
    for vector in vectors:
        for found in (service.request_file(vector, NORTH), service.answer_second_factor(vector, "123456")):
            assert found.status_code == 401, f"{found.status_code} {found.text}: {vector}"
            assert found.json()["code"] in {"invalid_token", "missing_token"}
