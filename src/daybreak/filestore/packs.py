"""Packs: stored objects that contain many small files.

A run appends files up to `snapshot.pack_below` to packs. The key of such a file is a slice: the key of the pack, the
offset and the length. Unchanged files keep their slice in later snapshots, so a pack is kept while any snapshot refers
to it. `FileStore.trim` replaces the bytes of files that are no longer in use by zeros.
"""

from __future__ import annotations

import uuid
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from daybreak.domain.snapshot import PACK_BELOW
from daybreak.filestore.file_keys import range_of, slice_of, split_place
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


class UsedObjects:
    """Stored objects with files in use, and the ranges of packs that are in use. Methods raise FileStoreError."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys: set[str] = set()
        # Begin and end of each range: 16 bytes for a file, because there may be millions.
        self._ranges: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        self.add(keys)

    @property
    def packs(self) -> Collection[str]:
        """Keys of the packs."""
        return self._ranges.keys()

    def add(self, keys: Iterable[str]) -> None:
        """Add files. Neighbors in a pack become one range, as do the same files in several snapshots."""
        for key in keys:
            object_key, place = split_place(key)
            self.keys.add(object_key)
            if place:
                self._ranges[object_key].extend(range_of(place))
        for pack, ranges in self._ranges.items():
            self._ranges[pack] = _joined(ranges)

    def slices(self, pack: str) -> list[FileSlice]:
        """Return the ranges of a pack that are in use, in order."""
        ranges = self._ranges.get(pack, ())
        return [FileSlice(pack, begin, end - begin) for begin, end in zip(ranges[::2], ranges[1::2], strict=True)]


def _joined(ranges: Sequence[int]) -> array[int]:
    """Return ranges in order, with those that touch or overlap as one."""
    joined = array("Q")
    for begin, end in sorted(zip(ranges[::2], ranges[1::2], strict=True)):
        if joined and begin <= joined[-1]:
            joined[-1] = max(joined[-1], end)
        else:
            joined.extend((begin, end))
    return joined


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
    objects = UsedObjects(keys)
    return [pack for pack in objects.packs if _is_sparse(objects.slices(pack))]


def _is_sparse(slices: Sequence[FileSlice]) -> bool:
    end = slices[-1].offset + (slices[-1].length or 0)
    return 2 * sum(each.length or 0 for each in slices) < end - slices[0].offset


def gaps(slices: Sequence[FileSlice], end: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of the ranges of a pack of `end` bytes that are in none of the slices."""
    position = 0
    for each in sorted(slices, key=lambda each: each.offset):
        if position < min(each.offset, end):
            yield position, min(each.offset, end) - position
        position = max(position, each.offset + (each.length or 0))
    if position < end:
        yield position, end - position
