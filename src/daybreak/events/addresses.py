"""Addresses to which webhooks are sent: public ones, and those that the operator allows."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from daybreak.domain.errors import FieldFault, InvalidRequest

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_LENGTH = 1000
# Not refused by `is_global`: protocol assignments, the 6to4 relay, and the metadata service of Azure.
_REFUSED = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
_IPV6_UNICAST = ip_network("2000::/3")  # RFC 4291 §2.4
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052 §2.1
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain"})
# Names and addresses as URLs contain them. International names are written as punycode.
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\.?|[0-9a-f:.]+", re.ASCII | re.IGNORECASE)


def is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    """Return whether webhooks may be sent to an address.

    Refused are private, loopback, link-local, shared, reserved and multicast addresses, metadata services, and IPv6
    addresses that contain such an IPv4 address, unless `allowed` contains the address.
    """
    plain = _embedded(address)
    if any(plain.version == network.version and plain in network for network in allowed):
        return True
    if plain.version == 6 and plain not in _IPV6_UNICAST:
        return False
    return plain.is_global and not plain.is_multicast and not any(plain in network for network in _REFUSED)


def parse_url(url: str, allowed: Sequence[Network]) -> str:
    """Return the URL of a webhook. Raises InvalidRequest with the fix.

    Host names are resolved when a webhook is sent, and only then. An address in a URL is checked here too.
    """
    text = url.strip()
    if len(text) > MAX_URL_LENGTH:
        raise _invalid(f"Use a URL of up to {MAX_URL_LENGTH} characters.")
    if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
        raise _invalid("Use a URL without spaces, and write international names as punycode.")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _invalid("Use a URL such as https://example.org/daybreak.") from None
    if parts.scheme not in {"https", "http"} or not _HOST.fullmatch(host) or port == 0:
        raise _invalid("Use a URL such as https://example.org/daybreak.")
    if parts.username is not None or parts.password is not None or "#" in text:
        raise _invalid("Remove the user name, the password and the fragment.")
    address = _literal(host)
    if parts.scheme == "http" and not (is_local_name(host) and _allows_loopback(allowed)):
        raise _invalid("Use https.")
    if address is not None and not is_allowed(address, allowed):
        raise _invalid("Use a public address.")
    if is_local_name(host) and not _allows_loopback(allowed):
        raise _invalid("Use a public address.")
    return text


def require_allowed_host(url: str, hosts: Sequence[str]) -> None:
    """Raise InvalidRequest unless the host of a URL is one of `hosts`, or below one that begins with `*.`, or all are
    allowed.
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    if hosts and not any(host == each or (each.startswith("*.") and host.endswith(each[1:])) for each in hosts):
        raise _invalid("Use a host that your operator allows.")


def is_local_name(host: str) -> bool:
    """Return whether a host is this machine by its name or address, without a lookup."""
    address = _literal(host)
    if address is not None:
        return _embedded(address).is_loopback
    name = host.rstrip(".").lower()
    return name in _LOCAL_NAMES or name.endswith(".localhost")  # RFC 6761 §6.3


def parse_address(text: str) -> Address:
    """Parse an address as the resolver returns it, without an IPv6 zone."""
    return ip_address(text.partition("%")[0])


def _literal(host: str) -> Address | None:
    try:
        return parse_address(host)
    except ValueError:
        return None


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address contains, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None) or address


def _allows_loopback(allowed: Sequence[Network]) -> bool:
    loopback: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
    return any(is_allowed(address, allowed) for address in loopback)


def _invalid(fix: str) -> InvalidRequest:
    return InvalidRequest(f"The URL is not accepted. {fix}", faults=(FieldFault("/url", fix),))
