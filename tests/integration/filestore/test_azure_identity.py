"""Azure container accessed with an identity token. Azurite requires https for these tokens and does not verify them."""

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak.domain.errors import FileStoreError
from daybreak.filestore.bucket import RequestLimits
from daybreak.filestore.object_store import ObjectStore
from daybreak.filestore.packs import NO_PACKS
from daybreak.settings import FilesSettings
from tests.parts.azure import ACCOUNT, AzureServer, azurite
from tests.parts.certificates import own_certificate
from tests.parts.stored_files import store_file


def token(expires_in_seconds: int) -> str:
    """Return an identity token without a valid signature."""
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
def settings(server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> FilesSettings:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    return FilesSettings(url=f"az://{server.fresh_container()}/prefix", endpoint=server.endpoint)


@pytest.mark.release
def test_identity_uploads_and_signs(
    server: AzureServer, settings: FilesSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", token(3600))
    store = ObjectStore(settings, RequestLimits(retry_seconds=1), NO_PACKS)
    store.probe()
    snapshot_id = str(uuid.uuid4())
    written = store_file(store, snapshot_id=snapshot_id)
    url = asyncio.run(store.signed_url(written.key, seconds=900))
    assert url is not None
    with server.client() as client:
        answer = client.get(url)
        assert answer.content == b"rows"
        assert answer.headers["content-type"] == "application/gzip"
        assert answer.headers["content-disposition"] == 'attachment; filename="members.csv.gz"'
        assert client.get(url.replace("members", "segments")).status_code == 403
    assert store.remove("snapshots", snapshot_id, frozenset()) == 1


def test_expired_token_is_reported(settings: FilesSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", token(-3600))
    with pytest.raises(FileStoreError, match="does not accept the credentials"):
        ObjectStore(settings, RequestLimits(retry_seconds=1)).put("probe/a", b"rows", {})
