"""A bucket of each kind of server, for tests that hold for all of them."""

import pytest

from tests.parts.azure import AzureContainer
from tests.parts.s3 import S3Bucket

Bucket = S3Bucket | AzureContainer


@pytest.fixture(params=["s3_bucket", "azure_container"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """An empty bucket, of one kind after the other."""
    found: Bucket = request.getfixturevalue(request.param)
    return found
