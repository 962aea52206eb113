"""Private parts of wasmtime that the export uses. A failure names what a new version changed; the fix is in
`daybreak.export.line_encoder.wasmtime_internals`.
"""

from typing import Any

import pytest
import wasmtime

from daybreak.export.line_encoder.runtime import unavailable_reason
from daybreak.export.line_encoder.wasmtime_internals import FunctionCaller

_MODULE = """
(module
  (func (export "difference") (param i32 i32) (result i32) local.get 0 local.get 1 i32.sub)
  (func (export "constant") (result i32) i32.const 7)
  (func (export "fails") unreachable))
"""


@pytest.fixture
def store() -> wasmtime.Store:
    return wasmtime.Store()


@pytest.fixture
def functions(store: wasmtime.Store) -> Any:
    return wasmtime.Instance(store, wasmtime.Module(store.engine, _MODULE), []).exports(store)


def test_arguments_and_results_are_unsigned(store: wasmtime.Store, functions: Any) -> None:
    caller = FunctionCaller(store)
    assert caller.call(functions["difference"], 0xFFFFFFFE, 1) == 0xFFFFFFFD
    assert caller.call(functions["difference"], 1, 2) == 0xFFFFFFFF
    assert caller.call(functions["constant"]) == 7


def test_a_trap_is_raised(store: wasmtime.Store, functions: Any) -> None:
    with pytest.raises(wasmtime.Trap, match="unreachable"):
        FunctionCaller(store).call(functions["fails"])


def test_a_missing_part_is_reported_as_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("wasmtime._ffi.wasmtime_func_call_unchecked")
    reason = unavailable_reason.__wrapped__()
    assert reason is not None
    assert "wasmtime_func_call_unchecked" in reason
