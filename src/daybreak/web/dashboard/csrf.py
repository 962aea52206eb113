"""Protection against cross-site request forgery.

A form is accepted if the browser reports our own origin and the form holds a valid token. The token
is bound to the session, or to the form cookie before sign-in. It differs on every page, so that
response sizes under compression do not reveal it (BREACH, CVE-2013-3587).
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.requests import Request

from daybreak.credentials.keyring import Keyring
from daybreak.web.dashboard.session_cookie import seal, unseal

FIELD = "csrf"


def create_form_token(binding: str, *, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """Return a new form token that is valid for `binding`, a session id or the form cookie's value."""
    return seal(random(16).hex(), kind=binding, keyring=keyring, purpose="csrf")


def verify_form_token(token: str | None, binding: str, *, keyring: Keyring) -> bool:
    return unseal(token, kind=binding, keyring=keyring, purpose="csrf") is not None


def salt_of(token: str) -> str:
    """Return the part of a valid token that identifies its form."""
    return token.split(".")[1]


def is_same_origin(request: Request, base_url: str) -> bool:
    """Return whether the browser reports that the form was sent from our own origin.

    `Sec-Fetch-Site`, if sent, must be `same-origin`, or `none` (the user typed or reloaded the URL).
    `Origin`, if sent, must be that of `base_url`; over plain http also that of the Host header,
    because a service on the loopback has several names. Our pages send no referrer, so browsers send
    `Origin: null` with a form (Fetch Standard, "append a request Origin header"); that is accepted
    only together with `Sec-Fetch-Site`, which no script can set. A client that sends neither header
    is not a current browser: the form token alone decides.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    if origin == "null":
        return site is not None
    own_origins = {_origin(base_url)}
    if urlsplit(base_url).scheme == "http":
        own_origins.add(f"http://{request.headers.get('host', '')}")
    return origin in own_origins


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
