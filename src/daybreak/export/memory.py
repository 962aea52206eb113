"""Memory outside Python's objects: copies without the interpreter's lock, and chunks that are used again."""

import ctypes
import mmap
from collections import deque

_MIN_BYTES = 256 << 10
"""Below this size, waiting for the lock afterwards takes longer than the copy."""
_BLOCK_BYTES = 4 << 20
"""Memory that is requested from the system at a time."""


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


class MemoryPool:
    """Chunks of up to 4 MiB. Those that are given back are used again, because the system clears each new page. Safe to
    use from several threads.
    """

    def __init__(self, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        self._free: deque[memoryview] = deque()

    def take(self, size: int = 0) -> memoryview:
        """Return a chunk, or `size` bytes if a chunk is too small."""
        if size > self._chunk_bytes:
            return _pages(size)
        try:
            return self._free.pop()
        except IndexError:
            block, size = _pages(_BLOCK_BYTES), self._chunk_bytes
        first, *others = (block[at : at + size] for at in range(0, _BLOCK_BYTES - size + 1, size))
        self._free += others
        return first

    def give_back(self, memory: memoryview) -> None:
        """Use a chunk again. Other memory is freed."""
        if len(memory) == self._chunk_bytes:
            self._free.append(memory)


def _pages(size: int) -> memoryview:
    # Python's default is memory that can be shared with other processes, whose pages take the system several times as
    # long.
    return memoryview(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
