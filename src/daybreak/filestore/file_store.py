"""Storage of published files."""

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from io import FileIO
from typing import Literal, Protocol, get_args

import msgspec

from daybreak.domain.errors import FileDamaged

Kind = Literal["snapshots", "deltas"]
"""What is stored of a snapshot, as keys begin: its files, or its deltas, which are kept longer."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class WrittenFile(msgspec.Struct, frozen=True, gc=False):
    """Key of a stored file, and length and SHA-256 (hex) of its bytes."""

    key: str
    bytes: int
    sha256: str


class FileSlice(msgspec.Struct, frozen=True, gc=False):
    """A stored file: the key of its object, and its place in it. `length` is None for a file without a pack."""

    key: str
    offset: int = 0
    length: int | None = None

    def part(self, start: int, length: int | None) -> tuple[int, int | None]:
        """Return the position in the object, and the length, of `length` bytes of the file from `start`."""
        if self.length is None:
            return start, length
        left = max(self.length - start, 0)
        return self.offset + start, left if length is None else min(length, left)


class FreeSpace(msgspec.Struct, frozen=True):
    """Free bytes of a disk, and how many more files it can have: its free inodes, None without such a limit."""

    bytes: int
    files: int | None = None


class PublicationMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """Latest publication of this store's files. A state database with an older one was restored from a backup.

    `intended_id` is the snapshot whose publication, with the next version, has begun. Whether it was completed is known
    only to the state database.
    """

    version: int
    snapshot_id: str
    intended_id: str | None = None


class FileSink(Protocol):
    """Destination of the files of one run. Methods may be called from several threads.

    A sink can be pickled for tasks in other processes. Every method raises FileStoreError (permanent) or Unavailable (a
    retry can help).
    """

    packs: bool
    """Whether small files are appended to packs."""

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Store one file. An empty `client_id` selects the file that all Leaders without rows share.

        Deltas are files whose `format` is a delta format. They are kept longer than the other files of their snapshot.
        """

    def read(self, key: str) -> Iterator[bytes]:
        """Yield the bytes of a file of an earlier snapshot."""

    def reuse(self, key: str, size_bytes: int) -> str:
        """Add an unchanged file of an earlier snapshot to this one. Return its new key. On local disk, raises
        FileStoreError if a file without a pack does not exist or has another size.
        """

    def commit(self) -> None:
        """Return when all files are durable and have their final names."""

    def discard(self) -> None:
        """Delete all files, before or after `commit`."""


class FileRevision(Protocol):
    """Destination of files that replace files of a stored snapshot. They have new keys.

    Every method raises FileStoreError (permanent) or Unavailable (a retry can help).
    """

    @property
    def name(self) -> str:
        """The revision in the keys."""

    def key(self, client_id: str, resource: str, format: str) -> str:
        """Return the key that `write` gives to a file."""

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes]) -> WrittenFile:
        """Store one file. Safe to call from several threads."""

    def commit(self) -> None:
        """Return when all files are durable and can be read."""


class FileStore(Protocol):
    """Local disk or object store.

    Every method raises FileStoreError (permanent) or Unavailable (a retry can help).
    """

    @property
    def full_verification(self) -> bool:
        """Whether a run may read back every file. A remote store checks digests at the upload; a sample is enough."""

    def stage(self, snapshot_id: str) -> FileSink:
        """Return the sink of a new snapshot."""

    def revise(self, snapshot_id: str, revision: str) -> AbstractContextManager[FileRevision]:
        """Open the destination of files that replace others of a snapshot. `revision` (hex) is part of their keys."""

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Read a whole file. Raises FileDamaged if length or SHA-256 differ."""

    def checking(self) -> AbstractContextManager[Callable[[str, int, str], None]]:
        """Return `check` for some files. It opens a pack once, or reads neighbors in it with one request."""

    def add(self, key: str, resource: str, format: str, pieces: Iterable[bytes]) -> None:
        """Store a file of another store under the same key, which this store does not have yet. An error of `pieces` is
        raised, and leaves no file.
        """

    def presence(self) -> Callable[[str, int], bool]:
        """Return a function that returns whether a file with that key and that size in bytes exists.

        An object store lists each folder once, at the first key in it. The first missing file of a folder is looked for
        in a separate request. The function raises FileStoreError, Unavailable.
        """

    def open_local(self, key: str) -> FileIO | None:
        """Open a file on local disk, which the caller closes. Return None in an object store, and for a packed file."""

    async def packed(self, key: str) -> bytes | None:
        """Return the bytes of a packed file, with one request in an object store. Return None for another file."""

    async def signed_url(self, key: str, *, seconds: int, method: Literal["GET", "HEAD"] = "GET") -> str | None:
        """Return a URL that the store itself answers. Return None on local disk."""

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of a file, or `length` of them from `start`: fewer if the file is shorter.

        An object store yields pieces of 256 KiB or slightly more.
        """

    def stream(self, key: str, start: int, length: int, size_bytes: int | None = None) -> AsyncIterator[bytes]:
        """Yield `length` bytes of a file from `start`, as `read` does. A disk may block the event loop.

        An object store raises FileDamaged if the object has not `size_bytes`.
        """

    def remove(self, kind: Kind, snapshot_id: str, kept: AbstractSet[str] = frozenset()) -> int:
        """Delete the files or the deltas of a snapshot except the kept objects: files that other snapshots use, and
        packs with such files. Return the number of deleted objects.
        """

    def delete(self, keys: Sequence[str]) -> None:
        """Delete single files that are not packed. Missing ones are ignored."""

    def trim(self, pack: str, slices: Sequence[FileSlice]) -> bool:
        """Replace the bytes of a pack that are in none of the slices by zeros. A missing pack is ignored.

        Return whether another process may store these bytes again, as in an object store if it trims the pack at the
        same time. `pack_trimming` then repeats the call.
        """

    def ids(self, kind: Kind) -> list[str]:
        """Return the ids of all snapshots with files, or with deltas, sorted."""

    def publication_mark(self, first_id: str) -> PublicationMark | None:
        """Return the mark of the latest publication of the installation whose first publication has that id."""

    def mark_publication(self, first_id: str, mark: PublicationMark) -> None:
        """Replace that mark."""

    def free_space(self) -> FreeSpace | None:
        """Return the free space. Return None in an object store."""

    def probe(self) -> str | None:
        """Write, read and delete a small file. Return a warning for the operator, None without any."""


def checked_pieces(key: str, pieces: Iterable[bytes], bytes: int, sha256: str) -> Iterator[bytes]:
    """Yield the content of a file. At its end, raises FileDamaged if it has another length or SHA-256."""
    digest, length = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        length += len(piece)
        yield piece
    if length != bytes:
        raise FileDamaged(f"The file {key} is damaged: it has {length} bytes instead of {bytes}.")
    if digest.hexdigest() != sha256:
        raise FileDamaged(f"The file {key} is damaged: its SHA-256 does not match.")


def check_content(key: str, pieces: Iterable[bytes], bytes: int, sha256: str) -> None:
    """Raise FileDamaged if the content of a file has another length or SHA-256."""
    for _ in checked_pieces(key, pieces, bytes, sha256):
        pass
