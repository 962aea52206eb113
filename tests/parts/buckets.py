"""Buckets on each kind of server."""

import pytest

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


@pytest.fixture(params=one_of(*KINDS))
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """Return an empty bucket. The long version runs the test with each kind."""
    return fresh_bucket(request)
