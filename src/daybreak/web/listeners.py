"""The sockets that the service listens on: one for each worker, held by the supervisor.

The kernel spreads connections over them. Because the supervisor keeps them open, connections that
wait at a worker that died are taken by the one that replaces it.
"""

from __future__ import annotations

import errno
import resource
import socket

from daybreak.domain.errors import OperatorError

BACKLOG = 1024
_MOST_DESCRIPTORS = 65_536
_DESCRIPTORS_OF_THE_HOUSE = 40
_DESCRIPTORS_A_CONNECTION = 2


def open_listeners(listen: str, count: int) -> list[socket.socket]:
    """`count` listening sockets on `host:port`. Raises OperatorError when they cannot be had."""
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as fault:
        raise OperatorError(f"listen = {listen!r}: {fault.strerror or fault}") from fault
    # Sockets that share a port would also share it with another service's: look whether it is free.
    _bound(family, address, listen, shared=False).close()
    listeners = [_bound(family, address, listen, shared=True) for _ in range(count)]
    for listener in listeners:
        listener.listen(BACKLOG)
    return listeners


def connections_allowed() -> int:
    """How many connections a worker takes at once: what its descriptors allow. The limit is raised
    as far as it may be.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    spare = (wanted - _DESCRIPTORS_OF_THE_HOUSE) // _DESCRIPTORS_A_CONNECTION
    return max(8, min(spare, 8192))


def _bound(family: int, address: object, listen: str, *, shared: bool) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)  # type: ignore[arg-type]  # as getaddrinfo gave it
    except OSError as fault:
        listener.close()
        if fault.errno == errno.EADDRINUSE:
            raise OperatorError(
                f"listen = {listen!r}: something listens there already; stop it or choose another port"
            ) from fault
        raise OperatorError(f"listen = {listen!r}: {fault.strerror}") from fault
    return listener
