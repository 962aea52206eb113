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
from daybreak.filestore.object_store import BucketAddress, ObjectStore

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


def test_google_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "client_email": "a@b", "private_key": pem.decode(), "private_key_id": "1"}
    file = tmp_path / "key.json"
    file.write_text(json.dumps({**account, "token_uri": "https://oauth2.googleapis.com/token", "client_id": "1"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    host, path, query = link(ObjectStore(BucketAddress("gs://bucket/pre")))
    assert (host, path) == ("storage.googleapis.com", f"/bucket/pre/{KEY}")
    assert query["X-Goog-Expires"] == ["60"]
    assert query["response-content-type"] == ["text/csv; charset=utf-8"]


def test_azure_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"k" * 32).decode())
    host, path, query = link(ObjectStore(BucketAddress("az://container/pre")))
    assert (host, path) == ("account.blob.core.windows.net", f"/container/pre/{KEY}")
    assert query["sp"] == ["r"]
    lifetime = datetime.fromisoformat(query["se"][0]) - datetime.fromisoformat(query["st"][0])
    assert lifetime.total_seconds() <= 60


@pytest.mark.parametrize("url", ["s3:///prefix", "ftp://bucket/prefix", "gs://"])
def test_an_address_that_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(OperatorError, match=r"files\.url"):
        ObjectStore(BucketAddress(url), environment={})
