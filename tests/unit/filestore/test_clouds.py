"""Addresses of the three clouds: what they are opened as, and links that are signed without asking anybody."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from daybreak.domain.errors import OperatorError
from daybreak.filestore.clouds import BucketAddress
from daybreak.filestore.object_store import ObjectStore

KEY = "snapshots/d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7/d9/d90cd8fe-ecce-4b28-b5b4-cded8d7e46f7.members.csv.gz"
AWS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"}
NOW = datetime(2026, 11, 20, 4, tzinfo=UTC)


def link(store: ObjectStore) -> tuple[str, str, dict[str, list[str]]]:
    """(host, path, query) of a link that was asked for for a quarter of an hour."""
    found = asyncio.run(
        store.store_link(
            KEY, seconds=900, file_name="members.csv", content_type="text/csv; charset=utf-8", content_encoding="gzip"
        )
    )
    assert found is not None
    parts = urlsplit(found.url)
    return parts.netloc, parts.path, parse_qs(parts.query)


@pytest.mark.parametrize(
    ("address", "host", "path"),
    [
        (BucketAddress("s3://b/pre"), "b.s3.eu-west-1.amazonaws.com", f"/pre/{KEY}"),
        (BucketAddress("s3://b", region="us-west-2"), "b.s3.us-west-2.amazonaws.com", f"/{KEY}"),
        (BucketAddress("s3://b/pre", path_style=True), "s3.eu-west-1.amazonaws.com", f"/b/pre/{KEY}"),
        (BucketAddress("s3://b/pre", "http://127.0.0.1:9000", path_style=True), "127.0.0.1:9000", f"/b/pre/{KEY}"),
        (BucketAddress("s3://b/pre/", "https://objects.example"), "b.objects.example", f"/pre/{KEY}"),
    ],
)
def test_amazon_links(address: BucketAddress, host: str, path: str, tmp_path: Path) -> None:
    store = ObjectStore(address, environment=AWS, home=tmp_path, clock=lambda: NOW)
    found_host, found_path, query = link(store)
    assert (found_host, found_path) == (host, path)
    assert query["X-Amz-Expires"] == ["60"]
    assert query["response-content-type"] == ["text/csv; charset=utf-8"]
    assert query["response-content-encoding"] == ["gzip"]
    assert query["response-content-disposition"] == ['attachment; filename="members.csv"']


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("http://10.0.0.5:9000", r"files\.path_style"),
        ("http://[::1]:9000", r"files\.path_style"),
        ("objects.example:9000", r"files\.endpoint"),
        ("objects.example", r"files\.endpoint"),
        ("http://", r"files\.endpoint"),
        ("http://objects.example:port", r"files\.endpoint"),
        ("http://objects example", r"files\.endpoint"),
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_refused(endpoint: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=said):
        ObjectStore(BucketAddress("s3://bucket", endpoint), environment=AWS, home=tmp_path)
    with pytest.raises(OperatorError, match=said):
        ObjectStore(BucketAddress("s3://bucket"), environment={**AWS, "AWS_ENDPOINT_URL": endpoint}, home=tmp_path)


@pytest.fixture
def google(tmp_path: Path) -> dict[str, str]:
    """The environment of a service account with a key file."""
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "client_email": "a@b", "private_key": pem.decode(), "private_key_id": "1"}
    file = tmp_path / "key.json"
    file.write_text(json.dumps({**account, "token_uri": "https://oauth2.googleapis.com/token", "client_id": "1"}))
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [("", "storage.googleapis.com"), ("https://private.example/", "private.example"), ("http://[::1]:80", "[::1]:80")],
)
def test_google_links(endpoint: str, host: str, google: dict[str, str]) -> None:
    store = ObjectStore(BucketAddress("gs://bucket/pre", endpoint), environment=google, clock=lambda: NOW)
    found_host, path, query = link(store)
    assert (found_host, path) == (host, f"/bucket/pre/{KEY}")
    assert query["X-Goog-Expires"] == ["60"]
    assert query["response-content-type"] == ["text/csv; charset=utf-8"]


ACCOUNT_KEY = base64.b64encode(b"k" * 32).decode()
AZURE = {"AZURE_STORAGE_ACCOUNT_NAME": "account", "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}
CONNECTION = f"DefaultEndpointsProtocol=https;AccountName=account;AccountKey={ACCOUNT_KEY};EndpointSuffix=core.example"
PRIVATE = f"{CONNECTION};BlobEndpoint=https://account.blob.stack.example/;"


@pytest.mark.parametrize(
    ("environment", "endpoint", "host"),
    [
        (AZURE, "", "account.blob.core.windows.net"),
        ({"AZURE_STORAGE_ACCOUNT": "account", "AZURE_STORAGE_KEY": ACCOUNT_KEY}, "", "account.blob.core.windows.net"),
        ({"AZURE_STORAGE_CONNECTION_STRING": CONNECTION}, "", "account.blob.core.example"),
        ({"AZURE_STORAGE_CONNECTION_STRING": PRIVATE}, "", "account.blob.stack.example"),
        ({**AZURE, "AZURE_STORAGE_ENDPOINT": "https://of.example"}, "", "of.example"),
        ({**AZURE, "AZURE_STORAGE_ENDPOINT": "https://of.example"}, "https://mine.example/", "mine.example"),
    ],
)
def test_azure_links(environment: dict[str, str], endpoint: str, host: str) -> None:
    address = BucketAddress("az://container/pre", endpoint)
    found_host, path, query = link(ObjectStore(address, environment=environment, clock=lambda: NOW))
    assert (found_host, path) == (host, f"/container/pre/{KEY}")
    assert query["sp"] == ["r"]
    assert query["spr"] == ["https"]
    assert query["se"] == ["2026-11-20T04:01:00Z"]
    assert query["rsct"] == ["text/csv; charset=utf-8"]
    assert query["rsce"] == ["gzip"]
    assert query["rscd"] == ['attachment; filename="members.csv"']


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "AZURE_STORAGE_ACCOUNT_NAME"),
        ({"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"}, "AZURE_STORAGE_ACCOUNT_NAME"),
        ({**AZURE, "AZURE_STORAGE_ACCOUNT_KEY": "not whole!"}, "not base64"),
    ],
)
def test_an_azure_account_that_cannot_be_used_is_told(environment: dict[str, str], said: str) -> None:
    with pytest.raises(OperatorError, match=said) as caught:
        ObjectStore(BucketAddress("az://container"), environment=environment)
    assert "not whole!" not in caught.value.message


@pytest.mark.parametrize("endpoint", ["objects.example:9000", "http://", "http://objects.example:port"])
def test_google_and_azure_refuse_an_endpoint_that_is_none(endpoint: str, google: dict[str, str]) -> None:
    for url, environment in (("gs://bucket", google), ("az://container", AZURE)):
        with pytest.raises(OperatorError, match=f"files.endpoint: '{endpoint}'"):
            ObjectStore(BucketAddress(url, endpoint), environment=environment)


@pytest.mark.parametrize("url", ["s3:///prefix", "ftp://bucket/prefix", "gs://"])
def test_an_address_that_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(OperatorError, match=r"files\.url"):
        ObjectStore(BucketAddress(url), environment={})
