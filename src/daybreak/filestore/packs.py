"""Packs: stored objects that contain many small files.

A run appends files up to `snapshot.pack_below` to packs. The key of such a file is a slice: the key of the pack, the
offset and the length. Unchanged files keep their slice in later snapshots, so a pack is kept while any snapshot refers
to it. `FileStore.trim` replaces the bytes of files that are no longer in use by zeros.
"""

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from daybreak.domain.snapshot import PACK_BELOW
from daybreak.filestore.file_keys import slice_of, split_place
from daybreak.filestore.file_store import FileSlice

PACK_BYTES = 8 << 20
"""One request uploads a pack of this size, and trimming holds one in memory."""
_WINDOW_BYTES, _WINDOWS = 256 << 10, 16


class Packing(msgspec.Struct, frozen=True):
    """Maximum size of packed files, 0 for no packs, and of packs, in bytes."""

    file_bytes: int = PACK_BELOW
    pack_bytes: int = PACK_BYTES


DEFAULT_PACKING = Packing()
NO_PACKS = Packing(file_bytes=0)


def pack_folder(folder: str) -> str:
    """Return the folder of the packs in the folder of a snapshot or of its deltas."""
    return f"{folder}/packs/"


def new_pack(folder: str) -> str:
    """Return the key of a new pack in a folder."""
    return f"{folder}{uuid.uuid4().hex}.pack"


def small_content(
    pieces: Iterable[bytes | memoryview], maximum_bytes: int
) -> tuple[bytes, Iterable[bytes | memoryview]]:
    """Return the content of a file if it is small enough for a pack, and no pieces. Otherwise, and for an empty file,
    return nothing and all pieces.
    """
    if not maximum_bytes:
        return b"", pieces
    remaining = iter(pieces)
    read: list[bytes] = []
    size = 0
    for piece in remaining:
        size += memoryview(piece).nbytes
        if size > maximum_bytes:
            return b"", chain(read, (piece,), remaining)
        # The memory of a view may change when the next piece is requested.
        read.append(bytes(piece))
    return b"".join(read), ()


class PackReader:
    """Reads files of a bucket. For a packed file it requests a window of the pack, and keeps some windows: files that
    are read one after the other are often neighbors. Safe to use from several threads.

    `read` returns a number of bytes of an object from an offset, all without a number.
    """

    def __init__(self, read: Callable[[str, int, int | None], Iterator[bytes]]) -> None:
        self._read = read
        self._windows: deque[tuple[str, int, bytes]] = deque(maxlen=_WINDOWS)

    def read(self, key: str) -> Iterator[bytes]:
        """Yield the bytes of a file. Raises the errors of `read`."""
        part = slice_of(key)
        if part.length is None:
            yield from self._read(key, 0, None)
            return
        for pack, start, content in self._windows.copy():
            if pack == part.key and start <= part.offset and part.offset + part.length <= start + len(content):
                yield content[part.offset - start :][: part.length]
                return
        window = b"".join(self._read(part.key, part.offset, max(part.length, _WINDOW_BYTES)))
        self._windows.append((part.key, part.offset, window))
        yield window[: part.length]


def by_pack(keys: Iterable[str]) -> dict[str, list[FileSlice]]:
    """Return the slices among the keys, by the key of their pack. Raises FileStoreError."""
    found: dict[str, list[FileSlice]] = {}
    for key in keys:
        # Most keys may be of other files, and parsing them takes longer.
        if split_place(key)[1]:
            part = slice_of(key)
            found.setdefault(part.key, []).append(part)
    return found


def last_in_packs(keys: Iterable[str]) -> list[str]:
    """Return the keys of files without a pack, and the key of the last slice of each pack. A pack that contains it
    contains the others.
    """
    found: dict[str, tuple[int, str]] = {}
    for key in keys:
        object_key, place = split_place(key)
        offset = int(place.partition("+")[0]) if place else 0
        last = found.get(object_key)
        if last is None or last[0] < offset:
            found[object_key] = offset, key
    return [key for _, key in found.values()]


def sparse_packs(keys: Iterable[str]) -> list[str]:
    """Return the packs of which less than half is in use, as far as these keys show."""
    found = []
    for pack, slices in by_pack(keys).items():
        used = sum(each.length or 0 for each in slices)
        end = max(each.offset + (each.length or 0) for each in slices)
        if 2 * used < end - min(each.offset for each in slices):
            found.append(pack)
    return found


def gaps(slices: Sequence[FileSlice], end: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of the ranges of a pack of `end` bytes that are in none of the slices."""
    position = 0
    for each in sorted(slices, key=lambda each: each.offset):
        if position < min(each.offset, end):
            yield position, min(each.offset, end) - position
        position = max(position, each.offset + (each.length or 0))
    if position < end:
        yield position, end - position
