"""The check of the S3 endpoint by `daybreakd doctor`."""

import http.client
import ssl
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from daybreak.domain.errors import OperatorError

if TYPE_CHECKING:
    from daybreak.settings import Settings

_TIMEOUT_SECONDS = 5
# Not signed, so that the endpoint refuses it in its own form.
_PATH = "/00000000-0000-4000-8000-000000000000/"


def check_s3(settings: "Settings") -> str:
    """Return whether requests to the endpoint's URL arrive there, with a valid certificate and the same clock.

    Raises OperatorError with the fix.
    """
    from daybreak.bootstrap import now_utc
    from daybreak.credentials.sigv4 import CLOCK_SKEW

    if not settings.attach.s3:
        return "off"
    url = settings.attach_url
    try:
        body, date = _refusal(url)
    except ConnectionRefusedError:
        return f"not checked: {url} does not answer. Run this check again while the service runs."
    except ssl.SSLError as error:
        raise OperatorError(f"{url} has no valid certificate: {error}. Check the proxy.") from None
    except (OSError, http.client.HTTPException) as error:
        raise OperatorError(f"{url} does not answer: {error}. Check the host name and the proxy.") from None
    if b"<Code>AccessDenied</Code>" not in body:
        raise OperatorError(f"{url} is not the S3 endpoint. Have the proxy pass its requests on, with path and Host.")
    if date is not None and abs(date - now_utc()) > CLOCK_SKEW:
        raise OperatorError(f"The clock of {url} differs by more than 15 minutes. S3 clients are refused then.")
    return url


def _refusal(url: str) -> tuple[bytes, datetime | None]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", _PATH)
        response = connection.getresponse()
        date = response.getheader("Date")
        return response.read(10_000), None if date is None else parsedate_to_datetime(date)
    finally:
        connection.close()
