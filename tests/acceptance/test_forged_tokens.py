"""Forged session tokens, most of them with a valid signature. Tests of the credentials have every form of a token."""

import base64
import hmac
import json
import re
import time
import uuid
from collections.abc import Mapping
from typing import Literal

import pytest
import requests

from daybreak.credentials.keyring import KeyringFile, Purpose
from tests.acceptance.installation import CARL, FOREIGN, FREYA, MAYA, NORTH, SOUTH, seat_id
from tests.acceptance.service import AUTH, Service

Kind = Literal["session", "pending"]
PURPOSES: Mapping[Kind, Purpose] = {"session": "session-jwt", "pending": "mfa-jwt"}


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).rstrip(b"=").decode()


def _signed(header: object, claims: object, key: bytes) -> str:
    signed = f"{_part(header)}.{_part(claims)}"
    signature = base64.urlsafe_b64encode(hmac.digest(key, signed.encode(), "sha256")).rstrip(b"=").decode()
    return f"{signed}.{signature}"


@pytest.mark.parametrize("kind", ["session", "pending"])
def test_forged_session_tokens_are_refused(service: Service, kind: Kind) -> None:
    token = service.token(MAYA, NORTH) if kind == "session" else service.log_in(CARL).json()["token"]

    def use(forged: str) -> requests.Response:
        if kind == "session":
            return service.request_file(forged, NORTH)
        # The token is checked before the body, so this does not count as an attempt.
        return service.request("POST", f"{AUTH}/login/callback/mfa", token=forged, json={})

    accepted = 302 if kind == "session" else 400
    head, body, signature = token.split(".")
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in (head, body))
    key = KeyringFile(service.installation.keyring_file).current().derive(str(header["kid"]), PURPOSES[kind])
    assert key is not None
    # The key is valid, so the tokens below are refused for their content.
    assert use(_signed(header, claims, key)).status_code == accepted
    assert use(_signed(header, {**claims, "x": "unknown", "nbf": claims["iat"]}, key)).status_code == accepted
    now = int(time.time())
    other_claims: dict[str, dict[str, object]] = {
        "expired": {"exp": now - 1},
        "issued later": {"iat": now + 3600},
        "other issuer": {"iss": "https://elsewhere.example"},
        "other audience": {"aud": "another"},
        "other seat": {"sub": seat_id(FREYA)},
        "no session": {"sid": str(uuid.uuid4())},
        "SQL as the session": {"sid": "' OR 1=1 --"},
        "SQL as the token id": {"jti": "' OR 1=1 --"},
    }
    forged = {name: _signed(header, {**claims, **changes}, key) for name, changes in other_claims.items()}
    forged |= {
        "type of the other kind": _signed(
            {**header, "typ": "session+jwt" if kind == "pending" else "mfa+jwt"}, claims, key
        ),
        "path as the kid, empty key": _signed({**header, "kid": "../../dev/null"}, claims, b""),
        "alg none, no signature": f"{_part({**header, 'alg': 'none'})}.{body}.",
        "changed claims": f"{head}.{_part({**claims, 'client_id': SOUTH})}.{signature}",
        "two parts": f"{head}.{body}",
        "a letter": "x",
        "long": "eyJ" * 2000,
    }
    answers = {name: use(changed) for name, changed in forged.items()}
    assert {name: found.status_code for name, found in answers.items() if found.status_code != 401} == {}
    for name, found in answers.items():
        assert re.match(r'Bearer .*error="', found.headers["WWW-Authenticate"]), name
        assert "eyJ" not in found.text, name
    if kind == "session":
        other_context = _signed(header, {**claims, "client_id": FOREIGN}, key)
        assert use(other_context).status_code == 403, "access depends on the grant, not on the token"
