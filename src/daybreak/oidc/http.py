"""HTTP requests to the provider: no redirects, bounded time and size, TLS except on the loopback."""

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from daybreak.credentials.strict_json import StrictDecoder
from daybreak.domain.errors import ProviderUnavailable, root_cause
from daybreak.settings.text_forms import LOOPBACK_HOSTS

if TYPE_CHECKING:
    import ssl

    import httpx

DEADLINE_SECONDS = 10.0
MAXIMUM_BYTES = 256 * 1024
# Requests of one process at the same time. More sign-ins than that do not wait for a slow provider.
MAXIMUM_CONCURRENT = 20


slots = asyncio.Semaphore(MAXIMUM_CONCURRENT)


def is_secure(url: object) -> bool:
    """Return whether a URL uses https, or http on the loopback."""
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK_HOSTS))


async def send(
    url: str, *, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Send a GET request, or a POST request with a form. Return the status and the JSON object of the response. Raises
    ProviderUnavailable.
    """
    # Imported here, because only processes that sign users in send requests.
    import httpx

    address = url.partition("?")[0]
    if not is_secure(url):
        raise ProviderUnavailable(f"{address} is not an https URL")
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            status, body = await _exchange(url, form, headers or {})
    except TimeoutError:
        raise ProviderUnavailable(f"{address} did not respond within {DEADLINE_SECONDS:g} seconds") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderUnavailable(f"{address} cannot be reached: {root_cause(error)}") from None
    try:
        document = json.loads(body, cls=StrictDecoder)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise ProviderUnavailable(f"{address} responded with status {status} and no JSON object")
    return status, document


async def _exchange(url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
    import httpx

    headers = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
    # A new client for each request: sign-ins are rare, and an idle connection may have been closed.
    certificates = trusted_certificates()
    if slots.locked():
        raise ProviderUnavailable(f"{MAXIMUM_CONCURRENT} requests to the provider are in progress")
    method = "GET" if form is None else "POST"
    async with (
        slots,
        httpx.AsyncClient(verify=certificates, follow_redirects=False, timeout=DEADLINE_SECONDS) as client,
        client.stream(method, url, data=form, headers=headers) as response,
    ):
        return response.status_code, await _read_body(response)


async def _read_body(response: "httpx.Response") -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ProviderUnavailable(f"{response.url.host} sent a compressed response, which was not requested")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAXIMUM_BYTES:
            raise ProviderUnavailable(f"{response.url.host} sent more than {MAXIMUM_BYTES:,} bytes")
    return bytes(body)


@cache
def trusted_certificates() -> "ssl.SSLContext":
    """Return the trusted certificates, which SSL_CERT_FILE and SSL_CERT_DIR can replace. Loading them takes 20 ms."""
    import httpx

    return httpx.create_ssl_context()
