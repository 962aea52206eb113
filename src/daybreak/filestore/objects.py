"""Objects of a bucket by key: reading, writing and deleting them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Queue
from typing import TYPE_CHECKING

import obstore

from daybreak.filestore.bucket import Bucket
from daybreak.filestore.file_keys import slice_of
from daybreak.filestore.file_store import check_content
from daybreak.filestore.part_queue import pass_on
from daybreak.filestore.store_errors import DELETE, LIST, READ, WRITE, translate_errors

if TYPE_CHECKING:
    from obstore import GetOptions

PART_BYTES = 8 << 20
_PARALLEL_PARTS = 3
_OBJECTS_PER_REQUEST = 1000
# Some stores take 20 ms for each object, and respond after the last one, which must be within `read_timeout_seconds`.
_DELETED_PER_REQUEST = 250
# Larger pieces cost more memory for each client that reads slowly.
READ_BYTES = 256 << 10


class Objects:
    """Objects of a bucket. Every method raises FileStoreError (permanent) or Unavailable (a retry can help)."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Read the whole object. Raises FileDamaged, FileStoreError if it does not exist, Unavailable."""
        check_content(key, self.read(key), bytes, sha256)

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of an object, or `length` of them from `start`.

        Raises FileStoreError if the object does not exist or `start` is beyond its end, Unavailable.
        """
        part = slice_of(key)
        start, length = part.part(start, length)
        options: GetOptions = {} if length is None else {"range": (start, start + length)}
        with translate_errors(f"The object {key} cannot be read", READ):
            for piece in obstore.get(self._bucket, part.key, options=options).stream(min_chunk_size=READ_BYTES):
                yield bytes(piece)

    def put(self, key: str, content: bytes, headers: Mapping[str, str]) -> str:
        """Store an object in one request. Return its ETag without quotes, or an empty text."""
        with translate_errors(f"The object {key} cannot be written", WRITE):
            result = obstore.put(self._bucket, key, content, attributes=dict(headers), use_multipart=False)
        return (result["e_tag"] or "").strip('"')

    def put_parts(self, key: str, parts: Iterable[bytes], headers: Mapping[str, str]) -> str:
        """Store an object in parts. It is visible after the last part. Return its ETag without quotes.

        An exception of `parts` aborts the upload and is raised.

        The parts are made in this thread and uploaded in another. obstore runs an iterator inside its runtime, and
        panics when the iterator calls obstore, for example to read the previous file.
        """
        # An empty part is the end, None the end after an exception.
        waiting: Queue[bytes | None] = Queue(1)

        def received() -> Iterator[bytes]:
            while part := waiting.get():
                yield part
            if part is None:
                raise RuntimeError("The parts ended with an exception.")

        def upload() -> str:
            with translate_errors(f"The object {key} cannot be written", WRITE):
                result = obstore.put(
                    self._bucket,
                    key,
                    received(),
                    attributes=dict(headers),
                    use_multipart=True,
                    chunk_size=PART_BYTES,
                    max_concurrency=_PARALLEL_PARTS,
                )
            return (result["e_tag"] or "").strip('"')

        end: bytes | None = None
        with ThreadPoolExecutor(1, "parts") as executor:
            uploading = executor.submit(upload)
            try:
                for part in parts:
                    pass_on(waiting, part, uploading)
                    if uploading.done():  # with an error
                        break
                end = b""
            finally:
                pass_on(waiting, end, uploading)
            return uploading.result()

    def remove_below(self, prefix: str, kept: AbstractSet[str] = frozenset()) -> int:
        """Delete all objects with the prefix except the kept keys. Return their number."""
        removed = 0
        with translate_errors(f"The objects below {prefix} cannot be deleted", DELETE):
            for batch in obstore.list(self._bucket, prefix, chunk_size=_OBJECTS_PER_REQUEST):
                keys = [found["path"] for found in batch if found["path"] not in kept]
                self._delete(keys)
                removed += len(keys)
        return removed

    def _objects_below(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the key and the size of all objects with the prefix."""
        with translate_errors(f"The objects below {prefix} cannot be listed", LIST):
            for batch in obstore.list(self._bucket, prefix, chunk_size=_OBJECTS_PER_REQUEST):
                yield from ((found["path"], found["size"]) for found in batch)

    def _delete(self, keys: Sequence[str]) -> None:
        """Delete objects in few requests. Those that another process has deleted are ignored.

        Raises the errors of obstore.
        """
        # Swift deletes the objects of a request in parallel, and refuses a second deletion at the same time.
        once = list(dict.fromkeys(keys))
        for start in range(0, len(once), _DELETED_PER_REQUEST):
            some = once[start : start + _DELETED_PER_REQUEST]
            try:
                obstore.delete(self._bucket, some)
            except FileNotFoundError:
                # Azure and Google report a missing object, and the rest may not be deleted.
                for key in some:
                    with suppress(FileNotFoundError):
                        obstore.delete(self._bucket, key)
