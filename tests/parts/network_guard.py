"""Audit hook that refuses connections to other machines before a packet is sent."""

import ipaddress
import socket
import sys
from typing import Any

LOCAL_NAMES = frozenset({"", "localhost", "ip6-localhost", "*"})


class ForbiddenAddressError(AssertionError):
    """A test tried to reach an address other than loopback."""


def is_local(host: object) -> bool:
    """Return whether a name or address is loopback, or the wildcard address for listening."""
    if host is None:
        return True
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    if name.lower() in LOCAL_NAMES or name.lower().endswith(".localhost") or name == socket.gethostname():
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        connection, address = arguments
        if address is None or connection.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        if not is_local(address[0]):
            raise ForbiddenAddressError(f"a test may not connect to {address!r}")
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"} and not is_local(arguments[0]):
        raise ForbiddenAddressError(f"a test may not look up {arguments[0]!r}")


_installed = False


def install() -> None:
    """Guard this process. Audit hooks cannot be removed (PEP 578)."""
    global _installed  # noqa: PLW0603 - one hook per process
    if not _installed:
        sys.addaudithook(_check)
        _installed = True
