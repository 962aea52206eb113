"""Replacement files for a snapshot on a local disk."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from daybreak.filestore.durability import opened, sync_folder
from daybreak.filestore.file_keys import folder_of, relative_name
from daybreak.filestore.file_store import WrittenFile
from daybreak.filestore.local_errors import translated_os_errors
from daybreak.filestore.local_sink import FILE_MODE, FOLDER_MODE, remove_tree


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes and threads that lock it. Some network file systems have no locks; nothing
    is locked there.
    """
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as handle:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class LocalRevision:
    """Files that are written to a staging folder and moved to the folder of the snapshot by `commit`."""

    def __init__(self, staged: Path, final: Path, revision: str) -> None:
        self._staged = staged
        self._final = final
        self.name = revision
        self._names: list[str] = []

    def key(self, client_id: str, resource: str, format: str) -> str:
        name = relative_name(client_id, resource, format, self.name)
        return f"{folder_of('snapshots', self._final.name)}/{name}"

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes]) -> WrittenFile:
        """Write a file and flush it to disk. Raises FileStoreError, StoreFull."""
        name = relative_name(client_id, resource, format, self.name)
        path = self._staged / name
        digest = hashlib.sha256()
        length = 0
        with translated_os_errors(f"The file {name} cannot be written"):
            path.parent.mkdir(FOLDER_MODE, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE), "wb") as file:
                for piece in pieces:
                    digest.update(piece)
                    length += file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        self._names.append(name)
        return WrittenFile(self.key(client_id, resource, format), length, digest.hexdigest())

    def commit(self) -> None:
        """Move the files to the folder of the snapshot, and flush the names. Raises FileStoreError."""
        folders = set()
        with translated_os_errors(f"The files cannot be made durable in {self._final}"):
            for name in self._names:
                target = self._final / name
                target.parent.mkdir(FOLDER_MODE, exist_ok=True)
                os.replace(self._staged / name, target)
                folders.add(target.parent)
            for folder in (*folders, self._final):
                sync_folder(folder)
            remove_tree(self._staged, set())
