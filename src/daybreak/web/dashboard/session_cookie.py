"""The cookies: which session a browser holds, and what binds a form before there is a session.

A value is `kid.payload.mac`: HMAC-SHA256 under a key of the keyring, so a guessed or altered value
never reaches the database. The session itself lives in the state database and ends there.
"""

from __future__ import annotations

import hmac
import re

from starlette.requests import Request
from starlette.responses import Response

from daybreak.credentials.keyring import Keyring

_VALUE = re.compile(r"([0-9a-f]{4,32})\.([0-9a-f-]{16,64})\.([0-9a-f]{64})")
FORM_COOKIE_SECONDS = 3600


def cookie_name(kind: str, *, secure: bool) -> str:
    """`__Host-` binds the cookie to this host and to https; plain http on the loopback cannot use
    the prefix, since browsers refuse it there.
    """
    return f"__Host-daybreak-{kind}" if secure else f"daybreak-{kind}"


def seal(payload: str, *, kind: str, keyring: Keyring) -> str:
    """A cookie value for a payload of hex digits and dashes."""
    kid, key = keyring.signing_key("dashboard-cookie")
    return f"{kid}.{payload}.{_mac(key, kind, payload)}"


def unseal(value: str | None, *, kind: str, keyring: Keyring) -> str | None:
    """The payload; None for whatever this service did not write."""
    found = _VALUE.fullmatch(value or "")
    if found is None:
        return None
    kid, payload, mac = found.groups()
    key = keyring.derive(kid, "dashboard-cookie")
    if key is None or not hmac.compare_digest(mac, _mac(key, kind, payload)):
        return None
    return payload


def read_cookie(request: Request, kind: str, *, secure: bool, keyring: Keyring) -> str | None:
    """The payload of the request's cookie of that kind; None when there is not exactly one."""
    name = cookie_name(kind, secure=secure)
    # Split here: the standard library's reader takes time by the square of a quoted value's length
    # before Python 3.11.10, and ours are never quoted.
    pairs = [pair.partition("=") for field in request.headers.getlist("cookie") for pair in field.split(";")]
    values = [value.strip() for key, _, value in pairs if key.strip() == name]
    return unseal(values[0], kind=kind, keyring=keyring) if len(values) == 1 else None


def set_cookie(response: Response, kind: str, payload: str, *, secure: bool, keyring: Keyring, seconds: int) -> None:
    """Puts the cookie into the response: HttpOnly, SameSite=Lax, for the whole host."""
    response.set_cookie(
        cookie_name(kind, secure=secure),
        seal(payload, kind=kind, keyring=keyring),
        max_age=seconds,
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )


def clear_cookie(response: Response, kind: str, *, secure: bool) -> None:
    """Takes the cookie away."""
    response.delete_cookie(cookie_name(kind, secure=secure), path="/", secure=secure, httponly=True, samesite="lax")


def _mac(key: bytes, kind: str, payload: str) -> str:
    return hmac.digest(key, f"{kind}:{payload}".encode(), "sha256").hex()
