"""File store on a local or mounted disk.

A run writes below `staging/{snapshot_id}`. `LocalSink.commit` flushes the files once and renames the folder to
`snapshots/{snapshot_id}`. A killed run leaves a folder in `staging/`, or a folder in `snapshots/` that is in no
manifest. The next run deletes it.
"""

import os
import stat
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Literal

import msgspec

from daybreak.domain.errors import FileStoreError
from daybreak.domain.identity import is_id
from daybreak.filestore.durability import sync_folder
from daybreak.filestore.file_keys import (
    folder_of,
    is_within,
    mark_key,
    read_mark,
    slice_of,
    split_key,
    split_place,
)
from daybreak.filestore.file_store import (
    KINDS,
    FileRevision,
    FileSink,
    FileSlice,
    FreeSpace,
    Kind,
    PublicationMark,
    check_content,
)
from daybreak.filestore.local_errors import translated_os_errors
from daybreak.filestore.local_packs import erase_unused
from daybreak.filestore.local_revision import LocalRevision, locked_folder
from daybreak.filestore.local_sink import FILE_MODE, FOLDER_MODE, UNFINISHED, LocalSink, read_pieces, remove_tree
from daybreak.filestore.packs import DEFAULT_PACKING, Packing

_READ_BYTES = 1 << 20


