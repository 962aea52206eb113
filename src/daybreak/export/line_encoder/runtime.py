"""Runs line_encoder.wasm in wasmtime."""

from __future__ import annotations

import atexit
import ctypes
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import wasmtime

_PAGE_BYTES = 1 << 16


@cache
def unavailable_reason() -> str | None:
    """Return why the compiled encoder cannot run on this machine, None when it can.

    It needs the library wasmtime and a system that lets a process create executable memory.
    """
    try:
        EncoderInstance()
    except (ImportError, OSError, RuntimeError) as error:
        return str(error) or type(error).__name__
    except Exception as error:  # wasmtime's own error has no base class but Exception
        if type(error).__module__.partition(".")[0] != "wasmtime":
            raise
        return str(error)
    return None


@cache
def _module() -> tuple[wasmtime.Engine, wasmtime.Module]:
    import wasmtime

    # wasmtime cannot release a module after the interpreter has begun to shut down.
    atexit.register(_module.cache_clear)
    config = wasmtime.Config()
    # wasmtime must not start threads, because the process may fork later.
    config.parallel_compilation = False
    engine = wasmtime.Engine(config)
    code = files("daybreak.export.line_encoder").joinpath("line_encoder.wasm").read_bytes()
    return engine, wasmtime.Module(engine, code)


class EncoderInstance:
    """An instance of the compiled encoder with its own memory. `start` is the first byte that callers may use."""

    def __init__(self) -> None:
        import wasmtime

        engine, module = _module()
        self._store = wasmtime.Store(engine)
        exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        memory, encode = exports["memory"], exports["encode"]
        assert isinstance(memory, wasmtime.Memory)
        assert isinstance(encode, wasmtime.Func)
        self._memory, self._encode = memory, encode
        self.start = self.memory_bytes = int(self._memory.data_len(self._store))

    def encode(self, task_address: int) -> int:
        """Call the function `encode` of line_encoder.c with the address of a Task. Return its result, unsigned."""
        return int(self._encode(self._store, task_address)) & 0xFFFFFFFF

    def grow(self, size_bytes: int) -> None:
        """Enlarge the memory to at least `size_bytes`. Existing views become invalid."""
        missing = size_bytes - self.memory_bytes
        if missing > 0:
            self._memory.grow(self._store, -(-missing // _PAGE_BYTES))
            self.memory_bytes = int(self._memory.data_len(self._store))

    def view(self) -> memoryview:
        """Return a view of the memory, valid until it grows."""
        address = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        return memoryview((ctypes.c_ubyte * self.memory_bytes).from_address(address)).cast("B")
