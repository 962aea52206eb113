"""Choice of the merge engine: compiled where it can run, in Python elsewhere. Both make the same bytes."""

from __future__ import annotations

from collections.abc import Callable

from daybreak.catalogue.resources import Resource
from daybreak.export.delta.kernel.kernel import KernelPool
from daybreak.export.delta.merge import MergeEngine, RowMerge
from daybreak.export.line_encoder import runtime


def merge_engines(resource: Resource) -> Callable[[], MergeEngine]:
    """Return a function that opens an engine for one Leader, in any thread. The caller closes the engine."""
    return (lambda: RowMerge(resource)) if runtime.unavailable_reason() else KernelPool(resource).open
