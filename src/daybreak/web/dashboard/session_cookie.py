"""Signed cookies: format, reading and writing.

A value is `kid.payload.mac`, an HMAC-SHA256 under a key of the keyring: a guessed or altered value
is rejected without a database query. The session itself is stored in the state database.
"""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from daybreak.credentials.keyring import Keyring, Purpose, is_mac, mac_of

_VALUE = re.compile(r"([0-9a-f]{4,32})\.([0-9a-f-]{16,64})\.([0-9a-f]{64})")
FORM_COOKIE_SECONDS = 3600


def cookie_name(kind: str, *, secure: bool) -> str:
    """Return the cookie's name, over https with the prefix `__Host-` (RFC 6265bis §4.1.3.2).

    Browsers reject the prefix over plain http, which is allowed on the loopback only.
    """
    return f"__Host-daybreak-{kind}" if secure else f"daybreak-{kind}"


def seal(payload: str, *, kind: str, keyring: Keyring, purpose: Purpose = "dashboard-cookie") -> str:
    """Return the signed value for a payload of hex digits and dashes."""
    kid, key = keyring.signing_key(purpose)
    return f"{kid}.{payload}.{mac_of(key, kind, payload)}"


def unseal(value: str | None, *, kind: str, keyring: Keyring, purpose: Purpose = "dashboard-cookie") -> str | None:
    """Return the payload, or None if this service did not write the value for this kind and purpose."""
    found = _VALUE.fullmatch(value or "")
    if found is None:
        return None
    kid, payload, sent = found.groups()
    key = keyring.derive(kid, purpose)
    return payload if key is not None and is_mac(sent, key, kind, payload) else None


def read_cookie(request: Request, kind: str, *, secure: bool, keyring: Keyring) -> str | None:
    """Return the payload of the request's cookie, or None unless exactly one such cookie was sent."""
    return unseal(cookie_value(request, kind, secure=secure), kind=kind, keyring=keyring)


def cookie_value(request: Request, kind: str, *, secure: bool) -> str | None:
    """Return the value of the request's cookie, or None unless exactly one such cookie was sent."""
    name = cookie_name(kind, secure=secure)
    # http.cookies takes quadratic time for quoted values before Python 3.11.10 (CVE-2024-7592). Ours are not quoted.
    pairs = [pair.partition("=") for field in request.headers.getlist("cookie") for pair in field.split(";")]
    values = [value.strip() for key, _, value in pairs if key.strip() == name]
    return values[0] if len(values) == 1 else None


def set_cookie_value(response: Response, kind: str, value: str, *, secure: bool, seconds: int) -> None:
    """Set the cookie: HttpOnly, SameSite=Lax, for the whole host."""
    response.set_cookie(
        cookie_name(kind, secure=secure), value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax"
    )


def clear_cookie(response: Response, kind: str, *, secure: bool) -> None:
    response.delete_cookie(cookie_name(kind, secure=secure), path="/", secure=secure, httponly=True, samesite="lax")
