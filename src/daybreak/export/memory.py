"""Copies of memory without the interpreter's lock."""

import ctypes

_MIN_BYTES = 16 << 10
"""Below this size, waiting for the lock afterwards could take longer than the copy."""


def copy(target: memoryview, source: bytes | memoryview) -> None:
    """Copy bytes to memory of the same length. Other threads may run meanwhile, unless the source is read-only."""
    size = len(source)
    if size < _MIN_BYTES or isinstance(source, bytes) or source.readonly:
        target[:] = source
        return
    if len(target) != size:
        raise ValueError(f"{size} bytes cannot be copied to {len(target)} bytes.")
    first = ctypes.c_char.from_buffer
    ctypes.memmove(ctypes.byref(first(target)), ctypes.byref(first(source)), size)
