"""The S3 fixtures: the server stores objects and checks signatures."""

from dataclasses import replace
from datetime import timedelta

import httpx
import obstore
import pytest

from tests.parts.s3 import S3Bucket


def test_object_is_read_by_range_and_signed_link(s3_bucket: S3Bucket) -> None:
    store = s3_bucket.server.store(s3_bucket.name)
    obstore.put(store, "a/campaigns.csv.gz", b"0123456789")
    assert bytes(obstore.get_range(store, "a/campaigns.csv.gz", start=2, length=3)) == b"234"
    link = obstore.sign(store, "GET", "a/campaigns.csv.gz", timedelta(seconds=60))
    with httpx.Client(trust_env=False, timeout=60) as client:
        assert client.get(link).content == b"0123456789"
        assert client.get(link, headers={"Range": "bytes=7-"}).content == b"789"


@pytest.mark.parametrize("change", ["wrong path", "wrong method", "wrong secret", "no signature"])
def test_link_with_an_invalid_signature_is_refused(s3_bucket: S3Bucket, change: str) -> None:
    store = s3_bucket.server.store(s3_bucket.name)
    obstore.put(store, "mine", b"secret")
    obstore.put(store, "other", b"secret")
    link = obstore.sign(store, "GET", "mine", timedelta(seconds=60))
    method = "GET"
    if change == "wrong path":
        link = link.replace("/mine?", "/other?")
    elif change == "wrong method":
        method = "DELETE"
    elif change == "wrong secret":
        other_client = replace(s3_bucket.server, secret_key="guessed").store(s3_bucket.name)
        link = obstore.sign(other_client, "GET", "mine", timedelta(seconds=60))
    else:
        link = link.partition("?")[0]
    with httpx.Client(trust_env=False, timeout=60) as client:
        assert client.request(method, link).status_code in {400, 401, 403}
    assert bytes(obstore.get(store, "mine").bytes()) == b"secret"
