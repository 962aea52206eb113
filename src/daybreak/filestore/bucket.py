"""Buckets of Amazon S3 and compatible servers, Google Cloud Storage and Azure Blob Storage.

obstore reads the credentials from the environment variables, files and machine identities that
docs/how-to/object-stores.md lists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from daybreak.domain.errors import OperatorError
from daybreak.filestore.store_errors import short_reason
from daybreak.settings import FilesSettings

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig, S3Config, S3CredentialProvider

Bucket = S3Store | GCSStore | AzureStore


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Time limits of requests to a store.

    A failed request is retried for `retry_seconds`. A response without data for `read_timeout_seconds` has failed.
    """

    retry_seconds: float = 60.0
    read_timeout_seconds: float = 20.0


class _StoreOptions(TypedDict):
    prefix: str | None
    client_options: ClientConfig
    retry_config: RetryConfig


def open_bucket(settings: FilesSettings, limits: RequestLimits) -> Bucket:
    """Open the bucket of `files.url` without sending a request. Raises OperatorError."""
    parts = urlsplit(settings.url)
    try:
        return _OPENERS[parts.scheme](settings, limits, parts.netloc)
    except BaseError as error:
        raise OperatorError(
            f"files.url: '{settings.url}' cannot be opened: {short_reason(error)} Check the credentials."
        ) from error


def _open_s3(settings: FilesSettings, limits: RequestLimits, name: str) -> S3Store:
    endpoint = settings.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    config: S3Config = {"virtual_hosted_style_request": not settings.path_style}
    if settings.region:
        config["region"] = settings.region
    if endpoint:
        _check_endpoint(endpoint, bucket_in_host=not settings.path_style)
        scheme, _, host = endpoint.rstrip("/").partition("://")
        # Takes precedence over the environment. obstore expects the bucket in the host unless it is in the path.
        config["aws_endpoint_url_s3"] = f"{scheme}://{host}" if settings.path_style else f"{scheme}://{name}.{host}"
    options = _store_options(settings, limits, endpoint)
    certificates = os.environ.get("AWS_CA_BUNDLE")
    if certificates:
        try:
            options["client_options"]["root_certificate"] = Path(certificates).read_bytes()
        except OSError as error:
            raise OperatorError(f"AWS_CA_BUNDLE: {certificates} cannot be read: {error.strerror}.") from error
    use_profile = os.environ.get("AWS_PROFILE") and not os.environ.get("AWS_ACCESS_KEY_ID")
    return S3Store(name, config=config, credential_provider=_profile_credentials() if use_profile else None, **options)


def _open_google(settings: FilesSettings, limits: RequestLimits, name: str) -> GCSStore:
    config: GCSConfig = {}
    if settings.endpoint:
        _check_endpoint(settings.endpoint)
        config["base_url"] = settings.endpoint.rstrip("/")
    return GCSStore(name, config=config, **_store_options(settings, limits, settings.endpoint))


def _open_azure(settings: FilesSettings, limits: RequestLimits, name: str) -> AzureStore:
    if not os.environ.get("AZURE_STORAGE_ACCOUNT_NAME"):
        raise OperatorError(
            "files.url: the storage account is not set. Set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY "
            "unless this machine has an identity (AccountName and AccountKey of a connection string)."
        )
    endpoint = settings.endpoint or os.environ.get("AZURE_STORAGE_ENDPOINT") or ""
    config: AzureConfig = {}
    if endpoint:
        _check_endpoint(endpoint)
        config["endpoint"] = endpoint.rstrip("/")
    return AzureStore(name, config=config, **_store_options(settings, limits, endpoint))


_OPENERS: Mapping[str, Callable[[FilesSettings, RequestLimits, str], Bucket]] = {
    "s3": _open_s3,
    "gs": _open_google,
    "az": _open_azure,
}


def _store_options(settings: FilesSettings, limits: RequestLimits, endpoint: str) -> _StoreOptions:
    return {
        "prefix": urlsplit(settings.url).path.strip("/") or None,
        "client_options": {
            # `timeout` limits a whole request, including its body. The other two detect a store that does not respond.
            "timeout": timedelta(minutes=15),
            "read_timeout": timedelta(seconds=limits.read_timeout_seconds),
            "connect_timeout": timedelta(seconds=5),
            "allow_http": endpoint.startswith("http://"),
        },
        "retry_config": {
            # `retry_timeout` ends the retries: a store that reduces the request rate may do so for many seconds.
            "max_retries": 1000,
            "retry_timeout": timedelta(seconds=limits.retry_seconds),
            "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=10)},
        },
    }


def _profile_credentials() -> S3CredentialProvider:
    """Return the credentials of AWS_PROFILE, which obstore does not read. Raises OperatorError."""
    try:
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ModuleNotFoundError:
        raise OperatorError(
            "AWS_PROFILE needs boto3, which is not installed. Run `pip install boto3`, or set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        ) from None
    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError) as error:
        raise OperatorError(f"AWS_PROFILE: the profile cannot be used: {error}.") from error


def _check_endpoint(endpoint: str, *, bucket_in_host: bool = False) -> None:
    """Check an endpoint, because obstore accepts or panics on invalid ones. Raises OperatorError."""
    try:
        parts = urlsplit(endpoint)
        # Raises ValueError for an invalid port.
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or " " in endpoint:
        raise OperatorError(f"files.endpoint: '{endpoint}' is not a URL. Use https://objects.example:9000.")
    if bucket_in_host and _is_ip_address(parts.hostname):
        raise OperatorError(
            f"files.path_style must be true for '{endpoint}': the bucket name cannot be prepended to an IP address."
        )


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
