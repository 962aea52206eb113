"""Memory outside Python's objects: copies without the interpreter's lock, and memory that is used again or returned."""

import ctypes
import mmap
from collections import deque

_MIN_BYTES = 256 << 10
"""Below this size, waiting for the lock afterwards takes longer than the copy."""
_BLOCK_BYTES = 4 << 20
"""Memory that is requested from the system at a time."""

_libc = ctypes.CDLL(None)


def copy(target: memoryview, source: bytes | memoryview) -> None:
    """Copy bytes to memory of the same length. Other threads may run meanwhile, unless the source is read-only."""
    size = len(source)
    if len(target) != size:
        raise ValueError(f"{size} bytes cannot be copied to {len(target)} bytes.")
    if size < _MIN_BYTES or isinstance(source, bytes) or source.readonly:
        target[:] = source
        return
    first = ctypes.c_char.from_buffer
    ctypes.memmove(ctypes.byref(first(target)), ctypes.byref(first(source)), size)


def discard(memory: memoryview) -> None:
    """Return whole pages of writable memory to the system. Afterwards, their content is undefined."""
    size, page = len(memory), mmap.PAGESIZE
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start, end = -(-address // page) * page, (address + size) // page * page
    if start < end:
        _libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


class MemoryPool:
    """Chunks of up to 4 MiB. Those that are given back are used again, because the system clears each new page. Safe to
    use from several threads.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        self._free: deque[memoryview] = deque()

    def take(self) -> memoryview:
        """Return a chunk."""
        try:
            return self._free.pop()
        except IndexError:
            size = self._chunk_bytes
            # Python's default is memory that can be shared with other processes, whose pages take the system several
            # times as long.
            block = memoryview(mmap.mmap(-1, _BLOCK_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        first, *others = (block[at : at + size] for at in range(0, _BLOCK_BYTES - size + 1, size))
        self._free += others
        return first

    def give_back(self, memory: memoryview) -> None:
        """Use a chunk again."""
        self._free.append(memory)
