"""A bucket of each kind of server, for tests that hold for all of them."""

import pytest

from tests.parts.azure import AzureContainer, AzureServer
from tests.parts.s3 import S3Bucket, S3Server

Bucket = S3Bucket | AzureContainer
KINDS = ("s3", "azure")


def fresh_bucket(request: pytest.FixtureRequest) -> Bucket:
    """An empty bucket of the kind that is the parameter of the fixture that asks."""
    if request.param == "s3":
        s3_server: S3Server = request.getfixturevalue("s3_server")
        return S3Bucket(s3_server, s3_server.fresh_bucket())
    azure_server: AzureServer = request.getfixturevalue("azure_server")
    return AzureContainer(azure_server, azure_server.fresh_container())


@pytest.fixture(params=KINDS)
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """An empty bucket, of one kind after the other."""
    return fresh_bucket(request)
