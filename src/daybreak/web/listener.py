"""The address that the service listens on: a TCP port or a Unix socket."""

import errno
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from daybreak.domain.errors import OperatorError

UNIX_PREFIX = "unix:"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """An IP address and a port."""

    host: str
    port: int


ListenAddress = TcpAddress | Path


def claim_address(listen: str) -> ListenAddress:
    """Resolve the `listen` setting and check that the address is free. A stale Unix socket is removed.

    Raises:
        OperatorError: the address is in use or cannot be bound.
    """
    if listen.startswith(UNIX_PREFIX):
        with _naming("listen", listen):
            return _claim_socket(Path(listen.removeprefix(UNIX_PREFIX)))
    return claim_port(listen, "listen")


def claim_port(listen: str, setting: str) -> TcpAddress:
    """Resolve `host:port` and check that the port is free.

    The server's workers share their port (SO_REUSEPORT), so the kernel would also let a second service share it.

    Raises:
        OperatorError: the port is in use or cannot be bound. Names the setting.
    """
    host, _, port = listen.rpartition(":")
    with _naming(setting, listen):
        family, _, _, _, address = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # A connection of an earlier process in TIME_WAIT does not occupy the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
        return TcpAddress(str(address[0]), int(address[1]))


@contextmanager
def _naming(setting: str, value: str) -> Iterator[None]:
    """Raise system errors as OperatorError with the name of the setting."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "another process listens there. Stop it, or change the setting"
        raise OperatorError(f"{setting} = {value!r}: {reason}.") from error


def accepts(address: ListenAddress) -> bool:
    """Return whether a server accepts connections."""
    with suppress(OSError):
        if isinstance(address, Path):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(address))
                return True
        # The wildcard addresses `0.0.0.0` and `::` connect to this machine.
        with socket.create_connection((address.host, address.port), timeout=1):
            return True
    return False


def _claim_socket(path: Path) -> Path:
    if path.exists():
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, f"{path} is not a socket")
        if accepts(path):
            raise OSError(errno.EADDRINUSE, "in use")
        path.unlink()
    with socket.socket(socket.AF_UNIX) as probe:
        probe.bind(str(path))
    path.unlink()
    return path
