"""Files on a local disk (or a mounted one).

A run writes below `staging/{snapshot_id}` and pays no sync for a file. `seal` syncs once, renames the folder to
`snapshots/{snapshot_id}` and syncs the names: only then may anybody be told of the files. A killed run leaves nothing
but a folder in `staging/` (or one in `snapshots/` that no manifest names), which the next run removes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

from daybreak.domain.errors import FileDamaged, FileStoreError, StoreFull
from daybreak.domain.identity import is_id
from daybreak.filestore.durable import EarlySync, sync_folder, sync_tree
from daybreak.filestore.keys import relative_name, snapshot_folder, split_key
from daybreak.ports.files import FileSink, StoreLink, WrittenFile

_UNFINISHED = ".unfinished"
_READ_BYTES = 1 << 20
# The files are people's data: for the service's own user and group alone.
_FOLDER_MODE = 0o750
_FILE_MODE = 0o640
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FOLDER_STAYS = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT})
_NO_HARD_LINK = frozenset({errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.EXDEV})


def _fault(error: OSError, what: str) -> FileStoreError:
    """The error of the tree that a system error stands for."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return StoreFull(f"{what}: {reason}. Make room for the files, then run again.")
    return FileStoreError(f"{what}: {reason}.")


def _itself(path: str, flags: int) -> int:
    """Opens what lies at the path itself: not what a link there names, and without waiting for anybody."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


class LocalDisk:
    """The file store on a disk, below one root folder. Makes the folder when it is not there."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.abspath(root))
        self._name = str(self._root)
        self._snapshots = self._root / "snapshots"
        self._staging = self._root / "staging"
        try:
            self._snapshots.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            self._staging.mkdir(_FOLDER_MODE, exist_ok=True)
        except OSError as error:
            raise _fault(error, f"files.url: the folder {self._root} cannot be used for files") from error

    @property
    def reads_cheaply(self) -> bool:
        return True

    def stage(self, snapshot_id: str) -> FileSink:
        """Where one run writes. Raises FileStoreError when a folder of that id is there already."""
        final = self._root / snapshot_folder(snapshot_id)
        staged = self._staging / snapshot_id
        try:
            staged.mkdir(_FOLDER_MODE)
        except OSError as error:
            raise _fault(error, f"The staging folder {staged} cannot be made") from error
        return LocalSink(self._root, staged, final)

    def check(self, key: str, bytes: int, sha256: str) -> None:
        """Reads the whole file. Raises FileDamaged, or FileStoreError when it is not there."""
        digest = hashlib.sha256()
        length = 0
        for piece in self._pieces(key, min(bytes + 1, _READ_BYTES)):
            digest.update(piece)
            length += len(piece)
        if length != bytes:
            raise FileDamaged(f"The file {key} is not what was written: {length} bytes where {bytes} were stored.")
        if digest.hexdigest() != sha256:
            raise FileDamaged(f"The file {key} is not what was written: its SHA-256 is another.")

    def open_local(self, key: str) -> FileIO:
        """The file, open to be read. Raises FileStoreError."""
        split_key(key)
        try:
            return FileIO(f"{self._name}/{key}", opener=_itself)
        except OSError as error:
            raise _fault(error, f"The file {key} cannot be read") from error

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
        """None: a disk signs no links of its own."""
        return None

    def read(self, key: str) -> Iterator[bytes]:
        """The file's bytes, in pieces of 1 MiB. Raises FileStoreError."""
        return self._pieces(key, _READ_BYTES)

    def _pieces(self, key: str, size_bytes: int) -> Iterator[bytes]:
        split_key(key)
        try:
            # Not joined as paths: a run reads every file back, and that costs a tenth of reading a small one.
            handle = os.open(f"{self._name}/{key}", os.O_RDONLY | os.O_NOFOLLOW)
            try:
                while piece := os.read(handle, size_bytes):
                    yield piece
            finally:
                os.close(handle)
        except OSError as error:
            raise _fault(error, f"The file {key} cannot be read") from error

    def remove(self, snapshot_id: str, keep_keys: frozenset[str]) -> int:
        """Deletes a snapshot's files, staged ones too; how many. Kept keys stay. Raises FileStoreError."""
        folder = self._root / snapshot_folder(snapshot_id)
        kept = {name for owner, name in map(split_key, keep_keys) if owner == snapshot_id}
        try:
            return _remove_tree(self._staging / snapshot_id, set()) + _remove_tree(folder, kept)
        except OSError as error:
            raise _fault(error, f"The files of snapshot {snapshot_id} cannot be removed") from error

    def snapshot_ids(self) -> list[str]:
        """Ids that lie below `staging/` or `snapshots/`. Raises FileStoreError."""
        try:
            found = set(os.listdir(self._staging)) | set(os.listdir(self._snapshots))
        except OSError as error:
            raise _fault(error, f"The folder {self._root} cannot be listed") from error
        return sorted(filter(is_id, found))

    def free_bytes(self) -> int | None:
        """Free space for an ordinary user of the file system, in bytes."""
        try:
            figures = os.statvfs(self._root)
        except OSError as error:
            raise _fault(error, f"The folder {self._root} cannot be asked for its free space") from error
        return figures.f_bavail * figures.f_frsize

    def probe(self) -> None:
        """Writes, reads and deletes a small file. Raises FileStoreError."""
        path = self._staging / f"probe-{uuid.uuid4().hex}"
        try:
            try:
                path.write_bytes(b"daybreak")
                good = path.read_bytes() == b"daybreak"
            finally:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _fault(error, f"The folder {self._root} cannot be written") from error
        if not good:
            raise FileStoreError(f"The folder {self._root} does not give back what was written to it.")


