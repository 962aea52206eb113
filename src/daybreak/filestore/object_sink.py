"""Uploading one run's files: small ones by many hands at once, large ones in parts while they are still being made.

Each file's digest is made here as it passes. An upload counts once the store's ETag is the digest of what was sent, or,
where a store's ETags are something else, once the object has been read back. Files appear under their final key at
once; they are no part of anything before the manifest that names them is published.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, count

from daybreak.catalogue.formats import format_named
from daybreak.domain.errors import FileDamaged, FileStoreError, Unavailable
from daybreak.filestore.bucket import Bucket
from daybreak.filestore.keys import relative_name, snapshot_folder
from daybreak.ports.files import WrittenFile

PART_BYTES = 8 << 20
_WAITING_BYTES = 64 << 20
_TRIES = 3
_PAUSE_SECONDS = 0.5


def stored_headers(resource: str, format: str) -> dict[str, str]:
    """What an object is stored with: how it is handed out when nobody asks for anything else."""
    known = format_named(format)
    return {
        "Content-Type": known.media_type,
        "Content-Disposition": f'attachment; filename="{resource}{known.ending}"',
    }


class ObjectSink:
    """The files of one snapshot on their way into a bucket. Safe to call from several threads.

    `uploads` files are sent at once; with 0 each file is sent before `write` returns, for a task on another machine
    that has nobody to wait for its uploads.
    """

    def __init__(self, bucket: Bucket, snapshot_id: str, uploads: int) -> None:
        self._bucket = bucket
        self._folder = snapshot_folder(snapshot_id)
        self._pool = ThreadPoolExecutor(uploads, "upload") if uploads else None
        self._room = _Room(_WAITING_BYTES)
        self._lock = threading.Lock()
        self._waiting: set[Future[None]] = set()
        self._failure: BaseException | None = None

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Takes one finished file. What goes wrong with a small one is raised by a later call, at the latest by `seal`.
        Raises FileStoreError, Unavailable.
        """
        self._raise_failure()
        key = f"{self._folder}/{relative_name(client_id, resource, format)}"
        headers = stored_headers(resource, format)
        parts = _parts(pieces)
        first = next(parts, b"")
        second = next(parts, None)
        if second is not None:
            return self._send_parts(key, headers, chain((first, second), parts))
        digest = hashlib.sha256(first).hexdigest()
        if self._pool is None:
            self._send(key, first, headers, digest)
        else:
            self._room.take(len(first))
            future = self._pool.submit(self._send, key, first, headers, digest)
            with self._lock:
                self._waiting.add(future)
            future.add_done_callback(lambda done: self._sent(done, len(first)))
        return WrittenFile(key, len(first), digest)

    def carry(self, key: str) -> str:
        """The same key: the new manifest names the old object, and retention leaves it alone."""
        return key

    def seal(self) -> None:
        """Waits until everything has arrived. Raises FileStoreError, Unavailable."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._raise_failure()

    def discard(self) -> None:
        """Gives up what is not sent yet and deletes what is. Raises FileStoreError, Unavailable."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._bucket.remove_below(f"{self._folder}/", frozenset())

    def _send(self, key: str, content: bytes, headers: dict[str, str], sha256: str) -> None:
        """Sends a small file, again when it did not arrive as it was sent."""
        expected = hashlib.md5(content, usedforsecurity=False).hexdigest()
        for attempt in count(1):
            try:
                if self._bucket.put(key, content, headers) != expected:
                    self._bucket.check(key, len(content), sha256)
                return
            except (FileDamaged, Unavailable):
                # Once another file has failed for good nobody waits for this one.
                if attempt >= _TRIES or self._failure is not None:
                    raise
                time.sleep(_PAUSE_SECONDS * attempt)

    def _send_parts(self, key: str, headers: dict[str, str], parts: Iterator[bytes]) -> WrittenFile:
        """Sends a large file while it is being made. It cannot be sent twice: the run is what is tried again."""
        digest = hashlib.sha256()
        part_digests = hashlib.md5(usedforsecurity=False)
        length = number = 0

        def passing() -> Iterator[bytes]:
            nonlocal length, number
            for part in parts:
                digest.update(part)
                part_digests.update(hashlib.md5(part, usedforsecurity=False).digest())
                length += len(part)
                number += 1
                yield part

        etag = self._bucket.put_parts(key, passing(), headers)
        written = WrittenFile(key, length, digest.hexdigest())
        if etag != f"{part_digests.hexdigest()}-{number}":
            try:
                self._bucket.check(key, length, written.sha256)
            except FileDamaged as error:
                raise Unavailable(f"{error.message} It was damaged on its way.", code="files_unavailable") from error
        return written

    def _sent(self, future: Future[None], size: int) -> None:
        self._room.give_back(size)
        with self._lock:
            self._waiting.discard(future)
            if not future.cancelled() and self._failure is None:
                self._failure = future.exception()

    def _raise_failure(self) -> None:
        with self._lock:
            failure = self._failure
        if isinstance(failure, FileDamaged):
            raise Unavailable(f"{failure.message} It was damaged on its way.", code="files_unavailable") from failure
        if isinstance(failure, FileStoreError | Unavailable):
            raise failure
        if failure is not None:
            raise RuntimeError("an upload ended with an error of its own") from failure


class _Room:
    """A budget of bytes in memory: whoever makes files waits while uploads lag behind."""

    def __init__(self, size_bytes: int) -> None:
        self._free = size_bytes
        self._changed = threading.Condition()

    def take(self, size_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._free >= size_bytes)
            self._free -= size_bytes

    def give_back(self, size_bytes: int) -> None:
        with self._changed:
            self._free += size_bytes
            self._changed.notify_all()


def _parts(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The same bytes in parts of exactly PART_BYTES, the last one shorter (a store's ETag depends on the cuts)."""
    gathered: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        rest = memoryview(piece).cast("B")
        while size + len(rest) >= PART_BYTES:
            taken = PART_BYTES - size
            gathered.append(rest[:taken])
            yield b"".join(gathered)
            gathered, size, rest = [], 0, rest[taken:]
        if rest:
            gathered.append(bytes(rest))
            size += len(rest)
    if gathered:
        yield b"".join(gathered)
