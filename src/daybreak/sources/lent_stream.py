"""An Arrow stream of the database driver, lent to whoever reads it and kept: afterwards it can tell why it broke.

A reader takes a stream over and releases it when it fails, and what goes through it is an errno and words. The
SQLSTATE is to be had of the stream alone (`AdbcErrorFromArrayStream` of ADBC 1.1), so the reader gets another stream
that passes every call on and whose release frees nothing.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_uint8, c_void_p
from functools import cache
from typing import Any, ClassVar

from adbc_driver_manager import _lib
from nanoarrow.c_array_stream import allocate_c_array_stream


class _Stream(Structure):
    """`struct ArrowArrayStream` of the Arrow C stream interface."""


class _Error(Structure):
    """The beginning of `struct AdbcError`."""

    _fields_: ClassVar = [("message", c_char_p), ("vendor_code", c_int32), ("sqlstate", c_char * 5)]


_FILL = CFUNCTYPE(c_int, POINTER(_Stream), c_void_p)
_TELL = CFUNCTYPE(c_void_p, POINTER(_Stream))
_RELEASE = CFUNCTYPE(None, POINTER(_Stream))
_Stream._fields_ = [
    ("get_schema", _FILL),
    ("get_next", _FILL),
    ("get_last_error", _TELL),
    ("release", _RELEASE),
    ("private_data", c_void_p),
]


class LentStream:
    """Lends `handle`, a driver's stream, to one reader (`__arrow_c_stream__`). To be closed after the reader is."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        lent = allocate_c_array_stream()
        place = _Stream.from_address(lent._addr())  # noqa: SLF001 - there is no other way to fill a stream from Python
        place.get_schema, place.get_next, place.get_last_error, place.release = _CALLS
        place.private_data = self._handle.address
        return lent.__arrow_c_stream__(requested_schema)

    def sqlstate(self) -> str | None:
        """The server's code for what broke the stream; None when it was not the server that said so."""
        status = c_uint8()
        found = _error_of_stream()(self._handle.address, ctypes.byref(status))
        return (found.contents.sqlstate.decode("ascii") or None) if found else None

    def close(self) -> None:
        """Gives the driver's memory back."""
        self._handle.release()


@cache
def _error_of_stream() -> Any:
    function = ctypes.CDLL(_lib.__file__).AdbcErrorFromArrayStream
    function.argtypes = [c_void_p, POINTER(c_uint8)]
    function.restype = POINTER(_Error)
    return function


def _kept(lent: Any) -> Any:
    return _Stream.from_address(lent.contents.private_data)


def _get_schema(lent: Any, schema: int) -> int:
    kept = _kept(lent)
    return int(kept.get_schema(ctypes.byref(kept), schema))


def _get_next(lent: Any, array: int) -> int:
    kept = _kept(lent)
    return int(kept.get_next(ctypes.byref(kept), array))


def _get_last_error(lent: Any) -> Any:
    kept = _kept(lent)
    return kept.get_last_error(ctypes.byref(kept))


def _release(lent: Any) -> None:
    lent.contents.release = _RELEASE()


# For as long as the process lives: a reader may hold its stream for longer than the object that lent it.
_CALLS = (_FILL(_get_schema), _FILL(_get_next), _TELL(_get_last_error), _RELEASE(_release))
