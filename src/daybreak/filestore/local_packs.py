"""Packs on a local disk: appending small files, and erasing those that are no longer in use."""

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from daybreak.filestore.durability import opened
from daybreak.filestore.file_keys import slice_key
from daybreak.filestore.file_store import FileSlice, WrittenFile
from daybreak.filestore.packs import gaps, new_pack

# Data of the hole is freed; the file keeps its size (fallocate(2)).
_PUNCH_HOLE = 0x01 | 0x02
_libc = ctypes.CDLL(None)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_WRITE_BYTES = 128 << 10
"""Files of this size together are written to a pack at a time."""


class PackWriter:
    """Appends files to packs of at most `pack_bytes`, one open pack for each folder. `create` opens the new file of a
    pack, and `count` receives the number of bytes after each write. Safe to use from several threads. Every method
    raises OSError.
    """

    def __init__(self, pack_bytes: int, create: Callable[[str], int], count: Callable[[int], None]) -> None:
        self._pack_bytes = pack_bytes
        self._create, self._count = create, count
        self._lock = threading.Lock()
        self._open: dict[str, _OpenPack] = {}

    def append(self, folder: str, content: bytes) -> WrittenFile:
        """Add a file to the pack of a folder that is not full. Several files are written with one system call."""
        digest, size = hashlib.sha256(content).hexdigest(), len(content)
        with self._lock:
            pack = self._open.get(folder)
            if pack is None or pack.size + size > self._pack_bytes:
                if pack is not None:
                    self._write(pack)
                    os.close(self._open.pop(folder).handle)
                key = new_pack(folder)
                pack = self._open[folder] = _OpenPack(key, self._create(key))
            key = slice_key(pack.key, pack.size, size)
            pack.waiting.append(content)
            pack.size += size
            if pack.size - pack.written_size >= _WRITE_BYTES:
                self._write(pack)
        return WrittenFile(key, size, digest)

    def flush(self) -> None:
        """Write all files that were added."""
        with self._lock:
            for pack in self._open.values():
                self._write(pack)

    def close(self) -> None:
        """Close all packs, without writing the files that wait. Files that follow are added to new packs."""
        with self._lock:
            while self._open:
                os.close(self._open.popitem()[1].handle)

    def _write(self, pack: "_OpenPack") -> None:
        # After an error, the next call writes the same files again.
        self._count(_write_all_at(pack.handle, b"".join(pack.waiting), pack.written_size))
        pack.waiting.clear()
        pack.written_size = pack.size


@dataclass(slots=True)
class _OpenPack:
    key: str
    handle: int
    size: int = 0
    written_size: int = 0
    waiting: list[bytes] = field(default_factory=list)


def _write_all_at(handle: int, content: bytes, offset: int) -> int:
    """Write all content. After a short write, the next write raises the cause, such as a full disk."""
    written = 0
    while written < len(content):
        written += os.pwrite(handle, content[written:], offset + written)
    return written


def erase_unused(path: str, slices: Sequence[FileSlice]) -> None:
    """Replace the bytes of a pack that are in none of the slices by holes, durably. Raises OSError."""
    with opened(path, os.O_RDWR | os.O_NOFOLLOW) as handle:
        unused = [
            (start, length)
            for start, length in gaps(slices, os.fstat(handle).st_size)
            if os.pread(handle, length, start).strip(b"\0")
        ]
        for start, length in unused:
            # The bytes of a file system without holes are overwritten.
            if _libc.fallocate(handle, _PUNCH_HOLE, start, length):
                _write_all_at(handle, bytes(length), start)
        if unused:
            os.fsync(handle)
