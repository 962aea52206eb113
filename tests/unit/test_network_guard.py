"""The network guard: tests cannot reach another machine."""

import asyncio
import socket

import httpx
import pytest

from tests.parts.network_guard import ForbiddenAddressError, is_local

OTHER_MACHINE = "192.0.2.1"  # RFC 5737: reserved for documentation


def test_connection_to_another_machine_is_refused() -> None:
    with socket.socket() as connection, pytest.raises(ForbiddenAddressError):
        connection.connect((OTHER_MACHINE, 80))


def test_datagram_to_another_machine_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection, pytest.raises(ForbiddenAddressError):
        connection.sendto(b"", (OTHER_MACHINE, 53))


def test_name_of_another_machine_is_not_resolved() -> None:
    with pytest.raises(ForbiddenAddressError):
        socket.getaddrinfo("example.com", 80)


def test_libraries_are_refused_too() -> None:
    with pytest.raises(ForbiddenAddressError):
        httpx.get(f"http://{OTHER_MACHINE}/", trust_env=False)

    async def connect() -> None:
        await asyncio.open_connection(OTHER_MACHINE, 80)

    with pytest.raises(ForbiddenAddressError):
        asyncio.run(connect())


def test_loopback_is_allowed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        assert connection.getpeername() == server.getsockname()


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        (b"localhost", True),
        (None, True),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("127.0.0.1.example.com", False),
        ("localhost.example.com", False),
    ],
)
def test_only_loopback_addresses_are_local(host: object, local: bool) -> None:
    assert is_local(host) is local
