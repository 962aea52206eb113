"""Staging folder of one run on a local disk."""

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from daybreak.domain.errors import FileDamaged
from daybreak.filestore.durability import BackgroundSync, sync_folder, sync_tree
from daybreak.filestore.file_keys import file_key, folder_of, format_folder, slice_of, split_key, split_place
from daybreak.filestore.file_store import WrittenFile
from daybreak.filestore.local_errors import translated_os_errors
from daybreak.filestore.local_packs import PackWriter
from daybreak.filestore.packs import NO_PACKS, Packing, pack_folder, small_content

# Files contain personal data: only the user and the group of the service have access.
FOLDER_MODE = 0o750
FILE_MODE = 0o640
UNFINISHED = ".unfinished"
_DELTAS = ".deltas"
_READ_BYTES = 1 << 20
_FOLDER_IN_USE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT})
_NO_HARD_LINK = frozenset({errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.EXDEV})


class LocalSink:
    """Files of one snapshot in their staging folder. Safe to use from several threads and, pickled, processes.

    A pickled sink writes no packs, because a repeated task would leave the files of the first attempt in its pack.
    """

    def __init__(self, root: Path, staged: Path, final: Path, packing: Packing = NO_PACKS) -> None:
        self._root = root
        self._staged = staged
        self._final = final
        self._snapshot_id = final.name
        self._key_prefix = f"{folder_of('snapshots', final.name)}/"
        self._delta_prefix = f"{folder_of('deltas', final.name)}/"
        self._final_deltas = root / self._delta_prefix
        self._folders: set[str] = set()
        self._lock = threading.Lock()
        self._background_sync = BackgroundSync(staged)
        self._packing, self.packs = packing, packing.file_bytes > 0
        self._packs = PackWriter(packing.pack_bytes, self._create_pack, self._background_sync.add)

    def __reduce__(self) -> tuple[object, ...]:
        return LocalSink, (self._root, self._staged, self._final)

    def write(self, client_id: str, resource: str, format: str, pieces: Iterable[bytes | memoryview]) -> WrittenFile:
        """Write a file, or atomically replace the file of an earlier attempt of the task.

        Raises FileStoreError, StoreFull; a failed write leaves no file.
        """
        key = file_key(self._snapshot_id, client_id, resource, format)
        with translated_os_errors(f"The file {key} cannot be written"):
            content, pieces = small_content(pieces, self._packing.file_bytes)
            if content:
                return self._packs.append(pack_folder(format_folder(self._snapshot_id, format)), content)
            name = self._staged_name(key)
            path = f"{self._staged}/{name}"
            digest, length = hashlib.sha256(), 0
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
            self._background_sync.add(length)
        return WrittenFile(key=key, bytes=length, sha256=digest.hexdigest())

    def read(self, key: str) -> Iterator[bytes]:
        return read_pieces(str(self._root), key, _READ_BYTES)

    def reuse(self, key: str, size_bytes: int) -> str:
        """Add a file of an earlier snapshot as a hard link, or as a copy where links are not supported.

        A packed file stays where it is: the run has looked for its pack. Returns the new key. Raises FileStoreError if
        another file does not exist or has another size.
        """
        if split_place(key)[1]:
            return key
        snapshot_id, name = split_key(key)
        source = f"{self._root}/snapshots/{snapshot_id}/{name}"
        target = f"{self._staged}/{name}"
        with translated_os_errors(f"The file {key} cannot be linked"):
            self._make_folder(name)
            try:
                os.link(source, target, follow_symlinks=False)
            except FileExistsError:
                self._replace_by_link(source, target)
            except OSError as error:
                if error.errno not in _NO_HARD_LINK:
                    raise
                shutil.copyfile(source, target)
            found_bytes = os.stat(target, follow_symlinks=False).st_size
        if found_bytes != size_bytes:
            raise FileDamaged(f"The file {key} is damaged: it has {found_bytes} bytes instead of {size_bytes}.")
        return self._key_prefix + name

    def commit(self) -> None:
        """Flush all files to disk, then rename the folders, then flush the names. Raises FileStoreError."""
        with translated_os_errors(f"The files cannot be made durable as {self._final}"):
            self._packs.flush()
            self._packs.close()
            # Temporary files of killed tasks.
            remove_tree(self._staged / UNFINISHED, set())
            self._background_sync.finish()
            sync_tree(self._staged)
            staged_deltas = self._staged / _DELTAS
            if staged_deltas.exists():
                staged_deltas.rename(self._final_deltas)
                sync_folder(self._final_deltas.parent)
            self._staged.rename(self._final)
            sync_folder(self._final.parent)
            sync_folder(self._staged.parent)

    def discard(self) -> None:
        with translated_os_errors("The files of the failed run cannot be deleted"):
            self._packs.close()
            remove_tree(self._staged, set())
            remove_tree(self._final, set())
            remove_tree(self._final_deltas, set())

    def _create_pack(self, key: str) -> int:
        name = self._staged_name(key)
        self._make_folder(name)
        return os.open(f"{self._staged}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)

    def _staged_name(self, key: str) -> str:
        """Return the path of a file in the staging folder."""
        if key.startswith(self._delta_prefix):
            return f"{_DELTAS}/{key.removeprefix(self._delta_prefix)}"
        return key.removeprefix(self._key_prefix)

    def _make_folder(self, name: str) -> None:
        folder = name.rpartition("/")[0]
        if folder in self._folders:
            return
        os.makedirs(f"{self._staged}/{folder}", exist_ok=True)
        with self._lock:
            self._folders.add(folder)

    def _create(self, path: str) -> tuple[int, str]:
        """Create a file. Return its handle and path, which is a temporary one if the file exists."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, FILE_MODE), path
        except FileExistsError:
            temporary = self._temporary_path()
            return os.open(temporary, flags, FILE_MODE), temporary

    def _replace_by_link(self, source: str, target: str) -> None:
        """Replace the file of an earlier attempt of the task by a link."""
        if os.path.samefile(source, target):
            return
        temporary = self._temporary_path()
        os.link(source, temporary, follow_symlinks=False)
        os.replace(temporary, target)

    def _temporary_path(self) -> str:
        folder = f"{self._staged}/{UNFINISHED}"
        os.makedirs(folder, exist_ok=True)
        return f"{folder}/{uuid.uuid4().hex}"


def _write_all(handle: int, piece: bytes | memoryview) -> int:
    """Write a whole piece. After a short write, the next write raises the cause, such as a full disk."""
    remaining = memoryview(piece).cast("B")
    length = len(remaining)
    while remaining:
        remaining = remaining[os.write(handle, remaining) :]
    return length


def _unlink_own(handle: int, path: str) -> None:
    """Delete a failed file unless another task has replaced it by a complete one."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            os.unlink(path)


def remove_tree(folder: Path, kept: set[str]) -> int:
    """Delete the files of a folder except the kept names (relative to it), and empty folders. Return their number.

    Several processes may delete the same folder at the same time. Raises OSError.
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
            if error.errno not in _FOLDER_IN_USE:
                raise
    return removed


def read_pieces(root: str, key: str, size_bytes: int, start: int = 0, length: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a stored file, or `length` of them from `start`, in pieces. Raises FileStoreError."""
    part = slice_of(key)
    start, length = part.part(start, length)
    left = sys.maxsize if length is None else length
    with translated_os_errors(f"The file {key} cannot be read"):
        # Path objects would add a tenth to the time of reading a small file, and a run reads every file back.
        handle = os.open(f"{root}/{part.key}", os.O_RDONLY | os.O_NOFOLLOW)
        try:
            while left and (piece := os.pread(handle, min(size_bytes, left), start)):
                start, left = start + len(piece), left - len(piece)
                yield piece
        finally:
            os.close(handle)
