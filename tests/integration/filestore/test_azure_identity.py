"""An Azure container opened with an identity's token over https: Azurite believes tokens as they stand."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak.domain.errors import FileStoreError
from daybreak.filestore.clouds import BucketAddress
from daybreak.filestore.object_store import ObjectStore
from tests.parts.azure import ACCOUNT, AzureServer, azurite
from tests.parts.certificates import own_certificate


def token(expires_in_seconds: int) -> str:
    """What Azure would give a machine, signed by nobody."""
    now = int(time.time())
    claims = {
        "aud": "https://storage.azure.com",
        "iss": "https://sts.windows.net/tenant/",
        "tid": str(uuid.uuid4()),
        "oid": str(uuid.uuid4()),
        "iat": now - 7200,
        "nbf": now - 7200,
        "exp": now + expires_in_seconds,
    }
    parts = (json.dumps(part).encode() for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), "c2ln"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    certificate = Path(tmp_path_factory.mktemp("azure")) / "own.pem"
    own_certificate(certificate)
    with azurite(certificate) as found:
        yield found


@pytest.fixture
def address(server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> BucketAddress:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    return BucketAddress(f"az://{server.fresh_container()}/prefix", server.endpoint, patience_seconds=1)


def test_an_identity_does_everything_and_its_links_give_the_file_as_it_is_stored(
    server: AzureServer, address: BucketAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", token(3600))
    store = ObjectStore(address, environment={"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT})
    store.probe()
    snapshot_id = str(uuid.uuid4())
    sink = store.stage(snapshot_id)
    written = sink.write(str(uuid.uuid4()), "members", "csv", [b"rows"])
    sink.seal()
    link = asyncio.run(
        store.store_link(
            written.key, seconds=900, file_name="members.csv", content_type="text/csv", content_encoding="gzip"
        )
    )
    assert link is not None
    with server.client() as client:
        answer = client.get(link.url)
        assert answer.content == b"rows"
        assert answer.headers["content-type"] == "application/gzip"
        assert answer.headers["content-disposition"] == 'attachment; filename="members.csv.gz"'
        assert client.get(link.url.replace("members", "segments")).status_code == 403
    assert store.remove(snapshot_id, frozenset()) == 1


def test_a_token_that_has_expired_is_told(address: BucketAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", token(-3600))
    with pytest.raises(FileStoreError, match="does not accept the credentials"):
        ObjectStore(address, environment={"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT}).put("probe/a", b"rows", {})
