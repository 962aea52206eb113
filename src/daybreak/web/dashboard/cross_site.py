"""Posts come from our own pages only: by what the browser says of itself, and by a token.

Either would do; both must hold. The token is bound to the session (before there is one, to the
form cookie) and differs on every page, so that compression cannot give it away (BREACH).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.requests import Request

from daybreak.credentials.keyring import Keyring

FIELD = "csrf"
_TOKEN = re.compile(r"([0-9a-f]{4,32})\.([0-9a-f]{32})\.([0-9a-f]{64})")


def form_token(binding: str, *, keyring: Keyring, random: Callable[[int], bytes]) -> str:
    """A token for forms of whoever holds `binding`."""
    kid, key = keyring.signing_key("csrf")
    salt = random(16).hex()
    return f"{kid}.{salt}.{_mac(key, binding, salt)}"


def token_is_good(token: str | None, binding: str, *, keyring: Keyring) -> bool:
    """Whether the token was made for that binding."""
    found = _TOKEN.fullmatch(token or "")
    if found is None:
        return False
    kid, salt, mac = found.groups()
    key = keyring.derive(kid, "csrf")
    return key is not None and hmac.compare_digest(mac, _mac(key, binding, salt))


def from_own_page(request: Request, base_url: str) -> bool:
    """Whether the browser says that the post comes from our own origin.

    `Sec-Fetch-Site` must say so when it is there (`none`: typed or reloaded by the person). An
    `Origin` must be that of `base_url` or, over plain http, of the address the request was sent to
    (a service on the loopback is reached by several names). Our pages send no referrer, and then
    browsers write `null` as the origin of a form (Fetch, "append a request Origin header"): that
    counts only beside a `Sec-Fetch-Site`, which no page can forge. A client that sends neither is
    no browser of the last years; the token alone decides.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    if origin == "null":
        return site is not None
    own = {_origin(base_url)}
    if urlsplit(base_url).scheme == "http":
        own.add(f"http://{request.headers.get('host', '')}")
    return origin in own


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _mac(key: bytes, binding: str, salt: str) -> str:
    return hmac.digest(key, f"{binding}:{salt}".encode(), "sha256").hex()