class LocalSink:
    """The staging folder of one run. Safe to call from several threads; a Spark task may hold its own copy."""

    def __init__(self, root: Path, staged: Path, final: Path) -> None:
        self._root = root
        self._staged = staged
        self._final = final
        self._own_folder = snapshot_folder(final.name)
        self._made: set[str] = set()
        self._lock = threading.Lock()
        self._early = EarlySync(staged)

    def __getstate__(self) -> tuple[Path, Path, Path]:
        return self._root, self._staged, self._final

    def __setstate__(self, state: tuple[Path, Path, Path]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Takes one finished file; a second writing of it (a task tried again) replaces the first whole.
        Raises FileStoreError, StoreFull; nothing of the file stays then.
        """
        name = relative_name(client_id, resource, format)
        path = f"{self._staged}/{name}"
        digest = hashlib.sha256()
        length = 0
        try:
            self._make_folder(name)
            handle, temporary = self._create(path)
            try:
                for piece in pieces:
                    digest.update(piece)
                    length += _write_all(handle, piece)
                if temporary != path:
                    os.replace(temporary, path)
            except BaseException:
                _unlink_own(handle, temporary)
                raise
            finally:
                os.close(handle)
            self._early.wrote(length)
        except OSError as error:
            raise _fault(error, f"The file {name} cannot be written") from error
        return WrittenFile(key=self._key(name), bytes=length, sha256=digest.hexdigest())

    def carry(self, key: str) -> str:
        """Links a file of an earlier snapshot into this one (copies it where the disk has no links): its new key.
        Raises FileStoreError when it is gone.
        """
        snapshot_id, name = split_key(key)
        source = f"{self._root}/snapshots/{snapshot_id}/{name}"
        target = f"{self._staged}/{name}"
        try:
            self._make_folder(name)
            try:
                os.link(source, target, follow_symlinks=False)
            except FileExistsError:
                self._link_anew(source, target)
            except OSError as error:
                if error.errno not in _NO_HARD_LINK:
                    raise
                shutil.copyfile(source, target)
        except OSError as error:
            raise _fault(error, f"The file {key} cannot be carried over") from error
        return self._key(name)

    def seal(self) -> None:
        """Everything durable, under its final name. The order is the promise: data, then the name, then the folder.
        Raises FileStoreError.
        """
        try:
            # What tasks had begun to write a second time when they were killed.
            _remove_tree(self._staged / _UNFINISHED, set())
            self._early.finish()
            sync_tree(self._staged)
            self._staged.rename(self._final)
            sync_folder(self._final.parent)
            sync_folder(self._staged.parent)
        except OSError as error:
            raise _fault(error, f"The files cannot be made durable as {self._final}") from error

    def discard(self) -> None:
        """Removes what was written, sealed or not. Raises FileStoreError."""
        try:
            _remove_tree(self._staged, set())
            _remove_tree(self._final, set())
        except OSError as error:
            raise _fault(error, "What was written cannot be removed") from error

    def _key(self, name: str) -> str:
        return f"{self._own_folder}/{name}"

    def _make_folder(self, name: str) -> None:
        folder = name.rpartition("/")[0]
        if folder in self._made:
            return
        os.makedirs(f"{self._staged}/{folder}", exist_ok=True)
        with self._lock:
            self._made.add(folder)

    def _create(self, path: str) -> tuple[int, str]:
        """A new file to write, and its name: the path itself, or one aside when something is there already."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, _FILE_MODE), path
        except FileExistsError:
            temporary = self._aside()
            return os.open(temporary, flags, _FILE_MODE), temporary

    def _link_anew(self, source: str, target: str) -> None:
        """Puts the link in the place of what another try of the task has put there."""
        if os.path.samefile(source, target):
            return
        temporary = self._aside()
        os.link(source, temporary, follow_symlinks=False)
        os.replace(temporary, target)

    def _aside(self) -> str:
        """A name in the staging folder that no file of the snapshot has."""
        folder = f"{self._staged}/{_UNFINISHED}"
        os.makedirs(folder, exist_ok=True)
        return f"{folder}/{uuid.uuid4().hex}"


def _write_all(handle: int, piece: bytes | memoryview) -> int:
    """Writes a piece whole: a short write (a limit, a full disk) is followed by the error that explains it."""
    rest = memoryview(piece).cast("B")
    length = len(rest)
    while rest:
        rest = rest[os.write(handle, rest) :]
    return length


def _unlink_own(handle: int, path: str) -> None:
    """Removes a failed file, unless another task has put its whole one there in the meantime."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            os.unlink(path)


def _remove_tree(folder: Path, kept: set[str]) -> int:
    """Removes a folder's files but the kept ones (names relative to it), and folders that are empty then. What another
    cleaner removes meanwhile is gone all the same.
    """
    removed = 0
    for path, _folders, names in os.walk(folder, topdown=False):
        for name in names:
            full = os.path.join(path, name)
            if kept and os.path.relpath(full, folder) in kept:
                continue
            with contextlib.suppress(FileNotFoundError):
                os.unlink(full)
                removed += 1
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in _FOLDER_STAYS:
                raise
    return removed
