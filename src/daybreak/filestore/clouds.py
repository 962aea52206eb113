"""What `files.url` opens: the object store library's store for it, and who signs links.

Each cloud has its own names for the same things: where it is, whose keys are used, how the bucket stands in addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from daybreak.domain.errors import OperatorError
from daybreak.filestore.cloud_credentials import (
    aws_certificates,
    aws_domain,
    aws_keys,
    aws_region,
    azure_account,
    google_key,
)
from daybreak.filestore.machine_keys import MachineKeys
from daybreak.filestore.presign import AmazonSigner, AzureSigner, GoogleSigner, Signer
from daybreak.filestore.refusals import first_line

AnyStore = S3Store | GCSStore | AzureStore


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """`files.url` and what goes with it. Holds no secret, so it may travel to other machines.

    `patience_seconds` bounds the library's own retries of one request; a store that says nothing for `silence_seconds`
    in the middle of one is asked again.
    """

    url: str
    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    patience_seconds: float = 60.0
    silence_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Connected:
    """A bucket, who signs for it where keys are at hand, and who gives those where they do not lie here."""

    store: AnyStore
    signer: Signer | None = None
    machine: MachineKeys | None = None


def connect(
    address: BucketAddress, environment: Mapping[str, str], home: Path, clock: Callable[[], datetime]
) -> Connected:
    """Opens a bucket; nothing is asked of it yet. `environment` and `home` are where keys are looked for; tokens of
    Google and Azure the library finds by the environment of the process. Raises OperatorError.
    """
    parts = urlsplit(address.url)
    if not parts.netloc:
        raise OperatorError(f"files.url: '{address.url}' names no bucket. Write it like s3://bucket/prefix.")
    options: dict[str, Any] = {
        "prefix": parts.path.strip("/") or None,
        "client_options": {
            # For a whole request, its body included; a store that falls silent is noticed by the other two.
            "timeout": timedelta(minutes=15),
            "read_timeout": timedelta(seconds=address.silence_seconds),
            "connect_timeout": timedelta(seconds=5),
        },
        "retry_config": {
            "max_retries": 6,
            "retry_timeout": timedelta(seconds=address.patience_seconds),
            "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=10)},
        },
    }
    try:
        if parts.scheme == "s3":
            return _amazon(address, parts.netloc, environment, home, clock, options)
        if parts.scheme == "gs":
            return _google(address, parts.netloc, environment, options)
        if parts.scheme == "az":
            return _azure(address, parts.netloc, environment, options)
    except BaseError as error:
        raise OperatorError(f"files.url: the bucket of '{address.url}' cannot be used: {first_line(error)}") from error
    raise OperatorError(f"files.url: '{address.url}' is not an s3://, gs:// or az:// address.")


def _amazon(
    address: BucketAddress,
    bucket: str,
    environment: Mapping[str, str],
    home: Path,
    clock: Callable[[], datetime],
    options: dict[str, Any],
) -> Connected:
    region = address.region or aws_region(environment, home) or "us-east-1"
    given = address.endpoint or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    server = given.rstrip("/") or f"https://s3.{region}.{aws_domain(region)}"
    scheme, _, host = server.partition("://")
    base = f"{server}/{bucket}" if address.path_style else f"{scheme}://{bucket}.{host}"
    options |= {"region": region, "virtual_hosted_style_request": not address.path_style}
    if given:
        _check_server(given, bucket_in_front=not address.path_style)
        # The library wants the bucket in the endpoint when it is to be part of the host name.
        options["endpoint"] = server if address.path_style else base
        options["client_options"]["allow_http"] = scheme == "http"
    certificates = aws_certificates(environment, home)
    if certificates is not None:
        options["client_options"]["root_certificate"] = certificates
    keys = aws_keys(environment, home)
    if keys is None:
        machine = MachineKeys(environment, region, clock)
        store = S3Store(bucket, **options, credential_provider=cast("Any", machine.for_library))
        return Connected(store, AmazonSigner(base, region, machine.keys), machine)
    options |= {"access_key_id": keys.access_key_id, "secret_access_key": keys.secret_access_key}
    if keys.session_token:
        options["session_token"] = keys.session_token
    return Connected(S3Store(bucket, **options), AmazonSigner(base, region, lambda: keys))


def _google(address: BucketAddress, bucket: str, environment: Mapping[str, str], options: dict[str, Any]) -> Connected:
    server = "https://storage.googleapis.com"
    if address.endpoint:
        server = options["base_url"] = _server(address.endpoint, options)
    key = google_key(environment)
    signer = None if key is None else GoogleSigner(f"{server}/{bucket}", key)
    return Connected(GCSStore(bucket, **options), signer)


def _azure(
    address: BucketAddress, container: str, environment: Mapping[str, str], options: dict[str, Any]
) -> Connected:
    account = azure_account(environment)
    server = _server(address.endpoint or account.endpoint, options)
    options |= {"endpoint": server, "account_name": account.name}
    if account.key is None:
        return Connected(AzureStore(container, **options))
    store = AzureStore(container, **options, account_key=account.key)
    return Connected(store, AzureSigner(f"{server}/{container}", container, account.name, account.key))


def _server(given: str, options: dict[str, Any]) -> str:
    """The server's address as the library takes it, which is told whether to go without https. Raises OperatorError."""
    _check_server(given, bucket_in_front=False)
    options["client_options"]["allow_http"] = given.startswith("http://")
    return given.rstrip("/")


def _check_server(address: str, *, bucket_in_front: bool) -> None:
    """Raises OperatorError for what the library would give up the process on."""
    try:
        parts = urlsplit(address)
        # Read for its error alone.
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or " " in address:
        raise OperatorError(f"files.endpoint: '{address}' is no address. Write it like https://objects.example:9000.")
    if bucket_in_front and _is_ip_address(parts.hostname):
        raise OperatorError(
            f"files.path_style must be true for '{address}': no bucket can stand in front of an IP address."
        )


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
