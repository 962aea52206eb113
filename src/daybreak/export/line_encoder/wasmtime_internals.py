"""Private parts of wasmtime: calls of compiled functions without its conversions.

`wasmtime.Func` looks up the types of a function for each call: a dozen calls of the library, which all release the
interpreter's lock. `tests/unit/export/test_wasmtime_internals.py` shows what a new version changed.
"""

from __future__ import annotations

from ctypes import POINTER, byref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import wasmtime

_MAX_ARGUMENTS = 3


class FunctionCaller:
    """Calls functions of one store whose arguments and result are 32-bit integers. Use it in one thread at a time."""

    def __init__(self, store: wasmtime.Store) -> None:
        """Raises AttributeError if wasmtime lacks a part."""
        from wasmtime import Trap, WasmtimeError, _ffi

        self._store, self._context = store, store._context()  # noqa: SLF001
        self._error_of, self._trap_of = WasmtimeError._from_ptr, Trap._from_ptr  # noqa: SLF001
        self._new_trap, self._call = POINTER(_ffi.wasm_trap_t), _ffi.wasmtime_func_call_unchecked
        # The library reads arguments from these values, and writes the result to the first.
        self._values = (_ffi.wasmtime_val_raw_t * _MAX_ARGUMENTS)()

    def call(self, function: wasmtime.Func, *arguments: int) -> int:
        """Call a function. Return its result, without sign; the first argument if it has none. Raises wasmtime.Trap."""
        values = self._values
        for place, argument in enumerate(arguments):
            values[place].i64 = argument
        trap = self._new_trap()
        error = self._call(self._context, byref(function._func), values, _MAX_ARGUMENTS, byref(trap))  # noqa: SLF001
        if bool(error):  # a null pointer is false
            raise self._error_of(error)
        if bool(trap):
            raise self._trap_of(trap)
        return values[0].i32 & 0xFFFFFFFF
