"""Files in packs over HTTP: the service answers as for other files, from a disk and from a bucket."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import FileStore
from daybreak.filestore.local_disk import LocalDisk
from daybreak.filestore.object_store import ObjectStore
from daybreak.filestore.packs import Packing
from daybreak.snapshots.verify import ManifestFile, manifest_files
from tests.acceptance.conftest import new_installation
from tests.acceptance.installation import MAYA, NORTH
from tests.acceptance.service import Service, serving
from tests.parts.buckets import open_bucket
from tests.parts.s3 import S3Bucket, S3Server

PACKING = Packing(file_bytes=65_536, pack_bytes=200_000)


@pytest.fixture(scope="module", params=["folder", "bucket"])
def packed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, FileStore]]:
    """A service whose small files are in packs."""
    folder = tmp_path_factory.mktemp("packed")
    settings: dict[str, object] = {}
    environment: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        store: FileStore
        if request.param == "folder":
            store = LocalDisk(folder / "files", PACKING)
            settings = {"files.url": str(folder / "files")}
        else:
            server: S3Server = request.getfixturevalue("s3_server")
            bucket = S3Bucket(server, server.fresh_bucket())
            environment = dict(bucket.environment())
            store = open_bucket(bucket, patch, packing=PACKING)
            settings = {"files.url": bucket.url, "files.endpoint": server.endpoint, "files.path_style": True}
        installation = new_installation(folder, bucket=store)
        with serving(installation, workers=1, settings=settings, environment=environment) as found:
            yield found, store


def stored_file(service: Service, resource: str) -> ManifestFile:
    state = service.installation.state()
    try:
        snapshot = state.read(lambda stores: stores.snapshots.current())
        assert snapshot is not None
        files = manifest_files(state, snapshot.snapshot_id, resource)
        return next(file for file in files if (file.client_id, file.format) == (NORTH, "csv"))
    finally:
        state.close()


def test_packed_file_is_answered_like_others(packed: tuple[Service, FileStore]) -> None:
    service, store = packed
    file = stored_file(service, "campaigns")
    assert slice_of(file.stored.key).length == file.stored.bytes
    assert slice_of(stored_file(service, "members").stored.key).length is None
    token = service.token(MAYA, NORTH)
    link = service.link(token, NORTH, "campaigns.csv.gz")
    whole = service.get(link)
    assert (whole.status_code, len(whole.content)) == (200, file.stored.bytes)
    assert hashlib.sha256(whole.content).hexdigest() == file.stored.sha256
    assert whole.content == b"".join(store.read(file.stored.key))
    etag = whole.headers["ETag"]
    assert etag == f'"{file.stored.sha256[:40]}-f"'
    head = service.request("HEAD", link)
    assert (head.status_code, head.headers["Content-Length"]) == (200, str(file.stored.bytes))
    part = service.get(link, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert part.headers["Content-Range"] == f"bytes 10-19/{file.stored.bytes}"
    several = service.get(link, headers={"Range": "bytes=0-4,-5"})
    assert several.headers["Content-Type"].startswith("multipart/byteranges")
    assert whole.content[:5] in several.content
    assert whole.content[-5:] in several.content
    assert service.get(link, headers={"If-None-Match": etag}).status_code == 304
    assert service.get(link, headers={"Range": f"bytes={file.stored.bytes}-"}).status_code == 416
    assert service.get(link, headers={"Range": "bytes=0-4", "If-Range": '"other"'}).content == whole.content


def test_damaged_packed_file_is_not_served(packed: tuple[Service, FileStore]) -> None:
    service, store = packed
    file = stored_file(service, "communities")
    part = slice_of(file.stored.key)
    content = bytearray(b"".join(store.read(part.key)))
    token = service.token(MAYA, NORTH)
    link = service.link(token, NORTH, "communities.csv.gz")
    assert service.get(link).status_code == 200
    content[part.offset + 20] ^= 1
    if isinstance(store, ObjectStore):
        store.put(part.key, bytes(content), {})
    else:
        Path(service.installation.folder.parent, "files", part.key).write_bytes(content)
    for method in ("GET", "HEAD"):
        assert service.request(method, link).status_code == 500
    assert service.get(link).json()["code"] == "file_damaged"
    assert service.get(service.link(token, NORTH, "campaigns.csv.gz")).status_code == 200
