"""What is known of a request before any route sees it: who sent it, how, under which id."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import msgspec
from starlette.requests import Request
from starlette.types import Scope

from daybreak.domain.identity import Caller

SCOPE_KEY = "daybreak.facts"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")
_HOST = re.compile(rb"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
Networks = Sequence[IPv4Network | IPv6Network]
_KNOWN_AT_MOST = 4096


class Peer(msgspec.Struct, frozen=True):
    """An address as it is written in short, whether a trusted proxy's, whether of this machine."""

    address: str
    trusted: bool
    loopback: bool


class Peers:
    """Who asks or passes a request on, by addresses as they come: few ask again and again, so each is read once."""

    def __init__(self, trusted: Networks) -> None:
        """`trusted` are the networks of proxies whose word counts."""
        self._trusted = tuple(trusted)
        self._known: dict[str, Peer | None] = {}

    def peer(self, text: str) -> Peer | None:
        """The peer of `192.0.2.7`, `[::1]:4711` and the like; None when the text is no address."""
        try:
            return self._known[text]
        except KeyError:
            found = self._judged(text)
        if len(self._known) >= _KNOWN_AT_MOST:
            self._known.clear()
        self._known[text] = found
        return found

    def _judged(self, text: str) -> Peer | None:
        address = _parse_address(text)
        if address is None:
            return None
        return Peer(str(address), any(address in network for network in self._trusted), address.is_loopback)


class RequestFacts(msgspec.Struct):
    """`address` is the client's own, proxies that are trusted taken away; `secure` when it came by
    https; `subject` and `client_id` are filled in once known, for the access log.
    """

    request_id: str
    address: str
    user_agent: str
    secure: bool
    from_loopback: bool
    subject: str = ""
    client_id: str = ""

    @property
    def caller(self) -> Caller:
        return Caller(self.address, self.user_agent, self.request_id)


def facts_of(request: Request) -> RequestFacts:
    """The facts that the hardening layer put with the request."""
    found = request.scope[SCOPE_KEY]
    assert isinstance(found, RequestFacts)  # the hardening layer wraps every route
    return found


def gather(scope: Scope, peers: Peers) -> RequestFacts:
    """Reads a connection's scope. Forwarded headers count only when a trusted proxy sent them."""
    # Of a header that is sent twice, the last.
    sent: dict[bytes, bytes] = dict(scope["headers"])
    forwarded_for: list[bytes] = []
    if b"x-forwarded-for" in sent:
        forwarded_for = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    proto, request_id = sent.get(b"x-forwarded-proto", b""), sent.get(b"x-request-id", b"")
    peer = peers.peer((scope.get("client") or ("", 0))[0])
    secure = scope.get("scheme") == "https"
    client, by_proxy = peer, peer is not None and peer.trusted
    if by_proxy:
        secure = proto.split(b",")[-1].strip().lower() == b"https" if proto else secure
        client = _first_untrusted(b",".join(forwarded_for), peers) if forwarded_for else None
        client = client or peer
    # A proxy beside the service that was not named in the settings brings strangers.
    alone = by_proxy or not forwarded_for
    known = by_proxy and _REQUEST_ID.fullmatch(request_id) is not None
    return RequestFacts(
        request_id=request_id.decode("ascii") if known else os.urandom(12).hex(),
        address=client.address if client is not None else "",
        user_agent=sent.get(b"user-agent", b"")[:300].decode("latin-1"),
        secure=secure,
        from_loopback=alone and client is not None and client.loopback,
    )


def host_is_good(scope: Scope) -> bool:
    """Exactly one Host header, of a name or an address with or without a port (RFC 9112 §3.2)."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None


def transfer_coding_is_good(scope: Scope) -> bool:
    """None, or `chunked` once (RFC 9112 §6.1): any other is a compressed body, or a doubt about
    where the body ends.
    """
    codings = [value for name, value in scope["headers"] if name == b"transfer-encoding"]
    return not codings or (len(codings) == 1 and codings[0].lower() == b"chunked")


def _first_untrusted(chain: bytes, peers: Peers) -> Peer | None:
    """From the right, the first address that is not a trusted proxy's; what stands left of it was
    written by the client and proves nothing. None when a member is no address.
    """
    found = None
    for member in reversed(chain[-2048:].split(b",")):
        found = peers.peer(member.strip().decode("latin-1"))
        if found is None or not found.trusted:
            return found
    return found


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
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
