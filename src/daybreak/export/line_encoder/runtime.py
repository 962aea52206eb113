"""Runs line_encoder.wasm in wasmtime."""

from __future__ import annotations

import atexit
import ctypes
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from daybreak.domain.errors import RunError
from daybreak.export.line_encoder.wasmtime_internals import FunctionCaller
from daybreak.export.memory import copy

if TYPE_CHECKING:
    import wasmtime

_GROWTH_PAGES = 64
_GROWTH_BYTES = _GROWTH_PAGES << 16
# The compiled code reads and writes sixteen bytes at a time, so it can access bytes after the end of its data.
_PADDING_BYTES = 64
_MALFORMED_ROW = 0xFFFFFFFF


@cache
def unavailable_reason() -> str | None:
    """Return why the compiled code cannot run on this machine, None when it can.

    It needs the library wasmtime and a system that lets a process create executable memory.
    """
    try:
        Instance()
    except (AttributeError, ImportError, OSError, RuntimeError) as error:
        return str(error) or type(error).__name__
    except Exception as error:  # wasmtime's own error has no base class but Exception
        if type(error).__module__.partition(".")[0] != "wasmtime":
            raise
        return str(error)
    return None


@cache
def _module(package: str, name: str) -> tuple[wasmtime.Engine, wasmtime.Module]:
    import wasmtime

    # wasmtime cannot release a module after the interpreter has begun to shut down.
    atexit.register(_module.cache_clear)
    config = wasmtime.Config()
    # wasmtime must not start threads, because the process may fork later.
    config.parallel_compilation = False
    config.memory_may_move = False
    engine = wasmtime.Engine(config)
    code = files(package).joinpath(name).read_bytes()
    return engine, wasmtime.Module(engine, code)


class Instance:
    """An instance of a compiled module with its own memory, up to 4 GiB. The memory from `free` on is not assigned."""

    def __init__(self, package: str = "daybreak.export.line_encoder", name: str = "line_encoder.wasm") -> None:
        import wasmtime

        engine, module = _module(package, name)
        self._store = wasmtime.Store(engine)
        exports: Any = wasmtime.Instance(self._store, module, []).exports(self._store)
        self._exports: Mapping[str, Any] = exports
        self._caller = FunctionCaller(self._store)
        self._memory: wasmtime.Memory = exports["memory"]
        self.free = self.memory_bytes = int(self._memory.data_len(self._store))
        self.memory = self._view()

    def call(self, function: str, *arguments: int) -> int:
        """Call an exported function. Raises RunError for a row of unexpected layout."""
        result = self._caller.call(self._exports[function], *arguments)
        if result == _MALFORMED_ROW:
            raise RunError("A packed row has an unexpected layout. Install the DuckDB version of the lock file.")
        return result

    def reserve(self, size_bytes: int) -> int:
        """Assign memory and return its address. Enlarges the memory if necessary. Earlier views stay valid."""
        address = self.free
        self.free = (address + size_bytes + _PADDING_BYTES) & ~15
        missing = self.free + _PADDING_BYTES - self.memory_bytes
        if missing > 0:
            # Python makes a type for each size. Pages that are not used take no memory.
            self._memory.grow(self._store, -(-missing // _GROWTH_BYTES) * _GROWTH_PAGES)
            self.memory_bytes = int(self._memory.data_len(self._store))
            self.memory = self._view()
        return address

    def write(self, content: bytes | memoryview) -> int:
        """Assign memory, and copy the content to it. Return its address."""
        address = self.reserve(len(content))
        copy(self.memory[address : address + len(content)], content)
        return address

    def lend(self, give_back: Callable[[], object]) -> memoryview:
        """Return a view of the memory. `give_back`, which must refer to this instance, is called when neither the view
        nor a part of it is in use.
        """
        content = self._content()
        weakref.finalize(content, give_back).atexit = False
        return memoryview(content).cast("B")

    def _view(self) -> memoryview:
        return memoryview(self._content()).cast("B")

    def _content(self) -> ctypes.Array[ctypes.c_ubyte]:
        address = ctypes.addressof(self._memory.data_ptr(self._store).contents)
        return (ctypes.c_ubyte * self.memory_bytes).from_address(address)