def _open_regular(path: str, flags: int) -> int:
    """Open a file without following a symbolic link and without waiting for a named pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


class LocalDisk:
    """File store below one root folder. `FileStore` documents the methods."""

    full_verification = True

    def __init__(self, root: Path, packing: Packing = DEFAULT_PACKING) -> None:
        """Create the root folder if it does not exist. Raises FileStoreError."""
        self._packing = packing
        self._root = Path(os.path.abspath(root))
        self._root_name = str(self._root)
        self._staging = self._root / "staging"
        with translated_os_errors(f"files.url: the folder {self._root} cannot be used"):
            for folder in (*KINDS, "staging"):
                (self._root / folder).mkdir(FOLDER_MODE, parents=True, exist_ok=True)

    def stage(self, snapshot_id: str) -> FileSink:
        """Return the sink of one run. Raises FileStoreError if the snapshot is already staged."""
        final = self._root / folder_of("snapshots", snapshot_id)
        staged = self._staging / snapshot_id
        with translated_os_errors(f"The staging folder {staged} cannot be created"):
            staged.mkdir(FOLDER_MODE)
        return LocalSink(self._root, staged, final, self._packing)

    @contextmanager
    def revise(self, snapshot_id: str, revision: str) -> Iterator[FileRevision]:
        """Open the destination of files that replace others of a snapshot. Waits until no other process has one open,
        and deletes the files of a killed one.

        Raises FileStoreError.
        """
        final = self._root / folder_of("snapshots", snapshot_id)
        staged = self._staging / snapshot_id
        with locked_folder(self._staging):
            with translated_os_errors(f"The staging folder {staged} cannot be created"):
                remove_tree(staged, set())
                staged.mkdir(FOLDER_MODE)
            yield LocalRevision(staged, final, revision)

    def check(self, key: str, bytes: int, sha256: str) -> None:
        check_content(key, read_pieces(self._root_name, key, min(bytes + 1, _READ_BYTES)), bytes, sha256)

    @contextmanager
    def checking(self) -> Iterator[Callable[[str, int, str], None]]:
        """Return `check` for some files. It opens each pack once, because opening takes half of the time."""
        with ExitStack() as opened:

            @cache
            def handle_of(pack: str) -> int:
                file = FileIO(f"{self._root_name}/{pack}", opener=_open_regular)
                return opened.enter_context(file).fileno()

            def check(key: str, bytes: int, sha256: str) -> None:
                part = slice_of(key)
                if part.length is None:
                    self.check(key, bytes, sha256)
                    return
                with translated_os_errors(f"The file {part.key} cannot be read"):
                    content = os.pread(handle_of(part.key), part.length, part.offset)
                check_content(key, [content], bytes, sha256)

            yield check

    def add(self, key: str, resource: str, format: str, pieces: Iterable[bytes]) -> None:
        """Store a file of another store under the same key, durably. Raises FileStoreError if the key is taken."""
        del resource, format
        split_key(key)
        path = self._root / key
        unfinished = path.with_name(path.name + UNFINISHED)
        with translated_os_errors(f"The file {key} cannot be written"):
            try:
                path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
                with open(
                    os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE), "wb"
                ) as file:
                    file.writelines(pieces)
                    file.flush()
                    os.fsync(file.fileno())
                if path.exists():
                    raise FileStoreError(f"The file {key} exists. It is not replaced.")
                unfinished.rename(path)
                sync_folder(path.parent)
            finally:
                with suppress(OSError):
                    unfinished.unlink()

    def presence(self) -> Callable[[str, int], bool]:
        def found_bytes(key: str) -> int:
            split_key(key)
            with translated_os_errors(f"The file {key} cannot be read"):
                try:
                    found = os.stat(f"{self._root_name}/{key}", follow_symlinks=False)
                except (FileNotFoundError, NotADirectoryError):
                    return -1
            return found.st_size if stat.S_ISREG(found.st_mode) else -1

        found_pack_bytes = cache(found_bytes)

        def is_stored(key: str, size_bytes: int) -> bool:
            object_key, place = split_place(key)
            if not place:
                return found_bytes(key) == size_bytes
            return is_within(place, size_bytes, found_pack_bytes(object_key))

        return is_stored

    def open_local(self, key: str) -> FileIO | None:
        if slice_of(key).length is not None:
            return None
        with translated_os_errors(f"The file {key} cannot be read"):
            return FileIO(f"{self._root_name}/{key}", opener=_open_regular)

    async def packed(self, key: str) -> bytes | None:
        # Passing a small file to a thread takes longer than reading it.
        return None if slice_of(key).length is None else b"".join(self.read(key))

    async def signed_url(self, key: str, *, seconds: int, method: Literal["GET", "HEAD"] = "GET") -> str | None:
        return None

    def read(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of a file, or `length` of them from `start`, in pieces of 1 MiB. Raises FileStoreError."""
        return read_pieces(self._root_name, key, _READ_BYTES, start, length)

    async def stream(self, key: str, start: int, length: int, size_bytes: int | None = None) -> AsyncIterator[bytes]:
        for piece in self.read(key, start, length):
            yield piece

    def remove(self, kind: Kind, snapshot_id: str, kept: AbstractSet[str] = frozenset()) -> int:
        """Delete files of a snapshot, staged ones included, or its deltas, except the kept objects."""
        folder = self._root / folder_of(kind, snapshot_id)
        with translated_os_errors(f"The {kind} of {snapshot_id} cannot be deleted"):
            staged = remove_tree(self._staging / snapshot_id, set()) if kind == "snapshots" else 0
            return staged + remove_tree(folder, {name for own, name in map(split_key, kept) if own == snapshot_id})

    def delete(self, keys: Sequence[str]) -> None:
        folders = set()
        with translated_os_errors("Files cannot be deleted"):
            for key in keys:
                split_key(key)
                path = self._root / key
                path.unlink(missing_ok=True)
                folders.add(path.parent)
            for folder in folders:
                if folder.exists():
                    sync_folder(folder)

    def trim(self, pack: str, slices: Sequence[FileSlice]) -> bool:
        """Replace the bytes of a pack that are in none of the slices by holes. Return False: no other process stores
        them again. A missing pack is ignored. Raises FileStoreError.
        """
        with translated_os_errors(f"The pack {pack} cannot be trimmed"), suppress(FileNotFoundError):
            erase_unused(f"{self._root_name}/{pack}", slices)
        return False

    def ids(self, kind: Kind) -> list[str]:
        """Return the ids of all snapshots with files, staged ones included, or with deltas, sorted."""
        with translated_os_errors(f"The folder {self._root} cannot be listed"):
            found = {*os.listdir(self._root / kind), *(os.listdir(self._staging) if kind == "snapshots" else ())}
        return sorted(filter(is_id, found))

    def publication_mark(self, first_id: str) -> PublicationMark | None:
        key = mark_key(first_id)
        with translated_os_errors(f"The file {key} cannot be read"):
            try:
                return read_mark(key, (self._root / key).read_bytes())
            except FileNotFoundError:
                return None

    def mark_publication(self, first_id: str, mark: PublicationMark) -> None:
        path = self._root / mark_key(first_id)
        # A killed publication leaves this file, and the next attempt replaces it.
        temporary = path.with_name(f"{mark.snapshot_id}{UNFINISHED}")
        with translated_os_errors(f"The file {path} cannot be written"):
            path.parent.mkdir(FOLDER_MODE, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(mark))
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            sync_folder(path.parent)

    def free_space(self) -> FreeSpace | None:
        """Return the free space for unprivileged users of the file system. Raises FileStoreError."""
        with translated_os_errors(f"The free space of the folder {self._root} is unknown"):
            figures = os.statvfs(self._root)
        # File systems without a table of inodes, such as Btrfs, report a total of 0.
        return FreeSpace(figures.f_bavail * figures.f_frsize, figures.f_favail if figures.f_files else None)

    def probe(self) -> None:
        path = self._staging / f"probe-{uuid.uuid4().hex}"
        with translated_os_errors(f"The folder {self._root} cannot be written"):
            try:
                path.write_bytes(b"daybreak")
                content = path.read_bytes()
            finally:
                path.unlink(missing_ok=True)
        if content != b"daybreak":
            raise FileStoreError(f"The folder {self._root} does not return what was written to it.")
