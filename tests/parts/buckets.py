"""Buckets on each kind of server."""

import pytest

from tests.parts.azure import AzureContainer, AzureServer
from tests.parts.s3 import S3Bucket, S3Server

Bucket = S3Bucket | AzureContainer
KINDS = ("s3", "azure")


def fresh_bucket(request: pytest.FixtureRequest) -> Bucket:
    """Return an empty bucket of the kind in `request.param`."""
    if request.param == "s3":
        s3_server: S3Server = request.getfixturevalue("s3_server")
        return S3Bucket(s3_server, s3_server.fresh_bucket())
    azure_server: AzureServer = request.getfixturevalue("azure_server")
    return AzureContainer(azure_server, azure_server.fresh_container())


@pytest.fixture(params=KINDS)
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """Return an empty bucket. The test runs once with each kind."""
    return fresh_bucket(request)
