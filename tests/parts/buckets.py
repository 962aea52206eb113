"""Buckets on each kind of server."""

from typing import Any

import pytest

from daybreak.filestore.object_store import ObjectStore
from daybreak.settings import FilesSettings
from tests.parts.azure import AzureContainer, AzureServer
from tests.parts.s3 import S3Bucket, S3Server
from tests.parts.variants import one_of

Bucket = S3Bucket | AzureContainer
KINDS = ("s3", "azure")


def fresh_bucket(request: pytest.FixtureRequest) -> Bucket:
    """Return an empty bucket of the kind in `request.param`."""
    if request.param == "s3":
        s3_server: S3Server = request.getfixturevalue("s3_server")
        return S3Bucket(s3_server, s3_server.fresh_bucket())
    azure_server: AzureServer = request.getfixturevalue("azure_server")
    return AzureContainer(azure_server, azure_server.fresh_container())


def open_bucket(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, prefix: str = "", **options: Any) -> ObjectStore:
    """Return the store in a bucket, with its credentials in the environment."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    settings = FilesSettings(url=f"{bucket.url}{prefix}", endpoint=bucket.server.endpoint, path_style=True)
    return ObjectStore(settings, **options)


@pytest.fixture(params=one_of(*KINDS))
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """Return an empty bucket. The long version runs the test with each kind."""
    return fresh_bucket(request)
