"""HTTP client of webhooks: connects to checked addresses only, follows no redirect, reads up to 1 KB.

A host is resolved once for each connection. The connection is made to an address of that answer, and its peer is
checked again, so that a name that resolves to another address a moment later (DNS rebinding) changes nothing. TLS
verifies the name of the URL.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpcore

from daybreak.events.addresses import Address, Network, is_allowed, is_local_name, parse_address
from daybreak.oidc.http import trusted_certificates

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

TIMEOUT_SECONDS = 15.0
_MAX_BODY_BYTES = 1024
# With headers and certificates.
_MAX_RESPONSE_BYTES = 256 * 1024
_UNREACHABLE = "The host was not found, or its address is not public."


class RefusedAddressError(httpcore.ConnectError):
    """The host has no address that webhooks may be sent to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one request. `status` is None without a response; `detail` is for people."""

    status: int | None
    detail: str

    @property
    def is_success(self) -> bool:
        """Whether the receiver accepted the message."""
        return self.status is not None and 200 <= self.status < 300


class WebhookClient:
    """Sends webhooks. `resolve` returns the addresses of a host; the default asks the system's resolver."""

    def __init__(
        self,
        allowed_networks: Sequence[Network],
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        resolve: Resolve | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._allowed, self._resolve = allowed_networks, resolve or _resolve

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """Send a signed message and return the result. Problems of the receiver are results, not errors."""
        try:
            status = await self._exchange(url, headers, body)
        except TimeoutError:
            return Outcome(None, f"No response within {self._timeout_seconds:g} seconds.")
        except RefusedAddressError:
            return Outcome(None, _UNREACHABLE)
        except ssl.SSLError as error:
            return Outcome(None, f"TLS failed: {error.reason or 'unknown reason'}.")
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
            return Outcome(None, _connection_fault(error))
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol):
            return Outcome(None, "The connection ended without a valid HTTP response.")
        if 200 <= status < 300:
            return Outcome(status, "Accepted.")
        return Outcome(status, f"Status {status}{': redirects are not followed' if 300 <= status < 400 else ''}.")

    async def _exchange(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        # HTTP is accepted for this machine only, whatever the name resolves to.
        backend = _CheckedBackend(self._allowed, self._resolve, loopback_only=urlsplit(url).scheme != "https")
        until = asyncio.get_running_loop().time() + self._timeout_seconds
        async with (
            # One connection for each message: events are rare, and an idle connection may have been closed.
            httpcore.AsyncConnectionPool(ssl_context=trusted_certificates(), network_backend=backend) as pool,
            AsyncExitStack() as opened,
        ):
            async with asyncio.timeout_at(until):
                response = await opened.enter_async_context(
                    pool.stream("POST", url, headers=[*headers.items()], content=body)
                )
            # The status alone decides. The body is read because some receivers stop when the connection ends before it.
            with suppress(TimeoutError, httpcore.NetworkError, httpcore.ProtocolError):
                async with asyncio.timeout_at(until):
                    read = 0
                    async for chunk in response.aiter_stream():
                        read += len(chunk)
                        if read >= _MAX_BODY_BYTES:
                            break
            return response.status


class _CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to allowed addresses of a host."""

    def __init__(self, allowed: Sequence[Network], resolve: Resolve, *, loopback_only: bool) -> None:
        self._allowed, self._resolve, self._loopback_only = allowed, resolve, loopback_only
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del timeout, local_address, socket_options  # not used by the client
        addresses = await self._checked(host, port)
        for address in addresses[:-1]:
            try:
                return await self._connect(address, port)
            except httpcore.ConnectError:
                continue
        return await self._connect(addresses[-1], port)

    async def _checked(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host. One refused address refuses the host. Raises RefusedAddressError."""
        if self._loopback_only and not is_local_name(host):
            raise RefusedAddressError(host)
        try:
            found = list(dict.fromkeys(await self._resolve(host, port)))
            allowed = [text for text in found if self._accepts(parse_address(text))]
        except (OSError, ValueError):
            # The same answer as for a private address: names in the operator's network stay unknown.
            raise RefusedAddressError(host) from None
        if not allowed or allowed != found:
            raise RefusedAddressError(host)
        return allowed

    def _accepts(self, address: Address) -> bool:
        return is_allowed(address, self._allowed) and (address.is_loopback or not self._loopback_only)

    async def _connect(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        stream = await self._backend.connect_tcp(address, port)
        peer = stream.get_extra_info("server_addr")
        if peer is None or not self._accepts(parse_address(peer[0])):
            await stream.aclose()
            raise RefusedAddressError(address)
        return _BoundedStream(stream)


class _BoundedStream(httpcore.AsyncNetworkStream):
    """Connection that ends after a number of received bytes.

    The limit of the body does not count headers, and a server may send any number of responses with status 100 first.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._received = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as above
        part = await self._stream.read(max_bytes, timeout)
        self._received += len(part)
        if self._received > _MAX_RESPONSE_BYTES:
            raise httpcore.ReadError("The response is too long.")
        return part

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        return _BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


async def _resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _connection_fault(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {getattr(cause, 'verify_message', '') or cause.reason or 'unknown reason'}."
    if isinstance(error, httpcore.ConnectError | httpcore.ConnectTimeout):
        return "The connection failed."
    return "The connection ended without a valid HTTP response."
