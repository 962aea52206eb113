"""The HTTP client with its certificates and proxies, and causes of failed requests for people."""

import functools
import os
import ssl
import sys
from collections.abc import Mapping
from typing import TypeVar
from urllib.request import getproxies, proxy_bypass

import certifi
import httpx

from daybreak_client.errors import WrongUse, reason_of

F = TypeVar("F", bound=BaseException)

_CLOCK = "Check the clock of this machine. If it is right, the certificate must be renewed."
_NAME = "Check the URL of the service."
# By the error codes of OpenSSL: not yet valid, expired, another host name, another IP address.
_CERTIFICATE_ADVICE = {9: _CLOCK, 10: _CLOCK, 62: _NAME, 64: _NAME}
_UNKNOWN_CA = (
    "Add the CA that signed it to the certificates of the system, or set SSL_CERT_FILE to a file with its certificate."
)
_TIMEOUT = httpx.Timeout(60.0, connect=15.0)


def make_client(headers: Mapping[str, str]) -> httpx.Client:
    """Return a client with the proxies of the environment, and the certificates of SSL_CERT_FILE, SSL_CERT_DIR or the
    system. Raises WrongUse for an invalid proxy or file.
    """
    try:
        context = _read_certificates(os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None)
    except (OSError, ValueError) as fault:
        raise WrongUse(
            f"SSL_CERT_FILE or SSL_CERT_DIR does not contain certificates: {reason_of(fault)}. Correct or remove it."
        ) from None
    try:
        return httpx.Client(headers=headers, timeout=_TIMEOUT, verify=context)
    except ImportError:
        raise WrongUse(
            "A SOCKS proxy is set, in ALL_PROXY or a similar variable. Run `pip install 'httpx[socks]'`, or use an "
            "HTTP proxy."
        ) from None
    except (ValueError, httpx.InvalidURL):
        raise WrongUse(
            "ALL_PROXY, HTTPS_PROXY, HTTP_PROXY or NO_PROXY is not valid. Use the URL of a proxy such as "
            "http://proxy.example.org:3128."
        ) from None


@functools.cache
def _read_certificates(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Read the accepted certificates once per process: those of the system, which include private CAs, take 50 ms."""
    if file or folder:
        return ssl.create_default_context(cafile=file, capath=folder)
    if sys.platform != "linux":
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # A small container may have none.
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    return context


def check_certificate(fault: Exception) -> None:
    """Raise WrongUse when a certificate is the cause of an error. Another attempt would not help."""
    refusal = _underlying(fault, ssl.SSLCertVerificationError)
    if refusal is not None:
        raise WrongUse(
            f"The certificate of the server or proxy is not accepted: {refusal.verify_message.rstrip('.')}. "
            f"{_CERTIFICATE_ADVICE.get(refusal.verify_code, _UNKNOWN_CA)}"
        ) from None


def cause_of(fault: Exception) -> str:
    """Return why a request failed, in sentences that name what the user may not know of: TLS and a proxy."""
    # What the server sent instead of HTTP follows, with any content and up to 100 KB.
    text = f"{reason_of(fault).partition(': bytearray(')[0]}."
    if isinstance(fault, httpx.ConnectError) and _underlying(fault, ssl.SSLError):
        text = f"TLS failed, {text} Check https:// and the port."
    if isinstance(fault, httpx.RequestError):
        url, proxies = fault.request.url, getproxies()
        if (url.scheme in proxies or "all" in proxies) and not proxy_bypass(url.host):
            text = f"{text} A proxy is set, in {url.scheme.upper()}_PROXY or ALL_PROXY. NO_PROXY can exclude this host."
    return text


def _underlying(fault: BaseException | None, kind: type[F]) -> F | None:
    """Return the error of a kind that an error results from, None without one."""
    while fault is not None and not isinstance(fault, kind):
        fault = fault.__cause__ or fault.__context__
    return fault
