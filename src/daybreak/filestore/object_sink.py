"""Upload of the files of one run: small files in parallel, large files in parts while they are still being written.

The sink computes the SHA-256 of each file during the upload. An upload is complete when the ETag of the store is the
MD5 of the sent bytes. If the ETag differs, the object is read back. Files have their final key immediately. They belong
to no snapshot until the manifest that lists them is published.
"""

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Literal

from daybreak.catalogue.formats import format_named
from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable
from daybreak.filestore.bucket import RequestLimits, open_bucket
from daybreak.filestore.file_keys import file_key, folder_of, format_folder, slice_key
from daybreak.filestore.file_store import KINDS, WrittenFile
from daybreak.filestore.objects import PART_BYTES, Objects
from daybreak.filestore.packs import NO_PACKS, Packing, PackReader, new_pack, pack_folder, small_content
from daybreak.settings import FilesSettings

_MAXIMUM_QUEUED_BYTES = 64 << 20
_ATTEMPTS = 3
_RETRY_SECONDS = 0.5
PACK_HEADERS = {"Content-Type": "application/octet-stream"}


def stored_headers(resource: str, format: str, serve_gzip_as: Literal["file", "encoding"]) -> dict[str, str]:
    """Return the headers that the store sends with every download of the object."""
    known = format_named(format)
    if serve_gzip_as == "encoding" and known.gzip:
        return {
            "Content-Type": known.content_type,
            "Content-Encoding": "gzip",
            "Content-Disposition": f'attachment; filename="{resource}{known.content_ending}"',
            # Cloud Storage otherwise decompresses for clients that do not accept gzip
            # (https://cloud.google.com/storage/docs/transcoding#decompressive_transcoding).
            "Cache-Control": "no-transform",
        }
    return {"Content-Type": known.media_type, "Content-Disposition": f'attachment; filename="{resource}{known.ending}"'}


