"""Tests speak to this machine only: every other address is refused before a packet leaves."""

import ipaddress
import socket
import sys
from typing import Any

LOCAL_NAMES = frozenset({"", "localhost", "ip6-localhost", "*"})


class ForbiddenAddressError(AssertionError):
    """A test tried to reach an address that is not this machine's loopback."""


def is_local(host: object) -> bool:
    """Say whether ``host`` (name or address) is this machine's loopback, or the wildcard to listen on."""
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


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
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
    """Guard this process from now on. Audit hooks cannot be taken out again, which here is what one wants."""
    global _installed  # noqa: PLW0603 - one hook a process
    if not _installed:
        sys.addaudithook(_watch)
        _installed = True
