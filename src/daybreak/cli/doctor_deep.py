"""Checks of `daybreakd doctor` that take seconds, or send requests: a large file, the other nodes, own models, hosts of
webhooks, the S3 endpoint, nginx, a collector.
"""

import hashlib
import http.client
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from daybreak import __version__
from daybreak.bootstrap import new_id, open_files, open_keyring, open_source
from daybreak.cli.options import read_state
from daybreak.credentials.sigv4 import CLOCK_SKEW
from daybreak.domain.clock import now_utc
from daybreak.domain.display import format_count, format_duration, format_size
from daybreak.domain.errors import OperatorError, SourceError, first_line
from daybreak.settings import Settings
from daybreak.sources.contract import sample_query
from daybreak.sources.reading import Reading, RowSource
from daybreak.state.nodes import ALIVE_FOR

_SIZE_BYTES = 20_000_000
_PIECE_BYTES = 1 << 20
# At the start, between the first parts of an upload, and at the end.
_RANGES = ((0, 100), (8 * (1 << 20) - 50, 100), (_SIZE_BYTES - 100, 100))
_MAX_WEBHOOKS = 10_000
_SAMPLE_ROWS = 1_000
_MODEL_SECONDS = 60.0

_TIMEOUT_SECONDS = 5
_NOT_CHECKED = "not checked: {} does not answer. Run this check again while the service runs."
# Not signed, so that the endpoint refuses it in its own form.
_BUCKET_PATH = "/00000000-0000-4000-8000-000000000000/"


def check_large_file(settings: Settings) -> str:
    """Write a file in several parts, read it, also in ranges, and delete it."""
    store, content = open_files(settings), secrets.token_bytes(_SIZE_BYTES)
    began = time.monotonic()
    sink = store.stage(new_id())
    try:
        pieces = (content[start : start + _PIECE_BYTES] for start in range(0, _SIZE_BYTES, _PIECE_BYTES))
        written = sink.write("", "members", "csv", pieces)
        sink.commit()
        store.check(written.key, _SIZE_BYTES, hashlib.sha256(content).hexdigest())
        for start, length in _RANGES:
            if b"".join(store.read(written.key, start, length)) != content[start : start + length]:
                raise OperatorError(
                    f"{settings.files.url} returns other bytes for a range of a file. Check what is between this "
                    "machine and the store, such as a proxy or a cache."
                )
    finally:
        sink.discard()
    return f"{format_size(_SIZE_BYTES)} written and read in {format_duration(time.monotonic() - began)}"


def check_nodes(settings: Settings) -> str:
    """Compare versions and keyrings of the running nodes with this one."""
    now, keyring = now_utc(), open_keyring(settings).current().fingerprint
    nodes = read_state(settings, lambda stores: stores.nodes.list_seen(now - ALIVE_FOR))
    faults = []
    for node in nodes:
        name = f"{node.host} ({', '.join(node.roles)})"
        if node.version != __version__:
            faults.append(f"{name} runs version {node.version}, and this node {__version__}. Update the older one.")
        if node.keyring not in (None, keyring):
            faults.append(f"{name} has another keyring. Copy keyring.json from the node where it was changed last.")
    if faults:
        raise OperatorError("\n".join(faults))
    return f"{format_count(len(nodes), 'running node')} with this version and keyring"


def check_own_models(settings: Settings) -> str:
    """Run each model of the operator for a few rows: the columns of a SELECT are known without running it, and a
    division by zero or a cast of a value is not.
    """
    return run_own_models(open_source(settings), now_utc())


def run_own_models(source: RowSource, as_of: datetime, limit_seconds: float = _MODEL_SECONDS) -> str:
    """Run each own model of a source for a few rows. One that takes `limit_seconds` is stopped: it may only be slow.

    Raises OperatorError that names every fault, and the models that were stopped.
    """
    faults: list[str] = []
    stopped: list[str] = []
    with source.open(as_of) as reading:
        own = [model for model in reading.models.values() if not model.shipped]
        for model in own:
            expired = threading.Event()
            timer = threading.Timer(limit_seconds, _stop, (reading, expired))
            timer.start()
            try:
                list(reading.source_rows(f"The model {model.origin}", sample_query(model, as_of, _SAMPLE_ROWS)))
            except SourceError as fault:
                if expired.is_set():
                    stopped.append(model.origin)
                else:
                    faults.append(fault.message)
            finally:
                timer.cancel()
                timer.join()
    slow = f"Stopped after {format_duration(limit_seconds)}: {', '.join(stopped)}"
    if faults:
        raise OperatorError("\n".join([*faults, slow] if stopped else faults))
    done = f"{format_count(len(own), 'model')} run for up to {_SAMPLE_ROWS:,} rows" if own else "none"
    return f"{done}. {slow}" if stopped else done


