"""File store on a local or mounted disk.

A run writes below `staging/{snapshot_id}`. `LocalSink.commit` flushes the files once and renames the folder to
`snapshots/{snapshot_id}`. A killed run leaves a folder in `staging/`, or a folder in `snapshots/` that is in no
manifest. The next run deletes it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import uuid
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Literal

from daybreak.domain.errors import FileDamaged, FileStoreError
from daybreak.domain.identity import is_id
from daybreak.filestore.file_keys import snapshot_folder, split_key
from daybreak.filestore.local_sink import FOLDER_MODE, LocalSink, remove_tree, store_error
from daybreak.ports.files import FileSink

_READ_BYTES = 1 << 20


def _open_regular(path: str, flags: int) -> int:
    """Open a file without following a symbolic link and without waiting for a named pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


class LocalDisk:
    """File store below one root folder."""

    def __init__(self, root: Path) -> None:
        """Create the root folder if it does not exist. Raises FileStoreError."""
        self._root = Path(os.path.abspath(root))
        self._root_name = str(self._root)
        self._snapshots = self._root / "snapshots"
        self._staging = self._root / "staging"
        try:
            self._snapshots.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            self._staging.mkdir(FOLDER_MODE, exist_ok=True)
        except OSError as error:
            raise store_error(error, f"files.url: the folder {self._root} cannot be used") from error

    @property
    def full_verification(self) -> bool:
        return True

    def stage(self, snapshot_id: str) -> FileSink:
        """Return the sink of one run. Raises FileStoreError if the snapshot is already staged."""
        final = self._root / snapshot_folder(snapshot_id)
        staged = self._staging / snapshot_id
        try:
            staged.mkdir(FOLDER_MODE)
        except OSError as error:
            raise store_error(error, f"The staging folder {staged} cannot be created") from error
        return LocalSink(self._root, staged, final)

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Read the whole file. Raises FileDamaged, or FileStoreError if it does not exist."""
        digest = hashlib.sha256()
        length = 0
        for piece in self._pieces(key, min(bytes + 1, _READ_BYTES)):
            digest.update(piece)
            length += len(piece)
        if length != bytes:
            raise FileDamaged(f"The file {key} is damaged: it has {length} bytes instead of {bytes}.")
        if digest.hexdigest() != sha256:
            raise FileDamaged(f"The file {key} is damaged: its SHA-256 does not match.")

    def open_local(self, key: str) -> FileIO:
        """Open a file for reading. The caller closes it. Raises FileStoreError."""
        split_key(key)
        try:
            return FileIO(f"{self._root_name}/{key}", opener=_open_regular)
        except OSError as error:
            raise store_error(error, f"The file {key} cannot be read") from error

    async def signed_url(self, key: str, *, seconds: int, method: Literal["GET", "HEAD"] = "GET") -> str | None:
        """Return None: a disk has no server."""
        return None

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of a file, or `length` of them from `start`, in pieces of 1 MiB. Raises FileStoreError."""
        return self._pieces(key, _READ_BYTES, start, length)

    def _pieces(self, key: str, size_bytes: int, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        split_key(key)
        left = sys.maxsize if length is None else length
        try:
            # Path objects would add a tenth to the time of reading a small file, and a run reads every file back.
            handle = os.open(f"{self._root_name}/{key}", os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if start:
                    os.lseek(handle, start, os.SEEK_SET)
                while piece := os.read(handle, min(size_bytes, left)):
                    left -= len(piece)
                    yield piece
            finally:
                os.close(handle)
        except OSError as error:
            raise store_error(error, f"The file {key} cannot be read") from error

    def remove(self, snapshot_id: str, keep_keys: frozenset[str]) -> int:
        """Delete the files of a snapshot, staged ones included, except the kept keys. Return their number.

        Raises FileStoreError.
        """
        folder = self._root / snapshot_folder(snapshot_id)
        kept = {name for owner, name in map(split_key, keep_keys) if owner == snapshot_id}
        try:
            return remove_tree(self._staging / snapshot_id, set()) + remove_tree(folder, kept)
        except OSError as error:
            raise store_error(error, f"The files of snapshot {snapshot_id} cannot be deleted") from error

    def snapshot_ids(self) -> list[str]:
        """Return the ids of all snapshots, staged ones included, sorted. Raises FileStoreError."""
        try:
            found = set(os.listdir(self._staging)) | set(os.listdir(self._snapshots))
        except OSError as error:
            raise store_error(error, f"The folder {self._root} cannot be listed") from error
        return sorted(filter(is_id, found))

    def free_bytes(self) -> int | None:
        """Return the free space for unprivileged users of the file system. Raises FileStoreError."""
        try:
            figures = os.statvfs(self._root)
        except OSError as error:
            raise store_error(error, f"The free space of the folder {self._root} is unknown") from error
        return figures.f_bavail * figures.f_frsize

    def probe(self) -> None:
        """Write, read and delete a small file. Raises FileStoreError."""
        path = self._staging / f"probe-{uuid.uuid4().hex}"
        try:
            try:
                path.write_bytes(b"daybreak")
                content = path.read_bytes()
            finally:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise store_error(error, f"The folder {self._root} cannot be written") from error
        if content != b"daybreak":
            raise FileStoreError(f"The folder {self._root} does not return what was written to it.")
