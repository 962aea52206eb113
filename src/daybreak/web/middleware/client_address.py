"""What a proxy changes in a request: the address and the scheme of the client, and the path."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from daybreak.web.request_state import Client, state_of

Networks = tuple[IPv4Network | IPv6Network, ...]
# A longer chain is cut on its left side, which a client can forge.
_MAX_CHAIN_BYTES = 2048
_CACHED_PEERS = 4096


class Peer(msgspec.Struct, frozen=True):
    """An address in its canonical form."""

    address: str
    trusted: bool
    loopback: bool


# The file mode of the socket limits connections to trusted processes.
_UNIX_SOCKET = Peer("", trusted=True, loopback=True)


class ClientAddressMiddleware:
    """Record the client of each request. Forwarded headers count only when a trusted proxy sent them."""

    def __init__(self, app: ASGIApp, trusted_proxies: Networks) -> None:
        self._app = app
        self._trusted_proxies = trusted_proxies
        # Parsing an address takes longer than the rest of this module, and few peers send most requests.
        self._peer = lru_cache(_CACHED_PEERS)(self._parse_peer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state_of(scope)["client"] = self._client(scope)
        await self._app(scope, receive, send)

    def _client(self, scope: Scope) -> Client:
        forwarded_for = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        host = (scope.get("client") or ("", 0))[0]
        peer = self._peer(host) if host else _UNIX_SOCKET
        secure = scope.get("scheme") == "https"
        client, proxied = peer, peer is not None and peer.trusted
        if proxied:
            protocols = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
            if protocols:
                secure = protocols[-1].split(b",")[-1].strip().lower() == b"https"
            client = self._first_untrusted(b",".join(forwarded_for)) or peer
        # A local proxy that is not in the settings may forward requests of remote clients.
        direct = proxied or not forwarded_for
        return Client(
            address=client.address if client is not None else "",
            secure=secure,
            loopback=direct and client is not None and client.loopback,
            proxied=proxied,
        )

    def _first_untrusted(self, chain: bytes) -> Peer | None:
        """Return the rightmost address that is not a trusted proxy, None when an address before it is malformed.

        Addresses to the left of it come from the client and can be forged.
        """
        found = None
        for member in reversed(chain[-_MAX_CHAIN_BYTES:].split(b",")):
            found = self._peer(member.strip().decode("latin-1"))
            if found is None or not found.trusted:
                return found
        return found

    def _parse_peer(self, text: str) -> Peer | None:
        address = parse_address(text)
        if address is None:
            return None
        trusted = any(address in network for network in self._trusted_proxies)
        return Peer(str(address), trusted, address.is_loopback)


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse `192.0.2.7`, `192.0.2.7:80`, `2001:db8::1` or `[2001:db8::1]:80`; None when the text is not an address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


class BasePathMiddleware:
    """Remove the path part of `base_url` from request paths. A proxy may send paths with or without it."""

    def __init__(self, app: ASGIApp, base_path: str) -> None:
        self._app = app
        self._base_path = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        base = self._base_path
        if scope["path"] == base or scope["path"].startswith(base + "/"):
            scope["path"] = scope["path"][len(base) :] or "/"
            scope["raw_path"] = scope.get("raw_path", b"")[len(base) :] or b"/"
        await self._app(scope, receive, send)