def _stop(reading: Reading, expired: threading.Event) -> None:
    expired.set()
    reading.cancel()


def check_webhook_hosts(settings: Settings) -> str:
    """Resolve the hosts of all enabled webhooks."""
    webhooks = read_state(settings, lambda stores: stores.webhooks.list_enabled("", _MAX_WEBHOOKS))
    hosts, faults = sorted({urlsplit(webhook.url).hostname or "" for webhook in webhooks}), []
    for host in hosts:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            faults.append(
                f"The webhook host {host} cannot be resolved: {error.strerror}. Ask the owner of the endpoint."
            )
    if faults:
        raise OperatorError("\n".join(faults))
    return f"{format_count(len(hosts), 'host')} resolved"


def check_s3(settings: Settings) -> str:
    """Return whether requests to the endpoint's URL arrive there, with a valid certificate and the same clock.

    Raises OperatorError with the fix.
    """
    if not settings.attach.s3:
        return "off"
    url = settings.attach_url
    response = _response("GET", url + _BUCKET_PATH)
    if response is None:
        return _NOT_CHECKED.format(url)
    body, headers = response
    if b"<Code>AccessDenied</Code>" not in body:
        raise OperatorError(f"{url} is not the S3 endpoint. Have the proxy pass its requests on, with path and Host.")
    if "Date" in headers and abs(parsedate_to_datetime(headers["Date"]) - now_utc()) > CLOCK_SKEW:
        raise OperatorError(f"The clock of {url} differs by more than 15 minutes. S3 clients are refused then.")
    return url


def check_acceleration(settings: Settings) -> str:
    """Return whether nginx has the location of the files. Raises OperatorError with the fix."""
    from daybreak.web.file_sender import ACCELERATED_LOCATION

    if settings.files.accelerate == "off":
        return "off"
    url = settings.base_url.removesuffix(settings.base_path) + ACCELERATED_LOCATION
    response = _response("GET", url)
    if response is None:
        return _NOT_CHECKED.format(url)
    if "X-Request-Id" in response[1]:
        raise OperatorError(
            f"{url} is answered by the service, so large files end with 404. Add `location {ACCELERATED_LOCATION}` to "
            "nginx, or set files.accelerate to off."
        )
    return f"nginx has the location {ACCELERATED_LOCATION}"


def check_telemetry(settings: Settings) -> str:
    """Return whether a collector answers. Raises OperatorError with the fix."""
    if not settings.telemetry.url:
        return "off"
    if _response("POST", f"{settings.telemetry.url}/v1/traces") is None:
        raise OperatorError(f"telemetry.url: {settings.telemetry.url} does not answer. Check its host and port.")
    return settings.telemetry.url


def _response(method: str, url: str) -> tuple[bytes, http.client.HTTPMessage] | None:
    """Return body and headers of a response, None if the connection is refused. Raises OperatorError with the fix."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request(method, parts.path)
        response = connection.getresponse()
        return response.read(10_000), response.headers
    except ConnectionRefusedError:
        return None
    except ssl.SSLError as error:
        raise OperatorError(f"{url} has no valid certificate: {first_line(error)}. Check the proxy.") from None
    except (OSError, http.client.HTTPException) as error:
        reason = first_line(error)
        raise OperatorError(f"{url} does not answer: {reason}. Check the host name and the proxy.") from None
    finally:
        connection.close()


DEEP_CHECKS: tuple[tuple[str, Callable[[Settings], str]], ...] = (
    ("acceleration", check_acceleration),
    ("telemetry", check_telemetry),
    ("large file", check_large_file),
    ("nodes", check_nodes),
    ("own models", check_own_models),
    ("webhook hosts", check_webhook_hosts),
)
