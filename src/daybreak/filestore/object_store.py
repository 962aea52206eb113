"""Files in a bucket: Amazon S3 and compatible servers, Google Cloud Storage, Azure Blob Storage.

Keys in manifests are relative to the prefix of `files.url`. A file that is carried over is not copied: the new manifest
names the old object, which stays as long as a living manifest does so.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import obstore

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.domain.identity import is_id
from daybreak.filestore.clouds import BucketAddress, connect
from daybreak.filestore.keys import snapshot_folder, split_key
from daybreak.filestore.object_sink import PART_BYTES, ObjectSink
from daybreak.filestore.refusals import DELETE, LIST, READ, SIGN, WRITE, Need, translated
from daybreak.ports.files import FileSink, StoreLink

_UPLOADS = 16
_PARTS_AT_ONCE = 3
_LINK_SECONDS_MOST = 60
_DELETE_AT_ONCE = 1000
_READ_BYTES = 1 << 20


class ObjectStore:
    """The file store in a bucket. `environment` and `home` are where credentials are looked for."""

    def __init__(
        self,
        address: BucketAddress,
        *,
        environment: Mapping[str, str] = os.environ,
        home: Path | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._address = address
        self._clock = clock
        connected = connect(address, environment, home or Path.home(), clock)
        self._store, self._signer, self._machine = connected.store, connected.signer, connected.machine
        self._prefix = urlsplit(address.url).path.strip("/")

    @property
    def reads_cheaply(self) -> bool:
        return False

    def stage(self, snapshot_id: str) -> FileSink:
        """Where one run uploads to. Nothing is asked of the store yet."""
        return _TravellingSink(self, self._address, snapshot_id, _UPLOADS)

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Reads the whole object. Raises FileDamaged, FileStoreError when it is gone, Unavailable."""
        digest = hashlib.sha256()
        length = 0
        for piece in self.read(key):
            digest.update(piece)
            length += len(piece)
        if length != bytes:
            raise FileDamaged(f"The object {key} is not what was written: {length} bytes where {bytes} were stored.")
        if digest.hexdigest() != sha256:
            raise FileDamaged(f"The object {key} is not what was written: its SHA-256 is another.")

    def open_local(self, key: str) -> FileIO | None:
        """None: objects lie elsewhere."""
        split_key(key)
        return None

    async def store_link(
        self,
        key: str,
        *,
        seconds: int,
        file_name: str,
        content_type: str,
        content_encoding: str | None,
        method: str = "GET",
    ) -> StoreLink | None:
        """A URL that the store answers itself, for a minute at most. Without a key at hand (identities of Google and
        Azure) nothing but a bare URL can be signed: it gives the file as it is stored. Raises FileStoreError,
        Unavailable.
        """
        seconds = max(1, min(seconds, _LINK_SECONDS_MOST))
        now = self._clock()
        expires_at = now + timedelta(seconds=seconds)
        answer = {"content-type": content_type, "content-disposition": f'attachment; filename="{file_name}"'}
        if content_encoding is not None:
            answer["content-encoding"] = content_encoding
        await self._ready()
        if self._signer is not None:
            full = f"{self._prefix}/{key}" if self._prefix else key
            return StoreLink(self._signer.url(method, full, seconds, answer, now), expires_at)
        with translated("A link cannot be signed", SIGN):
            verb = cast("Literal['GET', 'HEAD']", method)
            url = await obstore.sign_async(self._store, verb, key, timedelta(seconds=seconds))
        return StoreLink(url, expires_at)

    def read(self, key: str) -> Iterator[bytes]:
        """The object's bytes in pieces. Raises FileStoreError when it is gone, Unavailable."""
        split_key(key)
        with self._asking(f"The object {key} cannot be read", READ):
            for piece in obstore.get(self._store, key).stream(min_chunk_size=_READ_BYTES):
                yield bytes(piece)

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> str:
        """Stores an object in one request; its ETag. Raises FileStoreError, Unavailable."""
        with self._asking(f"The object {key} cannot be written", WRITE):
            result = obstore.put(self._store, key, content, attributes=cast("Any", dict(headers)), use_multipart=False)
        return (result["e_tag"] or "").strip('"')

    def put_parts(self, key: str, parts: Iterable[bytes], headers: Mapping[str, str]) -> str:
        """Stores an object from parts; its ETag. What the parts' maker raises ends the upload and is raised here."""
        with self._asking(f"The object {key} cannot be written", WRITE):
            result = obstore.put(
                self._store,
                key,
                iter(parts),
                attributes=cast("Any", dict(headers)),
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )
        return (result["e_tag"] or "").strip('"')

    def remove(self, snapshot_id: str, keep_keys: frozenset[str]) -> int:
        """Deletes a snapshot's objects but the kept ones; how many. Raises FileStoreError, Unavailable."""
        return self.remove_below(f"{snapshot_folder(snapshot_id)}/", keep_keys)

    def remove_below(self, prefix: str, keep: frozenset[str]) -> int:
        """Deletes in bulk what lies below a prefix. Raises FileStoreError, Unavailable."""
        removed = 0
        with self._asking(f"The objects below {prefix} cannot be deleted", DELETE):
            for batch in obstore.list(self._store, prefix, chunk_size=_DELETE_AT_ONCE):
                doomed = [found["path"] for found in batch if found["path"] not in keep]
                if doomed:
                    obstore.delete(self._store, doomed)
                removed += len(doomed)
        return removed

    def snapshot_ids(self) -> list[str]:
        """Ids below `snapshots/`. Raises FileStoreError, Unavailable."""
        with self._asking("The bucket cannot be listed", LIST):
            found = obstore.list_with_delimiter(self._store, "snapshots/")["common_prefixes"]
        ids = {prefix.rstrip("/").rpartition("/")[2] for prefix in found}
        return sorted(filter(is_id, ids))

    def free_bytes(self) -> int | None:
        """None: a bucket does not fill up."""
        return None

    def probe(self) -> None:
        """Writes, reads, lists and deletes a small object, after a link to it where the cloud is asked for signatures.
        Raises FileStoreError, Unavailable.
        """
        key = f"probe/{uuid.uuid4()}"
        if self._signer is None:
            with self._asking("A link cannot be signed", SIGN):
                obstore.sign(self._store, "GET", key, timedelta(seconds=_LINK_SECONDS_MOST))
        self.put(key, b"daybreak", {"Content-Type": "text/plain"})
        with self._asking("The bucket cannot be read", READ):
            good = bytes(obstore.get(self._store, key).bytes()) == b"daybreak"
        with self._asking("The bucket cannot be listed", LIST):
            obstore.list_with_delimiter(self._store, "probe/")
        with self._asking("What is in the bucket cannot be deleted", DELETE):
            obstore.delete(self._store, [key])
        if not good:
            raise FileStoreError("The bucket does not give back what was written to it.")

    @contextlib.contextmanager
    def _asking(self, what: str, need: Need) -> Iterator[None]:
        """Asks the bucket. Keys come first: what is wrong with them is not told through the library."""
        if self._machine is not None:
            self._machine.keys()
        with translated(what, need):
            yield

    async def _ready(self) -> None:
        """The same for an event loop, which does not wait for keys."""
        if self._machine is not None and not self._machine.fresh():
            await asyncio.to_thread(self._machine.keys)


class _TravellingSink(ObjectSink):
    """A sink that finds its bucket again on another machine, by its address and that machine's own credentials. There
    it sends each file before `write` returns: a task's end must mean that its files have arrived.
    """

    def __init__(self, store: ObjectStore, address: BucketAddress, snapshot_id: str, uploads: int) -> None:
        super().__init__(store, snapshot_id, uploads)
        self._travels_as = (address, snapshot_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived_sink, self._travels_as


def _arrived_sink(address: BucketAddress, snapshot_id: str) -> _TravellingSink:
    return _TravellingSink(ObjectStore(address), address, snapshot_id, 0)