class ObjectSink:
    """Uploads the files of one snapshot to a bucket. Safe to use from several threads.

    A Spark task receives the sink by pickling, and opens the bucket with the credentials of the machine it runs on.
    There `write` returns after the upload, so that the files of a finished task are in the bucket.
    """

    def __init__(
        self,
        objects: Objects,
        settings: FilesSettings,
        snapshot_id: str,
        *,
        uploads: int = 0,
        revision: str = "",
        packing: Packing = NO_PACKS,
    ) -> None:
        """Create the sink.

        Args:
            objects: Bucket.
            settings: Settings of the bucket, which contain no credentials.
            snapshot_id: Snapshot that the files belong to.
            uploads: Number of parallel uploads. With 0, `write` returns after the upload.
            revision: Part of the keys of files that replace others of a stored snapshot.
            packing: Which files are packed.
        """
        self._objects, self._settings = objects, settings
        self._snapshot_id = snapshot_id
        self.name = revision
        self._pool = ThreadPoolExecutor(uploads, "upload") if uploads else None
        self._budget = _ByteBudget(_MAXIMUM_QUEUED_BYTES)
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._discarded = False
        self._packing, self.packs = packing, packing.file_bytes > 0
        self._packs: dict[str, _OpenPack] = {}
        self._pack_reader = PackReader(objects.read)

    def __reduce__(self) -> tuple[object, ...]:
        return _open_sink, (self._settings, self._snapshot_id)

    def key(self, client_id: str, resource: str, format: str) -> str:
        return file_key(self._snapshot_id, client_id, resource, format, self.name)

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Upload a file, or add it to a pack that is uploaded when it is full. A failed upload of a small file or of a
        pack is raised by a later call, at the latest by `commit`.

        Raises FileStoreError, Unavailable.
        """
        self._raise_failure()
        content, pieces = small_content(pieces, self._packing.file_bytes)
        if content:
            return self._append(pack_folder(format_folder(self._snapshot_id, format)), content)
        headers = stored_headers(resource, format, self._settings.serve_gzip_as)
        return self.upload(self.key(client_id, resource, format), headers, pieces)

    def _append(self, folder: str, content: bytes) -> WrittenFile:
        """Add a file to the pack of a folder that is not full."""
        full = None
        with self._lock:
            pack = self._packs.get(folder)
            if pack is None or pack.bytes + len(content) > self._packing.pack_bytes:
                full = pack
                pack = self._packs[folder] = _OpenPack(new_pack(folder))
            key = slice_key(pack.key, pack.bytes, len(content))
            pack.files.append(content)
            pack.bytes += len(content)
        if full is not None:
            self.upload(full.key, PACK_HEADERS, full.files)
        return WrittenFile(key, len(content), hashlib.sha256(content).hexdigest())

    def upload(self, key: str, headers: dict[str, str], pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Upload an object under a key, as `write` does."""
        parts = _parts(pieces)
        first = next(parts, b"")
        second = next(parts, None)
        if second is not None:
            return self._upload_parts(key, headers, chain((first, second), parts))
        digest = hashlib.sha256(first).hexdigest()
        if self._pool is None:
            self._upload(key, first, headers, digest)
        else:
            self._budget.acquire(len(first))
            future = self._pool.submit(self._upload, key, first, headers, digest)
            future.add_done_callback(lambda done: self._record_result(done, len(first)))
        return WrittenFile(key, len(first), digest)

    def read(self, key: str) -> Iterator[bytes]:
        return self._pack_reader.read(key)

    def reuse(self, key: str, size_bytes: int) -> str:
        """Return the same key: the new manifest refers to the existing object, which the run has looked for."""
        del size_bytes
        return key

    def commit(self) -> None:
        """Upload the last packs, and wait for all uploads. Raises FileStoreError, Unavailable."""
        while self._packs:
            _, pack = self._packs.popitem()
            self.upload(pack.key, PACK_HEADERS, pack.files)
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._raise_failure()

    def discard(self) -> None:
        """Cancel queued uploads and delete uploaded files. Raises FileStoreError, Unavailable."""
        self._discarded = True
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for kind in KINDS:
            self._objects.remove_below(f"{folder_of(kind, self._snapshot_id)}/")

    def _upload(self, key: str, content: bytes, headers: dict[str, str], sha256: str) -> None:
        """Upload a small file, with retries if the upload is damaged or the store is unavailable."""
        expected = hashlib.md5(content, usedforsecurity=False).hexdigest()
        for attempt in count(1):
            try:
                if self._objects.put(key, content, headers) != expected:
                    self._objects.check(key, len(content), sha256)
                return
            except (FileDamaged, Unavailable):
                # No retry when the run fails anyway.
                if attempt >= _ATTEMPTS or self._discarded or self._failure is not None:
                    raise
                time.sleep(_RETRY_SECONDS * attempt)

    def _upload_parts(self, key: str, headers: dict[str, str], parts: Iterator[bytes]) -> WrittenFile:
        """Upload a large file. Its parts cannot be read again, so a failed upload fails the run."""
        digest = hashlib.sha256()
        part_digests = hashlib.md5(usedforsecurity=False)
        length = number = 0

        def hashed_parts() -> Iterator[bytes]:
            nonlocal length, number
            for part in parts:
                digest.update(part)
                part_digests.update(hashlib.md5(part, usedforsecurity=False).digest())
                length += len(part)
                number += 1
                yield part

        etag = self._objects.put_parts(key, hashed_parts(), headers)
        written = WrittenFile(key, length, digest.hexdigest())
        if etag != f"{part_digests.hexdigest()}-{number}":
            try:
                self._objects.check(key, length, written.sha256)
            except FileDamaged as error:
                raise _damaged_upload(error) from error
        return written

    def _record_result(self, future: Future[None], size_bytes: int) -> None:
        self._budget.release(size_bytes)
        with self._lock:
            if not future.cancelled() and self._failure is None:
                self._failure = future.exception()

    def _raise_failure(self) -> None:
        with self._lock:
            failure = self._failure
        if isinstance(failure, FileDamaged):
            raise _damaged_upload(failure) from failure
        if isinstance(failure, FileStoreError | Unavailable):
            raise failure
        if failure is not None:
            raise RuntimeError("an upload raised an unexpected error") from failure


def _open_sink(settings: FilesSettings, snapshot_id: str) -> ObjectSink:
    return ObjectSink(Objects(open_bucket(settings, RequestLimits())), settings, snapshot_id)


@dataclass(slots=True)
class _OpenPack:
    """A pack that grows, and its files."""

    key: str
    files: list[bytes] = field(default_factory=list)
    bytes: int = 0


def _damaged_upload(error: FileDamaged) -> Unavailable:
    return Unavailable(f"{error.message} It was damaged during the upload.", code="files_unavailable")


class _ByteBudget:
    """Limit on queued bytes. Writers wait until uploads release enough of it."""

    def __init__(self, size_bytes: int) -> None:
        self._free = size_bytes
        self._changed = threading.Condition()

    def acquire(self, size_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._free >= size_bytes)
            self._free -= size_bytes

    def release(self, size_bytes: int) -> None:
        with self._changed:
            self._free += size_bytes
            self._changed.notify_all()


def _parts(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield the bytes in parts of exactly PART_BYTES, except for the last one. The ETag depends on the part size."""
    gathered: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        remaining = memoryview(piece).cast("B")
        while size + len(remaining) >= PART_BYTES:
            taken = PART_BYTES - size
            gathered.append(remaining[:taken])
            yield b"".join(gathered)
            gathered, size, remaining = [], 0, remaining[taken:]
        if remaining:
            gathered.append(bytes(remaining))
            size += len(remaining)
    if gathered:
        yield b"".join(gathered)
